// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// View is an immutable picture of what one node can use.
type View struct {
	Node *v1.Node
	// Pools in listed order. Pools with a problem are among them where a
	// slice of theirs targets the node.
	Pools []PoolView
	// Room is what the node has left of its own resources, such as cpu, for
	// devices that take some (Device.nodeAllocatableResources, KEP-5517); nil
	// where that does not matter. Resources that are not in it have none left.
	Room map[v1.ResourceName]Amount
}

// PoolView is the part of a pool that one node reaches.
type PoolView struct {
	Pool *Pool
	// Devices that the node reaches, in listed order.
	Devices []*Device
	// Use covers the whole pool: counters are shared with other nodes.
	Use *PoolUse
}

// poolEntry is a pool, what is taken of it, and who has it.
type poolEntry struct {
	// whole is what the slices of the highest generation make, nil where no node has
	// that. Parts are what nodes have in its place, where the pool is split.
	whole *poolPart
	parts []*poolPart
	split *split
	// former is the generation before the highest, as long as that is not complete.
	former *Pool
	// names are the devices of the parts, where there are any.
	names map[string]bool
	// homes are the nodes that reach the pool, sorted; only "" where that cannot be
	// said by name.
	homes []string
}

// poolPart is a pool as some nodes have it.
type poolPart struct {
	pool *Pool
	use  *PoolUse
	// home is the only node that reaches the part, empty where several may.
	home string
	// absent are devices that the part does not have and that take from its counters.
	absent []string
}

// all calls yield for the whole pool, then for the parts.
func (e *poolEntry) all(yield func(*poolPart) bool) {
	if e.whole != nil && !yield(e.whole) {
		return
	}
	for _, p := range e.parts {
		if !yield(p) {
			return
		}
	}
}

func (e *poolEntry) addPart(p *Pool) {
	e.parts = append(e.parts, newPart(p))
	if e.names == nil {
		e.names = map[string]bool{}
	}
	for name := range p.byName {
		e.names[name] = true
	}
}

// settleHomes finds out which nodes reach the pool.
func (e *poolEntry) settleHomes() {
	homes := map[string]bool{}
	for p := range e.all {
		if p.home != "" {
			homes[p.home] = true
			continue
		}
		for r := range p.pool.reaches {
			homes[r.NodeName] = true
		}
	}
	e.homes = []string{""}
	if !homes[""] {
		e.homes = slices.Sorted(maps.Keys(homes))
	}
}

func newPart(p *Pool) *poolPart {
	p.identify()
	part, first := &poolPart{pool: p}, true
	for r := range p.reaches {
		if first {
			part.home, first = r.NodeName, false
		}
		if r.NodeName == "" || r.NodeName != part.home {
			part.home = ""
			break
		}
	}
	return part
}

// reaches calls yield for what says which nodes have to do with the pool: its devices,
// and where it has a problem also slices without devices.
func (p *Pool) reaches(yield func(*Reach) bool) {
	for _, d := range p.Devices {
		if !yield(&d.Reach) {
			return
		}
	}
	for i := range p.targets {
		if p.Problem == nil || !yield(&p.targets[i]) {
			return
		}
	}
}

// view returns the node's part of the pool; ok is false where it has none.
func (e *poolEntry) view(node *v1.Node) (pv PoolView, ok bool) {
	if part := e.partOf(node); part != nil {
		return part.view(node)
	}
	return PoolView{}, false
}

// partOf returns what decides for the node, nil where nothing does.
func (e *poolEntry) partOf(node *v1.Node) *poolPart {
	if e.split == nil {
		return e.whole
	}
	switch index, ok := e.split.partOf(node); {
	case !ok:
		return nil
	case index == wholePool:
		return e.whole
	default:
		return e.parts[index]
	}
}

func (p *poolPart) view(node *v1.Node) (pv PoolView, ok bool) {
	if p.home != "" {
		return PoolView{Pool: p.pool, Devices: p.pool.Devices, Use: p.use}, p.home == node.Name
	}
	pv = PoolView{Pool: p.pool, Use: p.use}
	for _, d := range p.pool.Devices {
		if d.Reach.Node(node) {
			pv.Devices = append(pv.Devices, d)
		}
	}
	return pv, len(pv.Devices) > 0 || p.pool.Problem != nil && p.pool.targetsNode(node)
}

// publishes reports whether the whole pool or a part has the device.
func (e *poolEntry) publishes(device string) bool {
	return e.names[device] || e.whole != nil && e.whole.pool.Device(device) != nil
}

// device returns the device with that name, that of the node where several have one.
func (e *poolEntry) device(name, node string) *Device {
	var found *Device
	for p := range e.all {
		if d := p.pool.Device(name); d != nil && (found == nil || node != "" && publisherOf(d.Slice) == node) {
			found = d
		}
	}
	return found
}

// hasBindingConditions looks at whole slices, also at devices in them that the
// node does not reach, as the stock scheduler does when it puts pools with
// binding conditions last.
func (pv *PoolView) hasBindingConditions() bool {
	var seen *resourceapi.ResourceSlice
	for _, d := range pv.Devices {
		if d.Slice == seen {
			continue // devices of a slice are next to each other
		}
		seen = d.Slice
		for i := range seen.Spec.Devices {
			if seen.Spec.Devices[i].BindingConditions != nil {
				return true
			}
		}
	}
	return false
}

// order puts pools without binding conditions before those with; within both
// the order by ID, in which they come, stays.
func order(pools []PoolView) []PoolView {
	ordered := make([]PoolView, 0, len(pools))
	var last []PoolView
	for _, pv := range pools {
		if pv.hasBindingConditions() {
			last = append(last, pv)
		} else {
			ordered = append(ordered, pv)
		}
	}
	return append(ordered, last...)
}
