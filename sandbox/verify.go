// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/sandbox/cluster"
)

// Verify checks all allocations in the state against what its ResourceSlices
// publish: nothing is given out twice, nothing is over-committed. It does not
// matter who allocated. No violation means that the books are right.
func Verify(state *cluster.State) []alloc.Violation {
	slices := make([]*resourceapi.ResourceSlice, len(state.Slices))
	for i := range state.Slices {
		slices[i] = &state.Slices[i]
	}
	claims := make([]*resourceapi.ResourceClaim, len(state.Claims))
	for i := range state.Claims {
		claims[i] = &state.Claims[i]
	}
	return alloc.CheckCluster(slices, claims)
}
