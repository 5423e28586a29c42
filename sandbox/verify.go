// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/sandbox/cluster"
)

// Verify checks all allocations in the state against what its ResourceSlices
// publish: nothing is given out twice, nothing is over-committed. It does not
// matter who allocated. No violation means that the books are right.
func Verify(state *cluster.State) []alloc.Violation {
	return alloc.CheckCluster(state.ResourceSlices, state.ResourceClaims)
}
