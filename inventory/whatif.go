// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"maps"
	"slices"
)

// WhatIf returns the view as it would be without the freed holds and with the
// taken ones; the view itself does not change. It serves simulations: devices of
// pods that could be preempted, devices that a claim should keep away from.
//
// Holds to free that are not there are ignored. A hold is there if its holder
// holds the device, or somebody whose name the inventory does not know. What
// becomes free is never overstated: devices that consumed more when they were
// taken than they are published with now, or that their pool does not publish
// any more, give back what is published now, or nothing.
func (v *View) WhatIf(freed, taken []Hold) *View {
	changes := map[PoolID]*useChange{}
	of := func(h Hold) *useChange {
		id := h.Device.PoolID()
		if changes[id] == nil {
			changes[id] = &useChange{}
		}
		return changes[id]
	}
	for _, h := range freed {
		of(h).freed = append(of(h).freed, h)
	}
	for _, h := range taken {
		of(h).taken = append(of(h).taken, h)
	}
	result := &View{Node: v.Node, Pools: slices.Clone(v.Pools), Room: v.Room}
	for i := range result.Pools {
		pv := &result.Pools[i]
		if change := changes[pv.Pool.ID]; change != nil {
			pv.Use = change.apply(pv.Pool, pv.Use)
		}
	}
	return result
}

// Vacated returns the view as it would be if nobody held the devices; the view itself
// does not change. What becomes free of counters is what is published now.
func (v *View) Vacated(devices []*Device) *View {
	result := &View{Node: v.Node, Pools: slices.Clone(v.Pools), Room: v.Room}
	of := map[PoolID][]*Device{}
	for _, d := range devices {
		of[d.ID.PoolID()] = append(of[d.ID.PoolID()], d)
	}
	for i := range result.Pools {
		pv := &result.Pools[i]
		if devices := of[pv.Pool.ID]; len(devices) > 0 {
			pv.Use = pv.Use.clone()
			for _, d := range devices {
				pv.Use.vacate(pv.Pool.Device(d.ID.Device))
			}
		}
	}
	return result
}

// useChange is what WhatIf changes in one pool.
type useChange struct {
	freed, taken []Hold
}

func (c *useChange) apply(p *Pool, use *PoolUse) *PoolUse {
	next, own := use.clone(), copies{}
	for _, h := range c.freed {
		if d := p.Device(h.Device.Device); d != nil {
			next.free(own, d, h)
		} else if o := next.Gone[h.Device.Device]; o != nil {
			if o = own.without(o, h); o != nil {
				next.Gone[h.Device.Device] = o
			} else {
				delete(next.Gone, h.Device.Device)
			}
		}
	}
	for _, h := range c.taken {
		if d := p.Device(h.Device.Device); d != nil {
			next.take(d, h)
		}
	}
	return next
}

func (u *PoolUse) clone() *PoolUse {
	return &PoolUse{Taken: slices.Clone(u.Taken), Gone: maps.Clone(u.Gone), Free: slices.Clone(u.Free), Closed: u.Closed}
}

func (u *PoolUse) free(own copies, d *Device, h Hold) {
	before := u.Taken[d.Index]
	if before == nil {
		return
	}
	if after := own.without(before, h); after != nil {
		u.Taken[d.Index] = after
	} else {
		u.vacate(d)
	}
}

// vacate gives back all that is taken of a device; nil is none.
func (u *PoolUse) vacate(d *Device) {
	if d == nil || u.Taken[d.Index] == nil {
		return
	}
	u.Taken[d.Index] = nil
	for _, draw := range d.Draws {
		u.Free[draw.Counter] = u.Free[draw.Counter].Add(draw.Amount)
	}
}

func (u *PoolUse) take(d *Device, h Hold) {
	after := &Occupancy{}
	if before := u.Taken[d.Index]; before != nil {
		after = before.clone()
	} else {
		for _, draw := range d.Draws {
			u.Free[draw.Counter] = u.Free[draw.Counter].Sub(draw.Amount)
		}
	}
	after.add(h)
	u.Taken[d.Index] = after
}

func (o *Occupancy) clone() *Occupancy {
	next := *o
	next.Consumed = maps.Clone(o.Consumed)
	next.Holders = slices.Clone(o.Holders)
	return &next
}

// copies are occupancies that nobody else has: of many holds on one device, the first
// that is taken away copies what there was.
type copies map[*Occupancy]bool

// without returns what is left without the hold, nil if nothing is.
func (own copies) without(o *Occupancy, h Hold) *Occupancy {
	i := slices.Index(o.Holders, h.Holder)
	if i < 0 {
		i = slices.Index(o.Holders, Holder{})
	}
	dedicated := h.ShareID == ""
	if i < 0 || dedicated && !o.Dedicated || !dedicated && o.Shares == 0 {
		return o
	}
	if len(o.Holders) == 1 {
		return nil
	}
	next := o
	if !own[o] {
		next = o.clone()
		own[next] = true
	}
	next.Holders = slices.Delete(next.Holders, i, i+1)
	if dedicated {
		next.Dedicated = len(next.Holders) > next.Shares
		return next
	}
	next.Shares--
	next.giveBack(h)
	return next
}

// giveBack gives back no more of a capacity than was taken: the hold may be told by
// somebody else than who took it, and the occupancy have nothing of it.
func (o *Occupancy) giveBack(h Hold) {
	for name, amount := range h.Consumed {
		name = LocalName(h.Device.Driver, name)
		taken, known := o.Consumed[name]
		if !known || amount.Sign() <= 0 {
			continue
		}
		if amount.Cmp(taken) > 0 {
			amount = taken
		}
		o.Consumed[name] = taken.Sub(amount)
	}
}
