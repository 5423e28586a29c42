// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/inventory"
)

// CheckCluster verifies all allocations of a cluster against what its
// ResourceSlices publish, whoever made them: every device exists, none is taken
// twice, shares stay within the capacity of their device and devices within the
// counters and compatibility groups of their pool. Devices with admin access
// have to exist and occupy nothing.
//
// It uses the API objects alone, so it verifies the books that an inventory
// keeps as well. The violations are sorted by pool, device and claim.
func CheckCluster(published []*resourceapi.ResourceSlice, claims []*resourceapi.ResourceClaim) []Violation {
	c := &clusterChecker{pools: clusterPools(published)}
	for _, claim := range slices.SortedFunc(slices.Values(claims), func(a, b *resourceapi.ResourceClaim) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}) {
		if claim.Status.Allocation != nil {
			c.add(claim)
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(c.pools), inventory.PoolID.Compare) {
		c.checkPool(c.pools[id])
	}
	return c.found
}

type clusterChecker struct {
	pools map[inventory.PoolID]*clusterPool
	found []Violation
}

// clusterPool is the highest generation of a pool and what is taken of it.
type clusterPool struct {
	object     string
	generation int64
	counters   map[clusterCounter]inventory.Amount
	devices    map[string]*resourceapi.Device
	taken      map[string][]clusterHold
}

type clusterCounter struct{ set, counter string }

func (c clusterCounter) field() string {
	return "spec.sharedCounters[" + c.set + "].counters[" + c.counter + "]"
}

// clusterHold is one result that occupies a device.
type clusterHold struct {
	claim, field string
	result       *resourceapi.DeviceRequestAllocationResult
}

func clusterPools(published []*resourceapi.ResourceSlice) map[inventory.PoolID]*clusterPool {
	pools := map[inventory.PoolID]*clusterPool{}
	for _, slice := range published {
		spec := &slice.Spec
		id := inventory.PoolID{Driver: spec.Driver, Pool: spec.Pool.Name}
		p := pools[id]
		if p != nil && p.generation > spec.Pool.Generation {
			continue
		}
		if p == nil || p.generation < spec.Pool.Generation {
			p = &clusterPool{
				object:     "pool " + id.String(),
				generation: spec.Pool.Generation,
				counters:   map[clusterCounter]inventory.Amount{},
				devices:    map[string]*resourceapi.Device{},
				taken:      map[string][]clusterHold{},
			}
			pools[id] = p
		}
		for _, set := range spec.SharedCounters {
			for name, counter := range set.Counters {
				p.counters[clusterCounter{set.Name, name}] = inventory.AmountOf(counter.Value)
			}
		}
		for i := range spec.Devices {
			p.devices[spec.Devices[i].Name] = &spec.Devices[i]
		}
	}
	return pools
}

func (c *clusterChecker) report(object, field, format string, args ...any) {
	c.found = append(c.found, Violation{Object: object, Field: field, Problem: fmt.Sprintf(format, args...)})
}

// add notes what a claim occupies.
func (c *clusterChecker) add(claim *resourceapi.ResourceClaim) {
	object := "claim " + claim.Namespace + "/" + claim.Name
	for i := range claim.Status.Allocation.Devices.Results {
		r := &claim.Status.Allocation.Devices.Results[i]
		field := fmt.Sprintf("status.allocation.devices.results[%d]", i)
		pool := c.pools[inventory.PoolID{Driver: r.Driver, Pool: r.Pool}]
		if pool == nil || pool.devices[r.Device] == nil {
			c.report(object, field+".device", "no ResourceSlice publishes %s/%s/%s", r.Driver, r.Pool, r.Device)
			continue
		}
		if r.AdminAccess == nil || !*r.AdminAccess {
			pool.taken[r.Device] = append(pool.taken[r.Device], clusterHold{object, field, r})
		}
	}
}

func (c *clusterChecker) checkPool(p *clusterPool) {
	drawn := map[clusterCounter]inventory.Amount{}
	groups := map[string][][]string{}
	for _, name := range slices.Sorted(maps.Keys(p.taken)) {
		device := p.devices[name]
		c.checkDevice(p, device)
		for _, consumes := range device.ConsumesCounters {
			groups[consumes.CounterSet] = append(groups[consumes.CounterSet], consumes.CompatibilityGroups)
			for counter, amount := range consumes.Counters {
				key := clusterCounter{consumes.CounterSet, counter}
				drawn[key] = drawn[key].Add(inventory.AmountOf(amount.Value))
			}
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(drawn), func(a, b clusterCounter) int { return cmp.Compare(a.field(), b.field()) }) {
		switch value, found := p.counters[key]; {
		case !found:
			c.report(p.object, key.field(), "devices in use draw from the counter, which no ResourceSlice publishes")
		case drawn[key].Cmp(value) > 0:
			draw, published := drawn[key].Quantity(), value.Quantity()
			c.report(p.object, key.field(), "devices in use draw %s, more than the %s published", &draw, &published)
		}
	}
	for _, set := range slices.Sorted(maps.Keys(groups)) {
		if !compatible(groups[set]) {
			c.report(p.object, "spec.sharedCounters["+set+"]", "devices in use share no compatibility group")
		}
	}
}

// checkDevice verifies all that holds one device: a single claim as a whole, or
// any number of shares.
func (c *clusterChecker) checkDevice(p *clusterPool, device *resourceapi.Device) {
	holds := p.taken[device.Name]
	for i, h := range holds {
		for _, other := range holds[:i] {
			switch {
			case h.result.ShareID == nil || other.result.ShareID == nil:
				c.report(h.claim, h.field+".device", "%s of %s is also held by %s", device.Name, p.object, other.claim)
			case *h.result.ShareID == *other.result.ShareID:
				c.report(h.claim, h.field+".shareID", "%s is also the ID of a share of %s", *h.result.ShareID, other.claim)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(device.Capacity)) {
		var total inventory.Amount
		for _, h := range holds {
			if h.result.ShareID != nil {
				total = total.Add(inventory.AmountOf(h.result.ConsumedCapacity[name]))
			}
		}
		if value := device.Capacity[name].Value; total.Cmp(inventory.AmountOf(value)) > 0 {
			last := holds[len(holds)-1]
			c.report(last.claim, last.field+".consumedCapacity", "the shares of %s exceed its %s of %s", device.Name, &value, name)
		}
	}
}
