// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"maps"

	resourceapi "k8s.io/api/resource/v1"
)

// LastKnown returns the devices of an allocation like [Snapshot.DevicesOf]. While a driver
// replaces the slices of a pool, one that is not in those which are there already is as
// it was in those before: what keeps pods from it does so all the time.
func (s *Snapshot) LastKnown(a *resourceapi.AllocationResult) []*Device {
	devices := s.DevicesOf(a)
	for i, r := range a.Devices.Results {
		if devices[i] != nil {
			continue
		}
		id := IDOf(&r)
		if e, found := s.pools.Get(poolKey(id.PoolID())); found && e.former != nil {
			devices[i] = e.former.Device(id.Device)
		}
	}
	return devices
}

// formerPool is the generation before the highest, nil where that is complete or there is
// none.
func (inv *Inventory) formerPool(id PoolID, e *poolEntry) *Pool {
	incomplete := false
	for p := range e.all {
		incomplete = incomplete || p.pool.Problem != nil && p.pool.Problem.Kind == Incomplete
	}
	if !incomplete {
		return nil
	}
	rest := maps.Clone(inv.pools[id])
	for _, slice := range newest(rest) {
		delete(rest, slice.Name)
	}
	if len(rest) == 0 {
		return nil
	}
	return newPool(id, newest(rest), inv.sortedRules(), inv.kept)
}
