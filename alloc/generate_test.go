// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"
	"math/rand/v2"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/inventory"
)

// Feature is something that generated worlds may have. Each world has a random
// subset, so that pairs of features meet without all others in the way.
type Feature uint32

const (
	WithCounters Feature = 1 << iota
	WithGroups
	WithTaints
	WithSharing
	WithLists
	WithBinding
	WithAdmin
	WithConstraint
	WithAlternatives
	WithAllMode
	WithCapacity
	WithReach
	WithBroken
	WithHeld
	WithSkips
	WithDerived
	WithFailing
	WithChanged
	WithConfig
	WithTwins

	// WithAll allows every feature.
	WithAll = WithTwins<<1 - 1
)

// World is a random small cluster, the claims of a pod, and the node to put it
// on.
type World struct {
	Features Feature
	Slices   []*resourceapi.ResourceSlice
	// Before is what was published when the claims in Held were allocated; nil
	// stands for Slices.
	Before  []*resourceapi.ResourceSlice
	Rules   []*resourceapi.DeviceTaintRule
	Held    []*resourceapi.ResourceClaim
	Claims  []*resourceapi.ResourceClaim
	Classes []*resourceapi.DeviceClass
	Node    *v1.Node
}

// source turns bytes into decisions. When they end all further decisions are 0,
// which is the simplest choice everywhere: shorter input is a smaller world.
type source struct{ data []byte }

func (s *source) intn(n int) int {
	if len(s.data) == 0 {
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	return int(b) % n
}

// rarely is true once in n times.
func (s *source) rarely(n int) bool { return s.intn(n) == n-1 }

func pick[T any](s *source, of ...T) T { return of[s.intn(len(of))] }

// SeededBytes is the input for a run without a fuzzer.
func SeededBytes(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 20))
	data := make([]byte, 400)
	for i := range data {
		data[i] = byte(r.UintN(256))
	}
	return data
}

// generator makes a World.
type generator struct {
	*source
	World
	devices int
	// kind is the type of the attribute std.example.com/root.
	kind int
}

// Generate makes a world out of bytes, with no features beyond those allowed.
func Generate(data []byte, allowed Feature) *World {
	g := &generator{source: &source{data: data}}
	g.Features = g.mask() & g.mask() & allowed
	g.Node = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "z1", "rack": "r1"}}}
	if g.has(WithSkips) && !g.rarely(3) {
		g.Node.Status.DeclaredFeatures = []string{"DRAOptionalNodeOperations"}
	}
	g.kind = pick(g.source, 0, 0, 0, 1, 2, 3)
	for i := range pick(g.source, 1, 2, 2, 3) {
		g.addPool(i)
	}
	if g.has(WithBroken) && g.intn(2) == 1 {
		g.breakPool()
	}
	if g.has(WithTaints) && g.rarely(5) {
		g.addRule()
	}
	g.addClasses()
	if g.has(WithHeld) {
		for range 1 + g.intn(4) {
			g.hold()
		}
	}
	if g.has(WithChanged) {
		g.change()
	}
	for i := range pick(g.source, 1, 1, 2) {
		g.addClaim(i)
	}
	return &g.World
}

func (g *generator) mask() Feature {
	mask := Feature(0)
	for range 3 {
		mask = mask<<8 | Feature(g.intn(256))
	}
	return mask
}

func (g *generator) has(f Feature) bool { return g.Features&f != 0 }

const maxDevices = 9

func (g *generator) addPool(i int) {
	driver := pick(g.source, "a.example.com", "a.example.com", "a.example.com", "b.example.com")
	name := fmt.Sprintf("p%d", i)
	if driver == "b.example.com" && !slices.ContainsFunc(g.Slices, func(s *resourceapi.ResourceSlice) bool { return s.Spec.Driver == driver }) {
		name = "p0" // pools of two drivers may have one name
	}
	prefix := driver[:1] + name
	var sets []resourceapi.CounterSet
	if g.has(WithCounters) {
		for j := range 1 + g.intn(2) {
			sets = append(sets, g.counterSet(j))
		}
	}
	var all []*resourceapi.ResourceSlice
	for j := range 1 + g.intn(2) {
		slice := g.slice(driver, name, fmt.Sprintf("%s-%d", prefix, j))
		n := 2 + g.intn(4)
		for k := range min(n, maxDevices-g.devices) {
			slice.Spec.Devices = append(slice.Spec.Devices, g.device(fmt.Sprintf("d%d%d", j, k), sets, slice))
			g.devices++
		}
		all = append(all, slice)
	}
	if g.has(WithTwins) && g.intn(2) == 1 {
		copyDevices(all)
	}
	if len(sets) > 0 {
		slice := g.slice(driver, name, prefix+"-counters")
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
	if g.has(WithCapacity|WithSharing) && !g.rarely(5) {
		d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"mem": {Value: units(1 + g.intn(4))}}
		if g.rarely(4) {
			d.Capacity["bw"] = resourceapi.DeviceCapacity{Value: units(1 + g.intn(2))}
		}
	}
	if g.has(WithSharing) && g.intn(2) == 1 {
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
		return scalar(kind, g.intn(3))
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
	return list(kind, values)
}

func scalar(kind, v int) resourceapi.DeviceAttribute {
	switch kind % 4 {
	case 1:
		return resourceapi.DeviceAttribute{IntValue: ptr(int64(v))}
	case 2:
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

// breakPool makes one pool unusable.
func (g *generator) breakPool() {
	slice := g.Slices[g.intn(len(g.Slices))]
	how := g.intn(5)
	if len(slice.Spec.Devices) == 0 {
		how = 0
	}
	switch how {
	case 0:
		for _, other := range g.Slices {
			if other.Spec.Pool.Name == slice.Spec.Pool.Name && other.Spec.Driver == slice.Spec.Driver {
				other.Spec.Pool.ResourceSliceCount++
			}
		}
	case 1:
		slice.Spec.Devices = append(slice.Spec.Devices, *slice.Spec.Devices[0].DeepCopy())
	case 2:
		slice.Spec.Devices[0].ConsumesCounters = append(slice.Spec.Devices[0].ConsumesCounters, resourceapi.DeviceCounterConsumption{
			CounterSet: "missing", Counters: map[string]resourceapi.Counter{"m": {Value: units(1)}}})
	case 3:
		slice.Spec.Pool.Generation = 2 // the rest of the pool is of an old generation
	case 4:
		slice.Spec.Pool.ResourceSliceCount++ // disagrees with the others, if any
	}
}

func (g *generator) addClasses() {
	parameters := func(text string) []resourceapi.DeviceClassConfiguration {
		return []resourceapi.DeviceClassConfiguration{{DeviceConfiguration: configuration(text)}}
	}
	class := func(name, expression string) *resourceapi.DeviceClass {
		c := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if expression != "" {
			c.Spec.Selectors = []resourceapi.DeviceSelector{celSelector(expression)}
		}
		return c
	}
	g.Classes = []*resourceapi.DeviceClass{
		class("any", ""),
		class("ours", exprDriverA),
		class("x", exprKindX),
	}
	if g.has(WithConfig) {
		g.Classes[0].Spec.Config = parameters("any")
		g.Classes[2].Spec.Config = append(parameters("x0"), parameters("x1")...)
	}
}

func configuration(text string) resourceapi.DeviceConfiguration {
	return resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
		Driver: "a.example.com", Parameters: runtime.RawExtension{Raw: []byte(`{"from":"` + text + `"}`)}}}
}

// hold allocates a device to another claim, unless that would break a rule.
func (g *generator) hold() {
	slice := g.Slices[g.intn(len(g.Slices))]
	if len(slice.Spec.Devices) == 0 {
		return
	}
	d := &slice.Spec.Devices[g.intn(len(slice.Spec.Devices))]
	result := resourceapi.DeviceRequestAllocationResult{Request: "r", Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: d.Name}
	n := len(g.Held)
	if d.AllowMultipleAllocations != nil {
		result.ShareID = ptr(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n)))
		if c, found := d.Capacity["mem"]; found {
			amount := units(1)
			if c.RequestPolicy == nil {
				amount = pick(g.source, units(1), c.Value)
			}
			result.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"mem": amount}
		}
	}
	if g.has(WithAdmin) && g.rarely(4) {
		result.AdminAccess = ptr(true)
	}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: fmt.Sprintf("held%d", n), UID: types.UID(fmt.Sprintf("held-%d", n))}}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{result}}}
	if with := append(slices.Clone(g.Held), claim); len(CheckCluster(g.Slices, with)) == 0 {
		g.Held = with
	}
}

// change replaces what a driver publishes after devices were taken.
func (g *generator) change() {
	g.Before = g.Slices
	g.Slices = nil
	for _, slice := range g.Before {
		g.Slices = append(g.Slices, slice.DeepCopy())
	}
	for range 1 + g.intn(2) {
		slice := g.Slices[g.intn(len(g.Slices))]
		devices := slice.Spec.Devices
		if len(slice.Spec.SharedCounters) > 0 {
			slice.Spec.SharedCounters[0].Counters["m"] = resourceapi.Counter{Value: units(1 + g.intn(4))}
		}
		if len(devices) == 0 {
			continue
		}
		i := g.intn(len(devices))
		switch g.intn(4) {
		case 0:
			slice.Spec.Devices = slices.Delete(devices, i, i+1)
		case 1:
			devices[i].ConsumesCounters = nil
		case 2:
			devices[i].Name = "renamed"
		case 3:
			if devices[i].AllowMultipleAllocations != nil {
				devices[i].AllowMultipleAllocations = nil
			} else {
				devices[i].AllowMultipleAllocations = ptr(true)
			}
		}
	}
}

// Inventory feeds an inventory with the world; order, where given, shuffles what
// arrives.
func (w *World) Inventory(order *rand.Rand) *inventory.Inventory {
	shuffled := func(n int) []int {
		if order == nil {
			return slices.Collect(func(yield func(int) bool) {
				for i := 0; i < n && yield(i); i++ {
				}
			})
		}
		return order.Perm(n)
	}
	inv := inventory.New()
	publish := func(published []*resourceapi.ResourceSlice) {
		for _, i := range shuffled(len(published)) {
			inv.SetSlice(published[i])
		}
	}
	if w.Before != nil {
		publish(w.Before)
	} else {
		publish(w.Slices)
	}
	for _, i := range shuffled(len(w.Rules)) {
		inv.SetTaintRule(w.Rules[i])
	}
	for _, i := range shuffled(len(w.Held)) {
		inv.SetClaim(w.Held[i])
	}
	if w.Before != nil {
		inv.Snapshot()
		publish(w.Slices)
	}
	return inv
}

// View is what the node of the world sees.
func (w *World) View() *inventory.View { return w.Inventory(nil).Snapshot().View(w.Node) }

// Class looks up a device class.
func (w *World) Class(name string) *resourceapi.DeviceClass {
	i := slices.IndexFunc(w.Classes, func(c *resourceapi.DeviceClass) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return w.Classes[i]
}

func ptr[T any](v T) *T { return &v }

func units(n int) resource.Quantity { return *resource.NewQuantity(int64(n), resource.DecimalSI) }

func celSelector(expression string) resourceapi.DeviceSelector {
	return resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}
}
