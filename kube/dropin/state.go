// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package dropin

import (
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"kerf.dev/kerf/inventory"
)

// state is what is allocated already.
type state struct {
	structured.AllocatedState
	// shares counts the shares per device.
	shares func() map[structured.DeviceID]int
	// uses are those of the pools that were asked for.
	uses registry[*pool, *inventory.PoolUse]
}

func newState(allocated structured.AllocatedState) *state {
	s := &state{AllocatedState: allocated}
	s.shares = sync.OnceValue(func() map[structured.DeviceID]int {
		shares := make(map[structured.DeviceID]int, len(allocated.AllocatedSharedDeviceIDs))
		for id := range allocated.AllocatedSharedDeviceIDs {
			shares[id.GetDeviceID()]++
		}
		return shares
	})
	return s
}

// use returns what is taken of the pool.
func (s *state) use(p *pool) *inventory.PoolUse {
	if known, found := s.uses.get(p); found {
		return known
	}
	use := s.newUse(p)
	s.uses.set(p, use)
	return use
}

// newUse follows the slices as they are: a device that left its pool holds
// nothing. A counter below zero closes all counters of its pool, for the stock
// allocator checks them all for each device.
func (s *state) newUse(p *pool) *inventory.PoolUse {
	use := &inventory.PoolUse{Taken: make([]*inventory.Occupancy, len(p.Devices))}
	if len(p.Counters) > 0 {
		use.Free = make([]inventory.Amount, len(p.Counters))
		use.Closed = make([]bool, len(p.Sets))
		for i, c := range p.Counters {
			use.Free[i] = c.Value
		}
	} else if len(p.Sets) > 0 {
		use.Closed = make([]bool, len(p.Sets))
	}
	if s.empty() {
		return use
	}
	ids := p.ids()
	for i, d := range p.Devices {
		o := s.occupancy(ids[i])
		if o == nil {
			continue
		}
		use.Taken[i] = o
		for _, draw := range d.Draws {
			use.Free[draw.Counter] = use.Free[draw.Counter].Sub(draw.Amount)
		}
	}
	for _, free := range use.Free {
		if free.Sign() < 0 {
			for set := range use.Closed {
				use.Closed[set] = true
			}
		}
	}
	return use
}

func (s *state) empty() bool {
	return len(s.AllocatedDevices) == 0 && len(s.AllocatedSharedDeviceIDs) == 0 && len(s.AggregatedCapacity) == 0
}

// whole is the occupancy of a device that is allocated to one claim.
var whole = &inventory.Occupancy{Dedicated: true}

// occupancy returns what is taken of a device, nil where it is free.
func (s *state) occupancy(id structured.DeviceID) *inventory.Occupancy {
	dedicated := s.AllocatedDevices.Has(id)
	if len(s.AllocatedSharedDeviceIDs) == 0 && len(s.AggregatedCapacity) == 0 {
		if dedicated {
			return whole
		}
		return nil
	}
	shares := s.shares()[id]
	consumed, found := s.AggregatedCapacity[id]
	switch {
	case shares == 0 && !found && dedicated:
		return whole
	case shares == 0 && !found:
		return nil
	}
	o := &inventory.Occupancy{Dedicated: dedicated, Shares: max(shares, 1)}
	for name, q := range consumed {
		if o.Consumed == nil {
			o.Consumed = make(map[resourceapi.QualifiedName]inventory.Amount, len(consumed))
		}
		local := inventory.LocalName(id.Driver.String(), name)
		o.Consumed[local] = o.Consumed[local].Add(inventory.AmountOf(*q))
	}
	return o
}
