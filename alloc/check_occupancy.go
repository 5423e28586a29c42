// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"maps"
	"slices"

	"kerf.dev/kerf/inventory"
)

// checkOccupancy verifies that no device is taken twice, by the claims or
// together with what was taken before.
func (c *checker) checkOccupancy() {
	by := map[*inventory.Device][]*checkedPick{}
	for _, p := range c.picks() {
		for _, other := range by[p.device] {
			c.checkPair(other, p)
		}
		by[p.device] = append(by[p.device], p)
	}
	for _, p := range c.picks() {
		taken := p.taken()
		if p.request.admin() || taken == nil {
			continue
		}
		if taken.Dedicated || !p.device.MultiAlloc() {
			c.reportPick(p, "device", "%s is already held by %v", p.device.ID, taken.Holders)
		}
	}
	for _, p := range c.picks() {
		if by[p.device][0] == p && p.device.MultiAlloc() {
			c.checkShares(by[p.device])
		}
	}
}

func (c *checker) picks() []*checkedPick {
	var all []*checkedPick
	for _, cc := range c.claims {
		all = append(all, cc.picks...)
	}
	return all
}

// taken is what held the device before.
func (p *checkedPick) taken() *inventory.Occupancy { return p.pool.Use.Taken[p.device.Index] }

// checkPair verifies two picks of the same device. Shares are told apart by
// their ID. Admin access goes along with anything, but within a claim a device
// without shares can only be listed once.
func (c *checker) checkPair(first, second *checkedPick) {
	if second.device.MultiAlloc() {
		if a, b := first.result.ShareID, second.result.ShareID; a != nil && b != nil && *a == *b {
			c.reportPick(second, "shareID", "%q is also the ID of another share of %s", *b, second.device.ID)
		}
		return
	}
	switch admin := first.request.admin() || second.request.admin(); {
	case first.claim == second.claim && first.request != second.request:
		c.reportPick(second, "device", "%s was already allocated for request %s", second.device.ID, first.request.name)
	case first.claim != second.claim && !admin:
		c.reportPick(second, "device", "%s was already allocated for %s", second.device.ID, first.claim.object)
	}
}

// checkShares verifies that the shares of a device do not exceed its capacity.
func (c *checker) checkShares(picks []*checkedPick) {
	first := picks[0]
	for _, name := range slices.Sorted(maps.Keys(first.device.Spec.Capacity)) {
		var total inventory.Amount
		if taken := first.taken(); taken != nil {
			total = taken.ConsumedOf(first.device.ID.Driver, name)
		}
		added := false
		for _, p := range picks {
			if !p.request.admin() {
				total = total.Add(inventory.AmountOf(p.result.ConsumedCapacity[name]))
				added = true
			}
		}
		if value := first.device.Spec.Capacity[name].Value; added && total.Cmp(inventory.AmountOf(value)) > 0 {
			c.reportPick(picks[len(picks)-1], "consumedCapacity", "the shares of %s exceed its %s of %s", first.device.ID, &value, name)
		}
	}
}

// checkCounters verifies, pool by pool, that the devices draw no more from the
// counters than is free (KEP-4815), nothing from closed sets, and that devices of
// one counter set share a compatibility group. Further shares of a device that is
// in use draw nothing.
func (c *checker) checkCounters() {
	for i := range c.view.Pools {
		pool := &c.view.Pools[i]
		var added []*inventory.Device
		for _, p := range c.picks() {
			further := p.device.MultiAlloc() && p.taken() != nil
			if p.pool == pool && !p.request.admin() && !further && !slices.Contains(added, p.device) {
				added = append(added, p.device)
			}
		}
		c.checkDraws(pool, added)
		for set := range pool.Pool.Sets {
			c.checkGroups(pool, set, added)
		}
	}
}

func (c *checker) checkDraws(pool *inventory.PoolView, added []*inventory.Device) {
	object := "pool " + pool.Pool.ID.String()
	needed := map[int]inventory.Amount{}
	for _, d := range added {
		for _, draw := range d.Draws {
			needed[draw.Counter] = needed[draw.Counter].Add(draw.Amount)
			if set := pool.Pool.Counters[draw.Counter].Set; pool.Use.Closed[set] {
				c.report(object, counterField(pool.Pool, draw.Counter), "%s draws from the counter set although what is taken of it is not known", d.ID)
			}
		}
	}
	for _, counter := range slices.Sorted(maps.Keys(needed)) {
		free := pool.Use.Free[counter]
		if needed[counter].Sign() > 0 && needed[counter].Cmp(free) > 0 {
			need, left := needed[counter].Quantity(), free.Quantity()
			c.report(object, counterField(pool.Pool, counter), "the devices draw %s, only %s is free", &need, &left)
		}
	}
}

func counterField(pool *inventory.Pool, counter int) string {
	return "spec.sharedCounters[" + pool.Sets[pool.Counters[counter].Set].Name + "].counters[" + pool.Counters[counter].Name + "]"
}

// checkGroups verifies the compatibility groups of all devices that draw from a
// counter set, of which some were added.
func (c *checker) checkGroups(pool *inventory.PoolView, set int, added []*inventory.Device) {
	var lists [][]string
	var last *inventory.Device
	for _, d := range pool.Pool.Devices {
		fresh := slices.Contains(added, d)
		if !fresh && pool.Use.Taken[d.Index] == nil {
			continue
		}
		for _, g := range d.Groups {
			if g.Set != set {
				continue
			}
			lists = append(lists, g.Groups)
			if fresh {
				last = d
			}
		}
	}
	if last != nil && !compatible(lists) {
		c.report("pool "+pool.Pool.ID.String(), "spec.sharedCounters["+pool.Pool.Sets[set].Name+"]",
			"%s shares no compatibility group with the other devices of the counter set", last.ID)
	}
}

// compatible reports whether the devices of one counter set may be in use at the
// same time: all in one common group, or all without groups.
func compatible(lists [][]string) bool {
	grouped := func(list []string) bool { return len(list) > 0 }
	if !slices.ContainsFunc(lists, grouped) {
		return true
	}
	return slices.ContainsFunc(lists[0], func(group string) bool {
		return !slices.ContainsFunc(lists, func(list []string) bool { return !slices.Contains(list, group) })
	})
}
