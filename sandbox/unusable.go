// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/sandbox/cluster"
)

// UnusablePools says of each resource pool from which nothing can be allocated
// why: slices are missing, or contradict each other, or refer to something that
// the pool does not have.
func UnusablePools(state *cluster.State) []string {
	var unusable []string
	for pool := range state.Inventory().Snapshot().Pools {
		if why := explain.Pool(pool); why != "" {
			unusable = append(unusable, why)
		}
	}
	return unusable
}
