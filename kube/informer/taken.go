// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"cmp"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	draapi "k8s.io/dynamic-resource-allocation/api"
	"k8s.io/dynamic-resource-allocation/structured/schedulerapi"

	"kerf.dev/kerf/inventory"
)

// taken are the devices that claims hold: whole devices and shares of devices.
type taken struct {
	dedicated sets.Set[schedulerapi.DeviceID]
	// nowhere are those for which no node is known.
	nowhere sets.Set[schedulerapi.DeviceID]
	shared  map[schedulerapi.DeviceID]*sharing
}

// sharing is what is taken of a device that allows multiple allocations.
type sharing struct {
	shares   sets.Set[draapi.UniqueString]
	consumed map[resourceapi.QualifiedName]inventory.Amount
}

func (s *sharing) equal(other *sharing) bool {
	return other != nil && maps.Equal(s.shares, other.shares) && maps.Equal(s.consumed, other.consumed)
}

// newTaken returns what the state says, and the other devices as a whole.
func newTaken(state *schedulerapi.AllocatedState, others []inventory.DeviceID) taken {
	t := taken{dedicated: state.AllocatedDevices, nowhere: sets.New[schedulerapi.DeviceID](), shared: map[schedulerapi.DeviceID]*sharing{}}
	for _, id := range others {
		t.dedicated.Insert(schedulerapi.MakeDeviceID(id.Driver, id.Pool, id.Device))
	}
	of := func(id schedulerapi.DeviceID) *sharing {
		if t.shared[id] == nil {
			t.shared[id] = &sharing{shares: sets.New[draapi.UniqueString](), consumed: map[resourceapi.QualifiedName]inventory.Amount{}}
		}
		return t.shared[id]
	}
	for share := range state.AllocatedSharedDeviceIDs {
		of(share.GetDeviceID()).shares.Insert(share.ShareID)
	}
	for id, capacity := range state.AggregatedCapacity {
		if t.shared[id] == nil {
			// What is left of the sum after the last share has gone.
			continue
		}
		for name, quantity := range capacity {
			t.shared[id].consumed[name] = inventory.AmountOf(*quantity)
		}
	}
	return t
}

// syncTo changes the holds in the inventory from those before to those of t. NodeOf says
// on which node alone a device can be used; the claim may be heard of after the device.
func (t taken) syncTo(inv *inventory.Inventory, before taken, nodeOf func(inventory.DeviceID) string) {
	for id := range t.dedicated {
		known := before.dedicated.Has(id)
		if known && !before.nowhere.Has(id) {
			continue
		}
		node := nodeOf(deviceID(id))
		if node == "" {
			t.nowhere.Insert(id)
		}
		if !known || node != "" {
			inv.SetHolds(dedicatedOwner(id), []inventory.Hold{{Device: deviceID(id), Node: node}})
		}
	}
	for id := range before.dedicated {
		if !t.dedicated.Has(id) {
			inv.SetHolds(dedicatedOwner(id), nil)
		}
	}
	for id, s := range t.shared {
		if !s.equal(before.shared[id]) {
			inv.SetHolds(sharedOwner(id), s.holds(id))
		}
	}
	for id := range before.shared {
		if t.shared[id] == nil {
			inv.SetHolds(sharedOwner(id), nil)
		}
	}
}

// holds returns one hold per share. The manager adds up what is consumed, so the
// first stands for all.
func (s *sharing) holds(id schedulerapi.DeviceID) []inventory.Hold {
	var holds []inventory.Hold
	for _, share := range slices.SortedFunc(maps.Keys(s.shares), func(a, b draapi.UniqueString) int { return cmp.Compare(a.String(), b.String()) }) {
		holds = append(holds, inventory.Hold{Device: deviceID(id), ShareID: types.UID(share.String())})
	}
	holds[0].Consumed = s.consumed
	return holds
}

// Owners of holds are devices here: claims are not known.
func dedicatedOwner(id schedulerapi.DeviceID) string { return "dedicated " + id.String() }
func sharedOwner(id schedulerapi.DeviceID) string    { return "shared " + id.String() }

func deviceID(id schedulerapi.DeviceID) inventory.DeviceID {
	return inventory.DeviceID{Driver: id.Driver.String(), Pool: id.Pool.String(), Device: id.Device.String()}
}
