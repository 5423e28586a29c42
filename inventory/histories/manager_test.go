// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"cmp"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured/schedulerapi"

	"kerf.dev/kerf/inventory"
)

// manager is the scheduler's manager of claims: it knows which devices are held, but not
// by whom, and of shares the sum of what they consume.
type manager struct {
	whole  map[inventory.DeviceID]int
	shares map[inventory.DeviceID]map[types.UID]bool
	sums   schedulerapi.ConsumedCapacityCollection
}

func newManager() *manager {
	return &manager{whole: map[inventory.DeviceID]int{}, shares: map[inventory.DeviceID]map[types.UID]bool{}, sums: schedulerapi.NewConsumedCapacityCollection()}
}

func (m *manager) replace(old, next *resourceapi.ResourceClaim, inv *inventory.Inventory) {
	touched := map[inventory.DeviceID]bool{}
	for id, r := range results(old) {
		touched[id] = true
		if r.ShareID == nil {
			m.whole[id]--
			continue
		}
		delete(m.shares[id], *r.ShareID)
		if r.ConsumedCapacity != nil {
			m.sums.Remove(schedulerapi.NewDeviceConsumedCapacity(schedulerapi.MakeDeviceID(id.Driver, id.Pool, id.Device), r.ConsumedCapacity))
		}
	}
	for id, r := range results(next) {
		touched[id] = true
		if r.ShareID == nil {
			m.whole[id]++
			continue
		}
		if m.shares[id] == nil {
			m.shares[id] = map[types.UID]bool{}
		}
		m.shares[id][*r.ShareID] = true
		if r.ConsumedCapacity != nil {
			m.sums.Insert(schedulerapi.NewDeviceConsumedCapacity(schedulerapi.MakeDeviceID(id.Driver, id.Pool, id.Device), r.ConsumedCapacity))
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(touched), func(a, b inventory.DeviceID) int { return cmp.Compare(a.String(), b.String()) }) {
		m.tell(inv, id)
	}
}

// tell has the inventory know of a device what package kube/informer makes of it.
func (m *manager) tell(inv *inventory.Inventory, id inventory.DeviceID) {
	var whole, shared []inventory.Hold
	if m.whole[id] > 0 {
		whole = []inventory.Hold{{Device: id}}
	}
	for _, share := range slices.Sorted(maps.Keys(m.shares[id])) {
		shared = append(shared, inventory.Hold{Device: id, ShareID: share})
	}
	if len(shared) > 0 {
		shared[0].Consumed = map[resourceapi.QualifiedName]inventory.Amount{}
		for name, q := range m.sums[schedulerapi.MakeDeviceID(id.Driver, id.Pool, id.Device)] {
			shared[0].Consumed[name] = inventory.AmountOf(*q)
		}
	}
	inv.SetHolds("dedicated "+id.String(), whole)
	inv.SetHolds("shared "+id.String(), shared)
}

// results are what a claim holds.
func results(claim *resourceapi.ResourceClaim) func(yield func(inventory.DeviceID, *resourceapi.DeviceRequestAllocationResult) bool) {
	return func(yield func(inventory.DeviceID, *resourceapi.DeviceRequestAllocationResult) bool) {
		if claim == nil || claim.Status.Allocation == nil {
			return
		}
		for i := range claim.Status.Allocation.Devices.Results {
			r := &claim.Status.Allocation.Devices.Results[i]
			if r.AdminAccess != nil && *r.AdminAccess {
				continue
			}
			if !yield(inventory.DeviceID{Driver: r.Driver, Pool: r.Pool, Device: r.Device}, r) {
				return
			}
		}
	}
}
