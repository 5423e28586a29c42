// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func node(name string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}}
}

// slice is a ResourceSlice of driver d and pool p, generation 1, one slice, for
// node n1; changes alter it.
func slice(name string, changes ...func(*resourceapi.ResourceSlice)) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: "d", Pool: resourceapi.ResourcePool{Name: "p", Generation: 1, ResourceSliceCount: 1}, NodeName: ptr("n1"),
		},
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

type change = func(*resourceapi.ResourceSlice)

func inPool(pool string) change {
	return func(s *resourceapi.ResourceSlice) { s.Spec.Pool.Name = pool }
}

func revision(generation, slices int64) change {
	return func(s *resourceapi.ResourceSlice) {
		s.Spec.Pool.Generation, s.Spec.Pool.ResourceSliceCount = generation, slices
	}
}

func onNode(name string) change {
	return func(s *resourceapi.ResourceSlice) { s.Spec.NodeName = &name }
}

func onAllNodes(s *resourceapi.ResourceSlice) { s.Spec.NodeName, s.Spec.AllNodes = nil, ptr(true) }

// perDevice leaves the node selection to the devices.
func perDevice(s *resourceapi.ResourceSlice) {
	s.Spec.NodeName, s.Spec.PerDeviceNodeSelection = nil, ptr(true)
}

func onNodes(names ...string) *v1.NodeSelector {
	return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{
		Key: "name", Operator: v1.NodeSelectorOpIn, Values: names,
	}}}}}
}

func with(devices ...resourceapi.Device) change {
	return func(s *resourceapi.ResourceSlice) { s.Spec.Devices = append(s.Spec.Devices, devices...) }
}

// drawing is a device that consumes from counters, given as "set/counter=value".
func drawing(name string, draws ...string) resourceapi.Device {
	d := resourceapi.Device{Name: name}
	for _, draw := range draws {
		set, counter, value := parseDraw(draw)
		d.ConsumesCounters = append(d.ConsumesCounters, resourceapi.DeviceCounterConsumption{
			CounterSet: set, Counters: map[string]resourceapi.Counter{counter: {Value: value}},
		})
	}
	return d
}

// withSet adds a counter set of one counter, given as "set/counter=value".
func withSet(draw string) change {
	set, counter, value := parseDraw(draw)
	return func(s *resourceapi.ResourceSlice) {
		s.Spec.SharedCounters = append(s.Spec.SharedCounters, resourceapi.CounterSet{
			Name: set, Counters: map[string]resourceapi.Counter{counter: {Value: value}},
		})
	}
}

func parseDraw(draw string) (set, counter string, value resource.Quantity) {
	name, amount, _ := strings.Cut(draw, "=")
	set, counter, _ = strings.Cut(name, "/")
	return set, counter, resource.MustParse(amount)
}

// inventoryOf holds these slices.
func inventoryOf(all ...*resourceapi.ResourceSlice) *Inventory {
	inv := New()
	inv.SyncSlices(all)
	return inv
}

// names lists what a node can have: "d/p: d0 d1", with the problem's kind where
// there is one.
func names(v *View) []string {
	var lines []string
	for _, pv := range v.Pools {
		line := pv.Pool.ID.String() + ":"
		for _, d := range pv.Devices {
			line += " " + d.ID.Device
		}
		if pv.Pool.Problem != nil {
			line += " " + string(pv.Pool.Problem.Kind)
		}
		lines = append(lines, line)
	}
	return lines
}

// free lists what is left of the counters: "set/counter=value", "closed" where
// nothing may be taken.
func free(p *Pool, use *PoolUse) []string {
	var lines []string
	for i, c := range p.Counters {
		left := use.Free[i].Quantity()
		line := fmt.Sprintf("%s/%s=%s", p.Sets[c.Set].Name, c.Name, left.String())
		if use.Closed[c.Set] {
			line += " closed"
		}
		lines = append(lines, line)
	}
	return lines
}
