// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/inventory"
)

// tapNode lets devices take cpu and memory of the node, of which little is left.
func (g *generator) tapNode() {
	g.Room = map[v1.ResourceName]inventory.Amount{v1.ResourceCPU: inventory.AmountOf(units(g.intn(7)))}
	if g.intn(2) == 1 {
		g.Room[v1.ResourceMemory] = inventory.AmountOf(units(g.intn(4)))
	}
	for _, slice := range g.Slices {
		for i := range slice.Spec.Devices {
			if d := &slice.Spec.Devices[i]; g.intn(3) > 0 {
				d.NodeAllocatableResources = map[v1.ResourceName]resourceapi.NodeAllocatableResource{}
				g.addTap(d, v1.ResourceCPU)
				if g.rarely(4) {
					g.addTap(d, v1.ResourceMemory)
				}
			}
		}
	}
}

func (g *generator) addTap(d *resourceapi.Device, name v1.ResourceName) {
	var takes resourceapi.NodeAllocatableResource
	switch g.intn(5) {
	case 0, 1:
		takes.Mapping = &resourceapi.NodeAllocatableMapping{DeviceMultiplier: ptr(units(1 + g.intn(3)))}
	case 2:
		if _, found := d.Capacity["mem"]; !found {
			return
		}
		takes.Mapping = &resourceapi.NodeAllocatableMapping{CapacityKey: ptr(resourceapi.QualifiedName("mem")), CapacityMultiplier: ptr(units(1 + g.intn(2)))}
	case 3:
		takes.Overhead = &resourceapi.NodeAllocatableOverhead{PerPod: ptr(units(g.intn(3)))}
	case 4:
		takes.Mapping = &resourceapi.NodeAllocatableMapping{DeviceMultiplier: ptr(units(1))}
		takes.Overhead = &resourceapi.NodeAllocatableOverhead{PerPod: ptr(units(g.intn(2))), PerContainer: ptr(units(1))}
	}
	d.NodeAllocatableResources[name] = takes
}

// containers is how many containers refer to the claim.
func (w *World) containers(claim *resourceapi.ResourceClaim) int {
	for i, c := range w.Claims {
		if c.Namespace == claim.Namespace && c.Name == claim.Name && i < len(w.Containers) {
			return w.Containers[i]
		}
	}
	return 0
}

func (o *oracle) withinNode(picks []oraclePick) bool {
	if o.view.Room == nil {
		return true
	}
	taken := map[v1.ResourceName]int64{}
	for _, p := range picks {
		for name, takes := range p.device.Spec.NodeAllocatableResources {
			taken[name] += o.takenOfNode(p, takes)
		}
	}
	for name, amount := range taken {
		left := o.view.Room[name].Quantity()
		if amount > 0 && amount > left.MilliValue() {
			return false
		}
	}
	return true
}

// takenOfNode is in thousandths.
func (o *oracle) takenOfNode(p oraclePick, takes resourceapi.NodeAllocatableResource) int64 {
	var amount int64
	if m := takes.Mapping; m != nil && m.CapacityKey != nil {
		consumed := o.amounts(p.ask, p.device)[string(*m.CapacityKey)]
		if !p.device.MultiAlloc() {
			c := p.device.Spec.Capacity[*m.CapacityKey]
			consumed = c.Value.MilliValue()
		}
		amount += consumed * m.CapacityMultiplier.Value()
	} else if m != nil {
		amount += m.DeviceMultiplier.MilliValue()
	}
	if over := takes.Overhead; over != nil {
		if over.PerPod != nil {
			amount += over.PerPod.MilliValue()
		}
		if over.PerContainer != nil {
			amount += over.PerContainer.MilliValue() * int64(o.containers(p.ask.claim))
		}
	}
	return amount
}
