// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
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

// poolEntry is a pool with what is taken of it.
type poolEntry struct {
	pool *Pool
	use  *PoolUse
	// home is the only node that reaches the pool, empty where several may.
	home string
}

func newEntry(p *Pool, l *ledger) *poolEntry {
	p.identify()
	e := &poolEntry{pool: p, use: l.use(p)}
	for i := range p.Devices {
		if !e.settle(&p.Devices[i].Reach, i == 0) {
			return e
		}
	}
	if p.Problem == nil {
		return e
	}
	for i := range p.targets {
		if !e.settle(&p.targets[i], len(p.Devices) == 0 && i == 0) {
			return e
		}
	}
	return e
}

// settle narrows home by one more node selection and reports whether there
// still is one.
func (e *poolEntry) settle(r *Reach, first bool) bool {
	if first {
		e.home = r.NodeName
	}
	if r.NodeName == "" || r.NodeName != e.home {
		e.home = ""
	}
	return e.home != ""
}

// view returns the node's part of the pool; ok is false where it has none.
func (e *poolEntry) view(node *v1.Node) (pv PoolView, ok bool) {
	if e.home != "" {
		return PoolView{Pool: e.pool, Devices: e.pool.Devices, Use: e.use}, e.home == node.Name
	}
	pv = PoolView{Pool: e.pool, Use: e.use}
	for _, d := range e.pool.Devices {
		if d.Reach.Node(node) {
			pv.Devices = append(pv.Devices, d)
		}
	}
	return pv, len(pv.Devices) > 0 || e.pool.Problem != nil && e.pool.targetsNode(node)
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
