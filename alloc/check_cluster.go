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
	for _, at := range slices.SortedFunc(maps.Keys(c.pools), clusterPlace.compare) {
		c.checkPool(c.pools[at])
	}
	return c.found
}

type clusterChecker struct {
	pools map[clusterPlace]*clusterPool
	found []Violation
}

// clusterPlace is a pool as a node has it, or as those do that have none of their own.
type clusterPlace struct {
	inventory.PoolID
	node string
}

func (p clusterPlace) compare(other clusterPlace) int {
	return cmp.Or(p.Compare(other.PoolID), cmp.Compare(p.node, other.node))
}

// clusterPool is a pool and what is taken of it. Holds are by the name of the device,
// which is for the whole cluster. Here are the taken devices of this pool; true where they
// are judged here, and not where another node has the same name.
type clusterPool struct {
	object   string
	counters map[clusterCounter]inventory.Amount
	devices  map[string]*resourceapi.Device
	taken    map[string][]clusterHold
	here     map[string]bool
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

// consumed is what the result takes of a capacity, which the driver may have spelt
// another way at the time.
func (h clusterHold) consumed(capacity resourceapi.QualifiedName) inventory.Amount {
	var total inventory.Amount
	for name, q := range h.result.ConsumedCapacity {
		if ownName(name, h.result.Driver) == ownName(capacity, h.result.Driver) {
			total = total.Add(inventory.AmountOf(q))
		}
	}
	return total
}

// clusterPools puts slices together: those of one node, with those for all nodes, where
// they are as many as they say, and else those of everybody.
func clusterPools(published []*resourceapi.ResourceSlice) map[clusterPlace]*clusterPool {
	byPool := map[inventory.PoolID][]*resourceapi.ResourceSlice{}
	for _, slice := range published {
		id := inventory.PoolID{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name}
		byPool[id] = append(byPool[id], slice)
	}
	pools := map[clusterPlace]*clusterPool{}
	for id, all := range byPool {
		taken := map[string][]clusterHold{}
		whole := highest(all)
		pools[clusterPlace{id, ""}] = newClusterPool(id, whole, taken)
		byNode := map[string][]*resourceapi.ResourceSlice{}
		for _, slice := range all {
			if slice.Spec.NodeName != nil {
				byNode[*slice.Spec.NodeName] = append(byNode[*slice.Spec.NodeName], slice)
			} else {
				byNode[""] = append(byNode[""], slice)
			}
		}
		for node, own := range byNode {
			if node != "" {
				own = slices.Concat(own, forAllNodes(byNode[""]))
			}
			if near := highest(own); complete(near) && !sameSlices(near, whole) {
				pools[clusterPlace{id, node}] = newClusterPool(id, near, taken)
			}
		}
	}
	return pools
}

func highest(of []*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	var generation int64
	for _, slice := range of {
		generation = max(generation, slice.Spec.Pool.Generation)
	}
	return slices.DeleteFunc(slices.Clone(of), func(s *resourceapi.ResourceSlice) bool { return s.Spec.Pool.Generation != generation })
}

func complete(of []*resourceapi.ResourceSlice) bool {
	return len(of) > 0 && !slices.ContainsFunc(of, func(s *resourceapi.ResourceSlice) bool { return s.Spec.Pool.ResourceSliceCount != int64(len(of)) })
}

// sameSlices reports whether both are the same, in whatever order.
func sameSlices(a, b []*resourceapi.ResourceSlice) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(s *resourceapi.ResourceSlice) bool { return !slices.Contains(b, s) })
}

func forAllNodes(of []*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	return slices.DeleteFunc(slices.Clone(of), func(s *resourceapi.ResourceSlice) bool { return s.Spec.AllNodes == nil || !*s.Spec.AllNodes })
}

func newClusterPool(id inventory.PoolID, of []*resourceapi.ResourceSlice, taken map[string][]clusterHold) *clusterPool {
	p := &clusterPool{
		object:   "pool " + id.String(),
		counters: map[clusterCounter]inventory.Amount{},
		devices:  map[string]*resourceapi.Device{},
		taken:    taken,
		here:     map[string]bool{},
	}
	for _, slice := range of {
		for _, set := range slice.Spec.SharedCounters {
			for name, counter := range set.Counters {
				p.counters[clusterCounter{set.Name, name}] = inventory.AmountOf(counter.Value)
			}
		}
		for i := range slice.Spec.Devices {
			p.devices[slice.Spec.Devices[i].Name] = inventory.OneSpelling(id.Driver, &slice.Spec.Devices[i])
		}
	}
	return p
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
		pool := c.poolOf(inventory.PoolID{Driver: r.Driver, Pool: r.Pool}, claim.Status.Allocation)
		if pool == nil || pool.devices[r.Device] == nil {
			c.report(object, field+".device", "no ResourceSlice publishes %s/%s/%s", r.Driver, r.Pool, r.Device)
			continue
		}
		if r.AdminAccess == nil || !*r.AdminAccess {
			if _, known := pool.here[r.Device]; !known {
				pool.here[r.Device] = len(pool.taken[r.Device]) == 0
			}
			pool.taken[r.Device] = append(pool.taken[r.Device], clusterHold{object, field, r})
		}
	}
}

// poolOf returns the pool of the node that the allocation is for, if it has one.
func (c *clusterChecker) poolOf(id inventory.PoolID, a *resourceapi.AllocationResult) *clusterPool {
	if a.NodeSelector != nil && len(a.NodeSelector.NodeSelectorTerms) == 1 {
		for _, r := range a.NodeSelector.NodeSelectorTerms[0].MatchFields {
			if len(r.Values) != 1 {
				continue
			}
			if pool := c.pools[clusterPlace{id, r.Values[0]}]; pool != nil {
				return pool
			}
		}
	}
	return c.pools[clusterPlace{id, ""}]
}

func (c *clusterChecker) checkPool(p *clusterPool) {
	drawn := map[clusterCounter]inventory.Amount{}
	groups := map[string][][]string{}
	for _, name := range slices.Sorted(maps.Keys(p.here)) {
		device := p.devices[name]
		if p.here[name] {
			c.checkDevice(p, device)
		}
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
				total = total.Add(h.consumed(name))
			}
		}
		if value := device.Capacity[name].Value; total.Cmp(inventory.AmountOf(value)) > 0 {
			last := holds[len(holds)-1]
			c.report(last.claim, last.field+".consumedCapacity", "the shares of %s exceed its %s of %s", device.Name, &value, name)
		}
	}
}
