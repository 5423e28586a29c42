// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"cmp"
	"maps"
	"slices"

	"gopkg.in/inf.v0"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kerf.dev/kerf/inventory"
)

// Devices can take resources of the node that hosts them, such as cpu and memory
// (Device.nodeAllocatableResources, KEP-5517): those that they model, and those
// that driving them costs. What View.Room has of them are counters of the board
// like any others, but for two things: they belong to no pool, and what is taken
// depends on the request.

// NodeFootprint is what the devices of one claim take of the resources of their
// node: the amounts of an entry of pod.status.nodeAllocatableResourceClaimStatuses,
// sorted by resource. The devices are those of the results, in their order; where
// one is nil nothing is known of it. Overhead per container is that of a single
// one.
func NodeFootprint(results []resourceapi.DeviceRequestAllocationResult, devices []*inventory.Device) ([]v1.NodeAllocatableMappedResources, []v1.NodeAllocatableOverheadResources) {
	mapped := map[v1.ResourceName]resource.Quantity{}
	overhead := map[v1.ResourceName]v1.NodeAllocatableOverheadResources{}
	for i, d := range devices {
		if d == nil {
			continue
		}
		for name, takes := range d.Spec.NodeAllocatableResources {
			if q, ok := mappedResource(d, takes.Mapping, results[i].ConsumedCapacity); ok {
				total := mapped[name]
				total.Add(q)
				mapped[name] = total
			}
			if o := takes.Overhead; o != nil && (o.PerPod != nil || o.PerContainer != nil) {
				total := overhead[name]
				total.Name = name
				total.PerPod = plus(total.PerPod, o.PerPod)
				total.PerContainer = plus(total.PerContainer, o.PerContainer)
				overhead[name] = total
			}
		}
	}
	var mappings []v1.NodeAllocatableMappedResources
	for _, name := range slices.Sorted(maps.Keys(mapped)) {
		mappings = append(mappings, v1.NodeAllocatableMappedResources{Name: name, Quantity: new(mapped[name])})
	}
	overheads := slices.SortedFunc(maps.Values(overhead), func(a, b v1.NodeAllocatableOverheadResources) int { return cmp.Compare(a.Name, b.Name) })
	return mappings, overheads
}

// MapsNodeResources reports whether a device models resources of its node. Claims
// on such devices cannot be shared by pods.
func MapsNodeResources(d *inventory.Device) bool {
	for _, takes := range d.Spec.NodeAllocatableResources {
		if takes.Mapping != nil {
			return true
		}
	}
	return false
}

func plus(a, b *resource.Quantity) *resource.Quantity {
	if b == nil {
		return a
	}
	var sum resource.Quantity
	if a != nil {
		sum = a.DeepCopy()
	}
	sum.Add(*b)
	return &sum
}

// mappedResource is what a mapping makes of a device: its multiplier, or that
// times what is consumed of a capacity. A device that is not shared is consumed
// whole. ok is false where the mapping has nothing to say.
func mappedResource(d *inventory.Device, m *resourceapi.NodeAllocatableMapping, consumed map[resourceapi.QualifiedName]resource.Quantity) (q resource.Quantity, ok bool) {
	switch {
	case m == nil:
		return q, false
	case m.CapacityKey == nil || *m.CapacityKey == "":
		if m.DeviceMultiplier == nil {
			return q, false
		}
		return m.DeviceMultiplier.DeepCopy(), true
	}
	if _, q, ok = inventory.Named(consumed, d.ID.Driver, *m.CapacityKey); !ok && consumed == nil {
		var c resourceapi.DeviceCapacity
		_, c, ok = inventory.Named(d.Spec.Capacity, d.ID.Driver, *m.CapacityKey)
		q = c.Value
	}
	if !ok {
		return q, false
	}
	if m.CapacityMultiplier == nil || m.CapacityMultiplier.Cmp(*resource.NewQuantity(1, resource.DecimalSI)) == 0 {
		return q.DeepCopy(), true
	}
	base, factor := q.DeepCopy(), m.CapacityMultiplier.DeepCopy() // AsDec changes its receiver
	return *resource.NewDecimalQuantity(*new(inf.Dec).Mul(base.AsDec(), factor.AsDec()), q.Format), true
}

// addRoom makes counters of what the node has left of resources that devices
// take.
func (b *board) addRoom() {
	if b.view.Room == nil {
		return
	}
	needed := map[v1.ResourceName]bool{}
	for i := range b.units {
		for name := range b.units[i].dev.Spec.NodeAllocatableResources {
			needed[name] = true
		}
	}
	b.room = map[v1.ResourceName]int{}
	for _, name := range slices.Sorted(maps.Keys(needed)) {
		b.room[name] = len(b.free)
		b.counters = append(b.counters, counter{name: string(name), set: -1, value: b.view.Room[name]})
		b.free = append(b.free, b.view.Room[name])
	}
}

// tapNode works out what the ask takes of the node's resources with the unit, and
// reports whether that is there. It needs consume to have been called.
func (b *board) tapNode(f *field, i int) bool {
	u := &b.units[i]
	if len(b.room) == 0 || len(u.dev.Spec.NodeAllocatableResources) == 0 {
		return true
	}
	b.meter.pay(tapWork * len(u.dev.Spec.NodeAllocatableResources))
	var consumed map[resourceapi.QualifiedName]resource.Quantity
	if u.multi {
		b.meter.pay(capacityWork * len(u.dev.Spec.Capacity))
		consumed = b.consumedCapacity(f.ask, u.dev)
	}
	var draws []inventory.Draw
	for _, name := range slices.Sorted(maps.Keys(u.dev.Spec.NodeAllocatableResources)) {
		if amount := b.takenOfNode(f.ask, u.dev, name, consumed); amount.Sign() > 0 {
			draws = append(draws, inventory.Draw{Counter: b.room[name], Amount: amount})
		}
	}
	if f.taps == nil {
		b.meter.payBytes(24 * len(b.units))
		f.taps = make([][]inventory.Draw, len(b.units))
	}
	f.taps[i] = draws
	return b.covers(b.free, draws)
}

// tapWork is for working out what is taken of one resource.
const tapWork = 40

// takenOfNode is what an ask takes of one resource of the node with a device.
func (b *board) takenOfNode(a *ask, d *inventory.Device, name v1.ResourceName, consumed map[resourceapi.QualifiedName]resource.Quantity) inventory.Amount {
	takes := d.Spec.NodeAllocatableResources[name]
	var total inventory.Amount
	if q, ok := mappedResource(d, takes.Mapping, consumed); ok {
		total = inventory.AmountOf(q)
	}
	if o := takes.Overhead; o != nil {
		if o.PerPod != nil {
			total = total.Add(inventory.AmountOf(*o.PerPod))
		}
		if o.PerContainer != nil && a.claim < len(b.problem.options.Containers) {
			for range b.problem.options.Containers[a.claim] {
				total = total.Add(inventory.AmountOf(*o.PerContainer))
			}
		}
	}
	return total
}

// nodeHolds reports whether the node has left what the ask takes of it with the
// unit.
func (s *state) nodeHolds(f *field, i int) bool {
	if f.taps == nil {
		return true
	}
	s.meter.pay(len(f.taps[i]))
	return s.board.covers(s.free, f.taps[i])
}

// nodeShort returns the resource of the node of which the asks need more than is
// left, whichever devices they get; empty where there is none. Less than nothing can be
// left, where pods have more than the node offers: who takes nothing lacks nothing.
func (b *bounds) nodeShort(rest []*field) v1.ResourceName {
	for _, name := range slices.Sorted(maps.Keys(b.board.room)) {
		left := b.now.left(b.board.room[name])
		for _, f := range rest {
			least := b.leastTap(f, b.board.room[name])
			if b.meter.out() {
				return ""
			}
			for range f.want {
				left = left.Sub(least)
			}
			if left.Sign() < 0 && least.Sign() > 0 {
				return name
			}
		}
	}
	return ""
}

// leastTap is the least that the ask takes of a resource with one device.
func (b *bounds) leastTap(f *field, counter int) inventory.Amount {
	var least inventory.Amount
	first := true
	for i := range b.now.openTo(f.request).all() {
		if !b.now.fits(f, i) {
			continue
		}
		taken := tapped(f.tapsOf(i), counter)
		if first || taken.Cmp(least) < 0 {
			least, first = taken, false
		}
	}
	return least
}

func tapped(draws []inventory.Draw, counter int) inventory.Amount {
	for _, d := range draws {
		if d.Counter == counter {
			return d.Amount
		}
	}
	return inventory.Amount{}
}

// shortageOf names the first resource of the node that does not hold what the
// ask takes with the unit.
func (b *board) shortageOf(f *field, i int) Shortage {
	for _, d := range f.tapsOf(i) {
		if b.free[d.Counter].Cmp(d.Amount) < 0 {
			return Shortage{Resource: v1.ResourceName(b.counters[d.Counter].name), Needs: d.Amount, Left: b.free[d.Counter]}
		}
	}
	return Shortage{}
}

// explainNode says how much the asks take of the resource at least, and how much
// is left.
func (b *bounds) explainNode(name v1.ResourceName, rest []*field) Conflict {
	c := Conflict{Kind: NodeResource, Shortage: Shortage{Resource: name, Left: b.now.left(b.board.room[name])}}
	for _, f := range rest {
		c.Need += f.want
		least := b.leastTap(f, b.board.room[name])
		for range f.want {
			c.Shortage.Needs = c.Shortage.Needs.Add(least)
		}
	}
	return c
}
