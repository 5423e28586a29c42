// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"maps"
	"slices"

	"gopkg.in/inf.v0"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kerf.dev/kerf/inventory"
)

// checkNode verifies that the node has left what the devices take of its own
// resources (KEP-5517), where the view tells: amounts that they model, and the
// cost of having them.
func (c *checker) checkNode(containers []int) {
	if c.view.Room == nil {
		return
	}
	total := map[v1.ResourceName]inventory.Amount{}
	for i, claim := range c.claims {
		references := 0
		if i < len(containers) {
			references = containers[i]
		}
		for _, p := range claim.picks {
			for name := range p.device.Spec.NodeAllocatableResources {
				total[name] = total[name].Add(p.modelled(name)).Add(p.cost(name, references))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(total)) {
		if left := c.view.Room[name]; total[name].Sign() > 0 && total[name].Cmp(left) > 0 {
			need, left := total[name].Quantity(), left.Quantity()
			c.report("node "+c.view.Node.Name, "status.allocatable["+string(name)+"]", "the devices take %s, only %s is left", &need, &left)
		}
	}
}

// modelled is what the device stands for of a resource.
func (p *checkedPick) modelled(name v1.ResourceName) inventory.Amount {
	m := p.device.Spec.NodeAllocatableResources[name].Mapping
	switch {
	case m == nil, m.CapacityKey == nil && m.DeviceMultiplier == nil:
		return inventory.Amount{}
	case m.CapacityKey == nil:
		return inventory.AmountOf(*m.DeviceMultiplier)
	}
	var base resource.Quantity
	for name, capacity := range p.device.Spec.Capacity {
		if ownName(name, p.device.ID.Driver) != ownName(*m.CapacityKey, p.device.ID.Driver) {
			continue
		}
		if base = capacity.Value; p.device.MultiAlloc() {
			base = p.result.ConsumedCapacity[name]
		}
	}
	if m.CapacityMultiplier == nil {
		return inventory.AmountOf(base)
	}
	base, factor := base.DeepCopy(), m.CapacityMultiplier.DeepCopy() // AsDec changes its receiver
	product := new(inf.Dec).Mul(base.AsDec(), factor.AsDec())
	return inventory.AmountOf(*resource.NewDecimalQuantity(*product, base.Format))
}

// cost is what having the device costs of a resource.
func (p *checkedPick) cost(name v1.ResourceName, references int) inventory.Amount {
	var total inventory.Amount
	if o := p.device.Spec.NodeAllocatableResources[name].Overhead; o != nil {
		if o.PerPod != nil {
			total = inventory.AmountOf(*o.PerPod)
		}
		for range references {
			if o.PerContainer != nil {
				total = total.Add(inventory.AmountOf(*o.PerContainer))
			}
		}
	}
	return total
}
