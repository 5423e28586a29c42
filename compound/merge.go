// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package compound

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kerf.dev/kerf/inventory"
)

// RuleAttribute is the attribute in which a published device says which molecule of its
// policy it is or, alone, which atom.
const RuleAttribute = "compound.kerf.dev/rule"

// draft is a molecule that is becoming a device.
type draft struct {
	Molecule
	field   string // of the policy, that wants it
	members []*member
	device  resourceapi.Device
	// draws is what the members take out of counters of their drivers.
	draws map[counterID]inventory.Amount
	// groups are those of the counter sets that have any.
	groups map[setID][]string
	skip   []resourceapi.SkipNodeOperation
	// problem is why there can be no such device, and fix what to do.
	problem, fix string
}

// setID is a counter set of a driver, counterID a counter of it.
type (
	setID     struct{ driver, pool, set string }
	counterID struct {
		setID
		counter string
	}
)

func (d *draft) ids() []inventory.DeviceID {
	ids := make([]inventory.DeviceID, len(d.Atoms))
	for i, atom := range d.Atoms {
		ids[i] = atom.DeviceID
	}
	return ids
}

// note is about the draft's problem.
func (d *draft) note(reason Reason) Note {
	return Note{Reason: reason, Policy: d.Policy, Field: d.field, Devices: []inventory.DeviceID{d.DeviceID}, Problem: d.problem, Fix: d.fix}
}

// refuse says why there can be no such device. The first reason counts.
func (d *draft) refuse(fix, problem string, args ...any) {
	if d.problem == "" {
		d.problem, d.fix = fmt.Sprintf(problem, args...), fix
	}
}

// merge makes the device of what its members are; the package documentation has a table of
// what becomes of each field.
func (d *draft) merge() {
	d.device.Name = d.Device
	d.mergeAttributes()
	d.mergeCapacity()
	d.mergeCounters()
	d.mergeTaints()
	d.mergeNodeResources()
	for i, m := range d.members {
		spec := m.Spec
		if len(spec.BindingConditions)+len(spec.BindingFailureConditions) > 0 {
			d.refuse("leave such devices to their driver", "%s has binding conditions: whoever sets them looks for the device of its driver in claims", m.Name)
		}
		if m.BindsToNode() {
			d.device.BindsToNode = new(true)
		}
		if m.MultiAlloc() && len(d.members) > 1 {
			d.refuse("select devices of which a claim gets all, or publish it alone", "%s can be allocated several times: a molecule would take it from all others or from none", m.Name)
		}
		if m.MultiAlloc() {
			d.device.AllowMultipleAllocations = new(true)
		}
		if i == 0 {
			d.skip = skipped(m.Slice)
		}
		d.skip = slices.DeleteFunc(d.skip, func(o resourceapi.SkipNodeOperation) bool { return !slices.Contains(skipped(m.Slice), o) })
	}
}

// skipped are the operations that are not needed for the devices of a slice.
func skipped(slice *resourceapi.ResourceSlice) []resourceapi.SkipNodeOperation {
	if slices.Contains(slice.Spec.SkipNodeOperations, resourceapi.SkipNodeOperationAll) {
		return []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationAll, resourceapi.SkipNodeOperationNodePrepareResources, resourceapi.SkipNodeOperationNodeUnprepareResources}
	}
	own := slices.Clone(slice.Spec.SkipNodeOperations)
	slices.Sort(own)
	return own
}

// keeps reports whether an attribute or capacity of the member is published.
func (m *member) keeps(name resourceapi.QualifiedName) bool {
	return len(m.rule.Keep) == 0 || slices.ContainsFunc(m.rule.Keep, func(kept string) bool {
		return inventory.FullName(m.Driver, resourceapi.QualifiedName(kept)) == inventory.FullName(m.Driver, name)
	})
}

func (d *draft) mergeAttributes() {
	all := map[resourceapi.QualifiedName]*values{}
	for _, m := range d.members {
		for _, name := range slices.Sorted(maps.Keys(m.Spec.Attributes)) {
			full, a := inventory.FullName(m.Driver, name), m.Spec.Attributes[name]
			if !m.keeps(name) || full == RuleAttribute {
				continue
			}
			if have := all[full]; have == nil {
				all[full] = valuesOf(&a)
			} else if !have.add(valuesOf(&a)) {
				d.refuse("leave the attribute out with keep", "its members have values of different types in the attribute %s", full)
			}
		}
	}
	d.device.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{RuleAttribute: {StringValue: &d.Rule}}
	count := 1
	for name, of := range all {
		d.device.Attributes[name] = of.attribute()
		count += len(of.keys())
	}
	if count > resourceapi.ResourceSliceMaxAttributeValuesPerDevice {
		d.refuse("name those that are needed in keep of its atoms", "it has %d values of attributes, more than %d", count, resourceapi.ResourceSliceMaxAttributeValuesPerDevice)
	}
}

// mergeCapacity keeps the least of each capacity: so much has every member that has it.
func (d *draft) mergeCapacity() {
	for _, m := range d.members {
		for name, c := range m.Spec.Capacity {
			if !m.keeps(name) {
				continue
			}
			full := inventory.FullName(m.Driver, name)
			have, found := d.device.Capacity[full]
			if found && inventory.AmountOf(have.Value).Cmp(inventory.AmountOf(c.Value)) <= 0 {
				continue
			}
			if d.device.Capacity == nil {
				d.device.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{}
			}
			d.device.Capacity[full] = *c.DeepCopy()
		}
	}
	if n := len(d.device.Attributes) + len(d.device.Capacity); n > resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
		d.refuse("name those that are needed in keep of its atoms", "it has %d attributes and capacities, more than %d", n, resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice)
	}
}

// mergeCounters adds up what members take out of counters of their drivers.
func (d *draft) mergeCounters() {
	d.draws, d.groups = map[counterID]inventory.Amount{}, map[setID][]string{}
	seen := map[setID]bool{}
	for _, m := range d.members {
		for _, draw := range m.Draws {
			counter := m.pool.Counters[draw.Counter]
			id := counterID{setID{m.Driver, m.Pool, m.pool.Sets[counter.Set].Name}, counter.Name}
			d.draws[id] = d.draws[id].Add(draw.Amount)
			if d.draws[id].Cmp(counter.Value) > 0 {
				d.refuse("nothing, if they are parts of one whole", "its members exclude each other: together they take more of a counter of %s than it has", m.Driver)
			}
		}
		for _, use := range m.Groups {
			id := setID{m.Driver, m.Pool, m.pool.Sets[use.Set].Name}
			have, common := d.groups[id], use.Groups
			if seen[id] {
				common = slices.DeleteFunc(slices.Clone(have), func(g string) bool { return !slices.Contains(use.Groups, g) })
				if len(common) == 0 && len(have)+len(use.Groups) > 0 {
					d.refuse("nothing, if they cannot be in use together", "its members have no compatibility group of %s in common", m.Driver)
				}
			}
			seen[id], d.groups[id] = true, common
		}
	}
}

func (d *draft) mergeTaints() {
	for _, m := range d.members {
		for _, taint := range m.Spec.Taints {
			at := slices.IndexFunc(d.device.Taints, func(t resourceapi.DeviceTaint) bool {
				return t.Key == taint.Key && t.Value == taint.Value && t.Effect == taint.Effect
			})
			switch {
			case at < 0:
				d.device.Taints = append(d.device.Taints, *taint.DeepCopy())
			case taint.TimeAdded.Before(d.device.Taints[at].TimeAdded):
				d.device.Taints[at].TimeAdded = taint.TimeAdded.DeepCopy()
			}
		}
	}
	slices.SortFunc(d.device.Taints, func(a, b resourceapi.DeviceTaint) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Effect, b.Effect))
	})
	if n := len(d.device.Taints); n > resourceapi.DeviceTaintsMaxLength {
		d.refuse("remove what is no longer true", "its members have %d taints, more than %d, and none may be left out", n, resourceapi.DeviceTaintsMaxLength)
	}
}

// mergeNodeResources adds up what members are, and cost, of the node.
func (d *draft) mergeNodeResources() {
	for _, m := range d.members {
		for _, name := range slices.Sorted(maps.Keys(m.Spec.NodeAllocatableResources)) {
			of := m.Spec.NodeAllocatableResources[name]
			if d.device.NodeAllocatableResources == nil {
				d.device.NodeAllocatableResources = map[v1.ResourceName]resourceapi.NodeAllocatableResource{}
			}
			have := d.device.NodeAllocatableResources[name]
			if of.Mapping != nil {
				have.Mapping = d.mergeMapping(m, have.Mapping, of.Mapping.DeepCopy())
			}
			if of.Overhead != nil {
				if have.Overhead == nil {
					have.Overhead = &resourceapi.NodeAllocatableOverhead{}
				}
				have.Overhead.PerPod = sum(have.Overhead.PerPod, of.Overhead.PerPod)
				have.Overhead.PerContainer = sum(have.Overhead.PerContainer, of.Overhead.PerContainer)
			}
			d.device.NodeAllocatableResources[name] = have
		}
	}
}

func (d *draft) mergeMapping(m *member, have, more *resourceapi.NodeAllocatableMapping) *resourceapi.NodeAllocatableMapping {
	if more.CapacityKey != nil {
		full := inventory.FullName(m.Driver, *more.CapacityKey)
		more.CapacityKey = &full
		if _, found := d.device.Capacity[full]; !found {
			d.refuse("name the capacity in keep", "a resource of the node is computed from the capacity %s, which is not kept", full)
		}
		if len(d.members) > 1 {
			d.refuse("publish such devices alone", "%s is a resource of the node by a capacity that is consumed, and a molecule consumes none", m.Name)
		}
	}
	if have == nil {
		return more
	}
	have.DeviceMultiplier = sum(have.DeviceMultiplier, more.DeviceMultiplier)
	return have
}

func sum(a, b *resource.Quantity) *resource.Quantity {
	switch {
	case a == nil && b == nil:
		return nil
	case a == nil || b == nil:
		q := cmp.Or(a, b).DeepCopy()
		return &q
	}
	total := inventory.AmountOf(*a).Add(inventory.AmountOf(*b)).Quantity()
	return &total
}
