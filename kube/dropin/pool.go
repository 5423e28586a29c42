// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package dropin

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/structured"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
)

// flaw says why a pool cannot be used.
type flaw int

const (
	none flaw = iota
	// incomplete: the pool is being updated.
	incomplete
	// invalid: names collide, or counters are missing.
	invalid
)

// pool is a resource pool as seen from the nodes that reach the same slices of
// it. It is immutable but for what it remembers.
type pool struct {
	id inventory.PoolID
	// near are the slices that the node reaches, in the order in which they
	// were given; far the others, where they matter for counters.
	near, far []*resourceapi.ResourceSlice
	flaw      flaw
	// late pools come after the others: they have binding conditions.
	late bool

	// All that follows is only there without a flaw. Pool has the devices of
	// near and far; devices are those of near.
	*inventory.Pool
	devices []*inventory.Device
	// choosy pools have devices whose admission depends on the node or that
	// nobody may have; barred says which of Pool.Devices the latter are.
	choosy bool
	barred []bool
	// ids returns the IDs of Pool.Devices.
	ids  func() []structured.DeviceID
	memo *memo
}

// newPool assembles a pool that is complete.
func newPool(features structured.Features, id inventory.PoolID, near, far []*resourceapi.ResourceSlice) *pool {
	p := &pool{id: id, near: near, far: far}
	targeting, others := byName(near), byName(far)
	counters := features.PartitionableDevices && hasCounters(targeting, others)
	all := targeting
	if counters {
		targeting, others = withoutStrays(targeting), withoutStrays(others)
		all = append(slices.Clone(targeting), others...)
	}
	p.Pool = inventory.NewPool(id, all, nil)
	if p.suspicious(features, others, counters) && !valid(features, targeting, others) {
		p.flaw, p.Pool = invalid, nil
		return p
	}
	// Package inventory is stricter than the stock allocator.
	p.Problem, p.Problems = nil, nil
	p.ids, p.memo = sync.OnceValue(p.deviceIDs), newMemo(len(p.Devices))
	p.addDevices(features, targeting)
	return p
}

// suspicious reports whether valid must have a closer look.
func (p *pool) suspicious(features structured.Features, others []*resourceapi.ResourceSlice, counters bool) bool {
	for _, problem := range p.Problems {
		switch problem.Kind {
		case inventory.DuplicateDevice, inventory.DuplicateCounterSet, inventory.MissingCounterSet, inventory.MissingCounter:
			return true
		}
	}
	return features.PartitionableDevices && !counters && slices.ContainsFunc(others, consumesCounters)
}

func consumesCounters(slice *resourceapi.ResourceSlice) bool {
	return slices.ContainsFunc(slice.Spec.Devices, func(d resourceapi.Device) bool { return len(d.ConsumesCounters) > 0 })
}

func (p *pool) deviceIDs() []structured.DeviceID {
	ids := make([]structured.DeviceID, len(p.Devices))
	for i, d := range p.Devices {
		ids[i] = structured.MakeDeviceID(d.ID.Driver, d.ID.Pool, d.ID.Device)
	}
	return ids
}

// addDevices notes what package inventory does not know about the devices.
func (p *pool) addDevices(features structured.Features, targeting []*resourceapi.ResourceSlice) {
	for i, d := range p.Devices {
		if !features.DeviceTaints {
			d.Taints = nil
		}
		if !features.PartitionableDevices && len(d.Spec.ConsumesCounters) > 0 || !features.OptionalNodeOperations && len(d.Slice.Spec.SkipNodeOperations) > 0 {
			if p.barred == nil {
				p.barred = make([]bool, len(p.Devices))
			}
			p.barred[i] = true
		}
		if len(p.far) > 0 && !slices.Contains(targeting, d.Slice) {
			continue
		}
		p.late = p.late || d.Spec.BindingConditions != nil
		p.choosy = p.choosy || p.barred != nil || perDevice(d.Slice)
		if features.DeviceBindingAndStatus || len(d.Spec.BindingConditions) == 0 {
			p.devices = append(p.devices, d)
		}
	}
}

// admit says whether a device may be had that the selectors match. Where nodes
// are selected per device, the stock allocator looks at the node only then.
func (p *pool) admit(d *inventory.Device, node *v1.Node) (alloc.Admission, error) {
	if perDevice(d.Slice) {
		if err := parses(d.Spec.NodeName, d.Spec.AllNodes, d.Spec.NodeSelector, &d.Reach); err != nil {
			return alloc.Foreign, err
		}
		if !d.Reach.Node(node) {
			return alloc.Foreign, nil
		}
	}
	if p.barred != nil && p.barred[d.Index] {
		return alloc.Barred, nil
	}
	return alloc.Admitted, nil
}

func perDevice(slice *resourceapi.ResourceSlice) bool {
	return slice.Spec.PerDeviceNodeSelection != nil && *slice.Spec.PerDeviceNodeSelection
}

// parses returns the error of a node selector in use that package inventory could
// not parse.
func parses(nodeName *string, allNodes *bool, selector *v1.NodeSelector, reach *inventory.Reach) error {
	if nodeName != nil && *nodeName != "" || allNodes != nil && *allNodes || selector == nil || reach.Selector != nil {
		return nil
	}
	_, err := nodeaffinity.NewNodeSelector(selector)
	return fmt.Errorf("failed to parse node selector %s: %w", selector, err)
}

func byName(of []*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	if len(of) < 2 {
		return of
	}
	of = slices.Clone(of)
	slices.SortStableFunc(of, func(a, b *resourceapi.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
	return of
}

// withoutStrays leaves out devices in slices that publish counters: the stock
// allocator does not see them.
func withoutStrays(of []*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice {
	for i, slice := range of {
		if len(slice.Spec.SharedCounters) > 0 && len(slice.Spec.Devices) > 0 {
			of = slices.Clone(of)
			counters := *slice
			counters.Spec.Devices = nil
			of[i] = &counters
		}
	}
	return of
}

func hasCounters(lists ...[]*resourceapi.ResourceSlice) bool {
	for _, list := range lists {
		for _, slice := range list {
			if len(slice.Spec.SharedCounters) > 0 {
				return true
			}
		}
	}
	return false
}

// valid reports whether device names are unique among the slices that the node
// reaches, and counter sets, and whether all counters that devices of either
// consume exist.
func valid(features structured.Features, targeting, others []*resourceapi.ResourceSlice) bool {
	if !uniqueDevices(targeting) {
		return false
	}
	if !features.PartitionableDevices {
		return true
	}
	sets := map[string]map[string]resourceapi.Counter{}
	for _, list := range [][]*resourceapi.ResourceSlice{targeting, others} {
		for _, slice := range list {
			for _, set := range slice.Spec.SharedCounters {
				if _, found := sets[set.Name]; found {
					return false
				}
				sets[set.Name] = set.Counters
			}
		}
	}
	return consistent(targeting, sets) && consistent(others, sets)
}

func uniqueDevices(of []*resourceapi.ResourceSlice) bool {
	seen := map[string]bool{}
	for _, slice := range of {
		for i := range slice.Spec.Devices {
			if name := slice.Spec.Devices[i].Name; seen[name] {
				return false
			} else {
				seen[name] = true
			}
		}
	}
	return true
}

func consistent(of []*resourceapi.ResourceSlice, sets map[string]map[string]resourceapi.Counter) bool {
	for _, slice := range of {
		for i := range slice.Spec.Devices {
			for _, consumes := range slice.Spec.Devices[i].ConsumesCounters {
				set, found := sets[consumes.CounterSet]
				if !found {
					return false
				}
				for name := range consumes.Counters {
					if _, found := set[name]; !found {
						return false
					}
				}
			}
		}
	}
	return true
}
