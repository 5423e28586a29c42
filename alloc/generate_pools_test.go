// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/inventory"
)

const maxDevices = 10

func (g *generator) addPool(i int) {
	driver := pick(g.source, "a.example.com", "a.example.com", "a.example.com", "b.example.com")
	name := fmt.Sprintf("p%d", i)
	if driver == "b.example.com" && !slices.ContainsFunc(g.Slices, func(s *resourceapi.ResourceSlice) bool { return s.Spec.Driver == driver }) {
		name = "p0" // pools of two drivers may have one name
	}
	prefix := driver[:1] + name
	if g.has(WithCounters) && (g.has(WithTwins) || g.rarely(3)) {
		g.addSlices(g.cards(driver, name, prefix), g.counters)
		return
	}
	g.counters = nil
	if g.has(WithCounters) {
		for j := range 1 + g.intn(2) {
			g.counters = append(g.counters, g.counterSet(j))
		}
	}
	var all []*resourceapi.ResourceSlice
	for j := range 1 + g.intn(2) {
		slice := g.slice(driver, name, fmt.Sprintf("%s-%d", prefix, j))
		n := 2 + g.intn(4)
		for k := range min(n, maxDevices-g.devices) {
			slice.Spec.Devices = append(slice.Spec.Devices, g.device(fmt.Sprintf("d%d%d", j, k), g.counters, slice))
			g.devices++
		}
		all = append(all, slice)
	}
	if g.has(WithTwins) && g.intn(2) == 1 {
		copyDevices(all)
	}
	g.addSlices(all, g.counters)
}

// cards makes one slice with equal cards, each with a counter set of its own and
// the same partitions.
func (g *generator) cards(driver, name, prefix string) []*resourceapi.ResourceSlice {
	slice := g.slice(driver, name, prefix+"-0")
	g.counters = []resourceapi.CounterSet{g.counterSet(0)}
	var layout []resourceapi.Device
	for range 1 + g.intn(4) {
		d := g.device("", nil, slice)
		g.addConsumption(&d, g.counters)
		layout = append(layout, d)
	}
	apart := g.intn(2) == 1 // by an attribute
	for card := range 2 + g.intn(2) {
		if card > 0 {
			set := *g.counters[0].DeepCopy()
			set.Name = fmt.Sprintf("set%d", card)
			g.counters = append(g.counters, set)
		}
		for k := range layout[:min(len(layout), maxDevices-g.devices)] {
			d := *layout[k].DeepCopy()
			d.Name = fmt.Sprintf("d%d%d", card, k)
			d.ConsumesCounters[0].CounterSet = g.counters[card].Name
			if apart {
				d.Attributes["std.example.com/root"] = scalar(g.kind, card)
			}
			slice.Spec.Devices = append(slice.Spec.Devices, d)
			g.devices++
		}
	}
	return []*resourceapi.ResourceSlice{slice}
}

// addSlices completes a pool with a slice for its counter sets, if any.
func (g *generator) addSlices(all []*resourceapi.ResourceSlice, sets []resourceapi.CounterSet) {
	if len(sets) > 0 {
		spec := all[0].Spec.Pool
		slice := g.slice(all[0].Spec.Driver, spec.Name, strings.TrimSuffix(all[0].Name, "-0")+"-counters")
		slice.Spec.PerDeviceNodeSelection, slice.Spec.SkipNodeOperations = nil, nil
		if slice.Spec.NodeName == nil && slice.Spec.NodeSelector == nil {
			slice.Spec.AllNodes = ptr(true)
		}
		slice.Spec.SharedCounters = sets
		all = append(all, slice)
	}
	for _, slice := range all {
		slice.Spec.Pool.ResourceSliceCount = int64(len(all))
	}
	g.Slices = append(g.Slices, all...)
}

// copyDevices makes the devices of a pool equal but for their names.
func copyDevices(all []*resourceapi.ResourceSlice) {
	for _, slice := range all {
		for i := range slice.Spec.Devices {
			d := slice.Spec.Devices[0].DeepCopy()
			d.Name = slice.Spec.Devices[i].Name
			slice.Spec.Devices[i] = *d
		}
	}
}

func (g *generator) slice(driver, pool, name string) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
	slice.Spec.Driver = driver
	slice.Spec.Pool = resourceapi.ResourcePool{Name: pool, Generation: 1}
	reach := 0
	if g.has(WithReach) {
		reach = g.intn(9)
	}
	switch reach {
	default:
		slice.Spec.NodeName = ptr("n1")
	case 2:
		slice.Spec.AllNodes = ptr(true)
	case 3:
		slice.Spec.NodeSelector = selector("zone", "z1", "z2")
	case 4:
		slice.Spec.NodeSelector = selector("rack", "r1")
	case 5:
		slice.Spec.NodeName = ptr("n2")
	case 6, 7:
		slice.Spec.PerDeviceNodeSelection = ptr(true)
	}
	if g.has(WithSkips) && g.intn(2) == 1 {
		slice.Spec.SkipNodeOperations = []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationNodePrepareResources}
	}
	return slice
}

func selector(label string, values ...string) *v1.NodeSelector {
	return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: label, Operator: v1.NodeSelectorOpIn, Values: values}},
	}}}
}

func (g *generator) counterSet(i int) resourceapi.CounterSet {
	set := resourceapi.CounterSet{Name: fmt.Sprintf("set%d", i), Counters: map[string]resourceapi.Counter{"m": {Value: units(2 + g.intn(4))}}}
	if g.intn(2) == 1 {
		set.Counters["n"] = resourceapi.Counter{Value: units(1 + g.intn(3))}
	}
	return set
}

func (g *generator) device(name string, sets []resourceapi.CounterSet, slice *resourceapi.ResourceSlice) resourceapi.Device {
	d := resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		"std.example.com/kind": {StringValue: ptr(pick(g.source, "x", "x", "x", "y"))},
		"std.example.com/size": {IntValue: ptr(int64(1 + g.intn(3)))},
	}}
	if g.has(WithConstraint) {
		g.addAttributes(&d)
	}
	if g.has(WithFailing) && g.intn(2) == 1 {
		d.Attributes["std.example.com/rare"] = resourceapi.DeviceAttribute{IntValue: ptr(int64(g.intn(2)))}
	}
	if len(sets) > 0 && g.intn(4) != 0 {
		g.addConsumption(&d, sets)
	}
	if g.has(WithTaints) && g.rarely(4) {
		d.Taints = []resourceapi.DeviceTaint{g.taint()}
	}
	if g.has(WithKept) && g.rarely(5) {
		d.Taints = append(d.Taints, g.keeping()...)
	}
	if g.has(WithCapacity|WithSharing) && !g.rarely(5) {
		d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"mem": {Value: units(1 + g.intn(4))}}
		if g.rarely(4) {
			d.Capacity["bw"] = resourceapi.DeviceCapacity{Value: units(1 + g.intn(2))}
		}
	}
	if g.has(WithSharing|WithFormer) && g.intn(2) == 1 {
		d.AllowMultipleAllocations = ptr(true)
		g.addPolicy(&d)
	}
	if g.has(WithBinding) && g.rarely(3) {
		d.BindingConditions, d.BindingFailureConditions = []string{"attached"}, []string{"attach-failed"}
		if g.intn(2) == 1 {
			d.BindsToNode = ptr(true)
		}
	}
	if slice.Spec.PerDeviceNodeSelection != nil {
		switch g.intn(4) {
		case 0:
			d.NodeName = ptr("n1")
		case 1:
			d.AllNodes = ptr(true)
		case 2:
			d.NodeSelector = selector("zone", "z1")
		case 3:
			d.NodeName = ptr("n2")
		}
	}
	return d
}

func (g *generator) addAttributes(d *resourceapi.Device) {
	if !g.rarely(8) {
		d.Attributes["std.example.com/root"] = g.attribute()
	}
	if !g.rarely(8) {
		d.Attributes["numa"] = resourceapi.DeviceAttribute{IntValue: ptr(int64(g.intn(3)))}
	}
}

// attribute is a value of the attribute that constraints look at most, a scalar
// or a list. All have the same type, but for one in a while.
func (g *generator) attribute() resourceapi.DeviceAttribute {
	kind := g.kind
	if g.has(WithLists) && g.rarely(12) {
		kind++
	}
	if !g.has(WithLists) || g.intn(3) == 0 {
		return g.built(scalar(kind, g.intn(3)))
	}
	var values []int
	for v := range 3 {
		if g.intn(2) == 1 {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		values = []int{0}
	}
	return g.built(list(kind, values))
}

// built adds build metadata to versions, and to a list now and then another build of one
// that it has.
func (g *generator) built(a resourceapi.DeviceAttribute) resourceapi.DeviceAttribute {
	if !g.has(WithBuilds) {
		return a
	}
	if a.VersionValue != nil {
		*a.VersionValue += g.build()
	}
	for i := range a.VersionValues {
		a.VersionValues[i] += g.build()
	}
	if len(a.VersionValues) > 0 && g.rarely(3) {
		version, _, _ := strings.Cut(a.VersionValues[0], "+")
		a.VersionValues = append(a.VersionValues, version+"+again")
	}
	return a
}

func (g *generator) build() string { return pick(g.source, "", "+a", "+b") }

// kindVersion is the kind of versions.
const kindVersion = 2

func scalar(kind, v int) resourceapi.DeviceAttribute {
	switch kind % 4 {
	case 1:
		return resourceapi.DeviceAttribute{IntValue: ptr(int64(v))}
	case kindVersion:
		return resourceapi.DeviceAttribute{VersionValue: ptr(fmt.Sprintf("1.%d.0", v))}
	case 3:
		return resourceapi.DeviceAttribute{BoolValue: ptr(v > 0)}
	}
	return resourceapi.DeviceAttribute{StringValue: ptr(fmt.Sprintf("r%d", v))}
}

func list(kind int, values []int) resourceapi.DeviceAttribute {
	var a resourceapi.DeviceAttribute
	for _, v := range values {
		switch one := scalar(kind, v); {
		case one.IntValue != nil:
			a.IntValues = append(a.IntValues, *one.IntValue)
		case one.VersionValue != nil:
			a.VersionValues = append(a.VersionValues, *one.VersionValue)
		case one.BoolValue != nil:
			a.BoolValues = append(a.BoolValues, *one.BoolValue)
		default:
			a.StringValues = append(a.StringValues, *one.StringValue)
		}
	}
	return a
}

func (g *generator) addConsumption(d *resourceapi.Device, sets []resourceapi.CounterSet) {
	first := g.intn(len(sets))
	for i, set := range sets {
		if i != first && !g.rarely(4) {
			continue
		}
		c := resourceapi.DeviceCounterConsumption{CounterSet: set.Name, Counters: map[string]resourceapi.Counter{}}
		for _, name := range []string{"m", "n"} {
			if _, found := set.Counters[name]; found && (name == "m" || g.intn(2) == 1) {
				c.Counters[name] = resourceapi.Counter{Value: units(pick(g.source, 1, 1, 2, 3, 1, 1, 2, 0))}
			}
		}
		if g.has(WithGroups) {
			c.CompatibilityGroups = pick(g.source, nil, []string{"g0"}, []string{"g1"}, []string{"g0", "g1"}, []string{"g1", "g2"})
		}
		d.ConsumesCounters = append(d.ConsumesCounters, c)
	}
}

func (g *generator) taint() resourceapi.DeviceTaint {
	return resourceapi.DeviceTaint{
		Key:    pick(g.source, "k0", "k1"),
		Value:  pick(g.source, "", "v"),
		Effect: pick(g.source, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNone),
	}
}

// keeping has a device be kept for one of the claims, or for one that is not
// there, while others arrive.
func (g *generator) keeping() []resourceapi.DeviceTaint {
	var taints []resourceapi.DeviceTaint
	for range 1 + g.intn(2) {
		taints = append(taints, resourceapi.DeviceTaint{
			Key:    pick(g.source, inventory.ClaimTaint, inventory.ClaimTaint, inventory.ArrivingTaint),
			Value:  pick(g.source, "claim-0", "claim-1", "another"),
			Effect: resourceapi.DeviceTaintEffectNoSchedule,
		})
	}
	return taints
}

func (g *generator) addRule() {
	driver := pick(g.source, "a.example.com", "b.example.com")
	g.Rules = append(g.Rules, &resourceapi.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: "rule"},
		Spec:       resourceapi.DeviceTaintRuleSpec{DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: &driver}, Taint: g.taint()},
	})
	if s := g.Rules[0].Spec.DeviceSelector; g.intn(2) == 1 {
		s.Pool, s.Device = ptr("p0"), ptr("d00")
	}
}

// addPolicy gives the capacity of a shared device a request policy.
func (g *generator) addPolicy(d *resourceapi.Device) {
	c, found := d.Capacity["mem"]
	if !found {
		return
	}
	switch g.intn(5) {
	case 1:
		c.RequestPolicy = &resourceapi.CapacityRequestPolicy{Default: ptr(units(1)), ValidValues: []resource.Quantity{units(1), units(2), units(4)}}
	case 2:
		c.RequestPolicy = &resourceapi.CapacityRequestPolicy{Default: ptr(units(1)), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: ptr(units(1)), Step: ptr(units(2)), Max: ptr(units(3))}}
	case 3:
		c.RequestPolicy = &resourceapi.CapacityRequestPolicy{Default: ptr(resource.MustParse("500m")), ValidRange: &resourceapi.CapacityRequestPolicyRange{
			Min: ptr(resource.MustParse("500m")), Step: ptr(resource.MustParse("250m"))}}
	case 4:
		c.RequestPolicy = &resourceapi.CapacityRequestPolicy{Default: ptr(units(1)), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: ptr(units(1)), Max: ptr(units(2))}}
	}
	d.Capacity["mem"] = c
}
