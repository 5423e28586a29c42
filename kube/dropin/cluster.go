// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package dropin

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"kerf.dev/kerf/inventory"
)

// cluster is a list of ResourceSlices, with what was found out about them. It
// may be used by several goroutines.
type cluster struct {
	features structured.Features
	slices   []*resourceapi.ResourceSlice
	byNode   directory[string]
	byPool   directory[inventory.PoolID]
	// pools has what different nodes see of each pool; before has the pools of
	// the list that was there before this one.
	pools, before *registry[inventory.PoolID, []*pool]
	// local has the pools by node name, as long as no slice is for several.
	local     registry[string, []*pool]
	selectors registry[*v1.NodeSelector, compiledSelector]
}

func newCluster(features structured.Features, list []*resourceapi.ResourceSlice, before *registry[inventory.PoolID, []*pool]) *cluster {
	return &cluster{
		features: features,
		slices:   list,
		byNode:   directory[string]{key: func(s *resourceapi.ResourceSlice) string { return ptr.Deref(s.Spec.NodeName, "") }},
		byPool:   directory[inventory.PoolID]{key: poolOf},
		pools:    &registry[inventory.PoolID, []*pool]{},
		before:   before,
	}
}

func poolOf(s *resourceapi.ResourceSlice) inventory.PoolID {
	return inventory.PoolID{Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name}
}

// gather returns the pools that have slices for the node, in listed order. It
// follows the stock allocator: out-dated slices do not count, the highest
// generation is that of the slices for the node, and only a pool that does not
// have all its slices on the node is looked at as a whole.
func (c *cluster) gather(node *v1.Node) ([]*pool, error) {
	shared := c.byNode.get(c.slices, "")
	if len(shared) == 0 {
		if known, found := c.local.get(node.Name); found {
			return known, nil
		}
	}
	groups, err := c.groups(node, shared)
	if err != nil {
		return nil, err
	}
	var pools, late []*pool
	for _, g := range groups {
		switch p := c.pool(g); {
		case p == nil:
		case p.late:
			late = append(late, p)
		default:
			pools = append(pools, p)
		}
	}
	sortPools(pools)
	sortPools(late)
	pools = append(pools, late...)
	if len(shared) == 0 {
		c.local.set(node.Name, pools)
	}
	return pools, nil
}

func sortPools(pools []*pool) {
	slices.SortFunc(pools, func(a, b *pool) int { return a.id.Compare(b.id) })
}

// group is the slices of one pool that a node reaches.
type group struct {
	id   inventory.PoolID
	near []*resourceapi.ResourceSlice
}

func (c *cluster) groups(node *v1.Node, shared []*resourceapi.ResourceSlice) ([]group, error) {
	var groups []group
	for _, list := range [][]*resourceapi.ResourceSlice{c.byNode.get(c.slices, node.Name), shared} {
		for _, slice := range list {
			if c.ignores(slice) {
				continue
			}
			relevant, err := c.relevant(slice, node)
			if err != nil {
				return nil, err
			}
			if relevant {
				groups = add(groups, slice)
			}
		}
	}
	return groups, nil
}

// add keeps the slices of the highest generation.
func add(groups []group, slice *resourceapi.ResourceSlice) []group {
	id := poolOf(slice)
	i := slices.IndexFunc(groups, func(g group) bool { return g.id == id })
	if i < 0 {
		return append(groups, group{id: id, near: []*resourceapi.ResourceSlice{slice}})
	}
	g := &groups[i]
	switch cmp.Compare(slice.Spec.Pool.Generation, g.near[0].Spec.Pool.Generation) {
	case 0:
		g.near = append(g.near, slice)
	case 1:
		g.near = []*resourceapi.ResourceSlice{slice}
	}
	return groups
}

// ignores reports whether the slice is as good as not there because it needs a
// feature that is off.
func (c *cluster) ignores(slice *resourceapi.ResourceSlice) bool {
	return !c.features.PartitionableDevices && (slice.Spec.PerDeviceNodeSelection != nil || len(slice.Spec.SharedCounters) > 0) ||
		!c.features.CompatibilityGroups && usesGroups(slice)
}

func usesGroups(slice *resourceapi.ResourceSlice) bool {
	for i := range slice.Spec.Devices {
		for j := range slice.Spec.Devices[i].ConsumesCounters {
			if len(slice.Spec.Devices[i].ConsumesCounters[j].CompatibilityGroups) > 0 {
				return true
			}
		}
	}
	return false
}

// relevant reports whether the node reaches the slice, or some device of it where
// nodes are selected per device.
func (c *cluster) relevant(slice *resourceapi.ResourceSlice, node *v1.Node) (bool, error) {
	s := &slice.Spec
	switch {
	case ptr.Deref(s.NodeName, "") != "":
		return *s.NodeName == node.Name, nil
	case ptr.Deref(s.AllNodes, false):
		return true, nil
	case s.NodeSelector != nil:
		matches, err := c.selects(s.NodeSelector, node)
		if err != nil {
			return false, fmt.Errorf("failed to perform node selection for slice %s: %w", slice.Name, err)
		}
		return matches, nil
	case !perDevice(slice):
		return false, nil // an extension from the future
	}
	for i := range s.Devices {
		d := &s.Devices[i]
		switch {
		case ptr.Deref(d.NodeName, "") != "":
			if *d.NodeName == node.Name {
				return true, nil
			}
		case ptr.Deref(d.AllNodes, false):
			return true, nil
		case d.NodeSelector != nil:
			matches, err := c.selects(d.NodeSelector, node)
			if err != nil {
				return false, fmt.Errorf("failed to perform node selection for device %s in slice %s: %w", d.Name, slice.Name, err)
			}
			if matches {
				return true, nil
			}
		}
	}
	return false, nil
}

// compiledSelector is a node selector, or the error that it cannot be parsed.
type compiledSelector struct {
	selector *nodeaffinity.NodeSelector
	err      error
}

func (c *cluster) selects(selector *v1.NodeSelector, node *v1.Node) (bool, error) {
	known, found := c.selectors.get(selector)
	if !found {
		s, err := nodeaffinity.NewNodeSelector(selector)
		if err != nil {
			err = fmt.Errorf("failed to parse node selector %s: %w", selector, err)
		}
		known = compiledSelector{s, err}
		c.selectors.set(selector, known)
	}
	if known.err != nil {
		return false, known.err
	}
	return known.selector.Match(node), nil
}

// pool returns the pool that a group makes, nil where it is out of date.
func (c *cluster) pool(g group) *pool {
	first := &g.near[0].Spec.Pool
	if int64(len(g.near)) == first.ResourceSliceCount {
		return c.assembled(g.id, g.near, nil)
	}
	var all []*resourceapi.ResourceSlice
	for _, slice := range c.byPool.get(c.slices, g.id) {
		switch cmp.Compare(slice.Spec.Pool.Generation, first.Generation) {
		case 1:
			return nil
		case 0:
			if c.features.CompatibilityGroups || !usesGroups(slice) {
				all = append(all, slice)
			}
		}
	}
	if int64(len(all)) != first.ResourceSliceCount {
		return &pool{id: g.id, near: g.near, flaw: incomplete}
	}
	return c.assembled(g.id, g.near, without(all, g.near))
}

// without drops the slices that have the name of one of the others.
func without(all, others []*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	if len(others) >= len(all) {
		return nil
	}
	names := make(map[string]bool, len(others))
	for _, slice := range others {
		names[slice.Name] = true
	}
	return slices.DeleteFunc(all, func(slice *resourceapi.ResourceSlice) bool { return names[slice.Name] })
}

// maxVariants bounds how many nodes may see a pool differently before views of it
// are forgotten.
const maxVariants = 16

// assembled returns the pool of these slices, the same whenever it is asked for.
func (c *cluster) assembled(id inventory.PoolID, near, far []*resourceapi.ResourceSlice) *pool {
	variants, _ := c.pools.get(id)
	if p := find(variants, near, far); p != nil {
		return p
	}
	var p *pool
	if c.before != nil {
		old, _ := c.before.get(id)
		p = find(old, near, far)
	}
	if p == nil {
		p = newPool(c.features, id, near, far)
	}
	if len(variants) >= maxVariants {
		variants = variants[1:]
	}
	c.pools.set(id, append(slices.Clone(variants), p))
	return p
}

func find(pools []*pool, near, far []*resourceapi.ResourceSlice) *pool {
	for _, p := range pools {
		if slices.Equal(p.near, near) && slices.Equal(p.far, far) {
			return p
		}
	}
	return nil
}
