// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package dropin_test

import (
	"fmt"
	"math/rand/v2"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// problem is everything that an allocator is given.
type problem struct {
	features structured.Features
	state    structured.AllocatedState
	classes  classes
	slices   []*resourceapi.ResourceSlice
	nodes    []*v1.Node
	claims   []*resourceapi.ResourceClaim
}

// generator makes small problems at random, with everything that the API has and
// much that drivers get wrong.
type generator struct {
	*rand.Rand
	problem
	// devices lists what was published, for the allocated state; sharable are those
	// that can be shared wherever they are published.
	devices  []structured.DeviceID
	sharable map[structured.DeviceID]bool
	// calm problems have no errors in them, so that more of them have results.
	// In roomy ones little is taken and little is asked for.
	calm, roomy bool
	// versions is whether the attribute root is one.
	versions bool
	// stored slices look as if they came from an informer.
	stored bool
	// partitions is whether the pool being made has counters.
	partitions bool
}

func generate(seed uint64) *problem {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 7)), sharable: map[structured.DeviceID]bool{}}
	g.calm, g.roomy, g.stored, g.versions = g.chance(60), g.chance(60), g.chance(50), g.chance(30)
	g.makeFeatures()
	g.makeNodes()
	for i := range 1 + g.IntN(4) {
		g.makePool(i)
	}
	g.Shuffle(len(g.slices), func(i, j int) { g.slices[i], g.slices[j] = g.slices[j], g.slices[i] })
	g.makeState()
	g.makeClasses()
	for i := range 1 + g.IntN(2) {
		g.makeClaim(i)
	}
	return &g.problem
}

// chance is true in so many of a hundred cases.
func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

// rarely returns the first number, or the second in roomy problems.
func (g *generator) rarely(crowded, roomy int) int {
	if g.roomy {
		return roomy
	}
	return crowded
}

// fault is a chance that calm problems never take.
func (g *generator) fault(percent int) bool { return !g.calm && g.chance(percent) }

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

// allFeatures has everything on.
var allFeatures = structured.Features{
	AdminAccess:             true,
	CompatibilityGroups:     true,
	ConsumableCapacity:      true,
	DerivedAttributes:       true,
	DeviceBindingAndStatus:  true,
	DeviceTaints:            true,
	FractionalCapacityRange: true,
	ListTypeAttributes:      true,
	OptionalNodeOperations:  true,
	PartitionableDevices:    true,
	PrioritizedList:         true,
}

func (g *generator) makeFeatures() {
	g.features = allFeatures
	if g.chance(50) {
		return
	}
	for _, f := range []*bool{
		&g.features.AdminAccess, &g.features.CompatibilityGroups, &g.features.ConsumableCapacity, &g.features.DerivedAttributes,
		&g.features.DeviceBindingAndStatus, &g.features.DeviceTaints, &g.features.FractionalCapacityRange, &g.features.ListTypeAttributes,
		&g.features.OptionalNodeOperations, &g.features.PartitionableDevices, &g.features.PrioritizedList,
	} {
		*f = g.chance(80)
	}
}

func (g *generator) makeNodes() {
	for i, name := range []string{"node-1", "node-2"} {
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": fmt.Sprint(i)}}}
		if g.chance(60) {
			node.Status.DeclaredFeatures = []string{"DRAOptionalNodeOperations"}
		}
		g.nodes = append(g.nodes, node)
	}
}

func (g *generator) makePool(i int) {
	id := fmt.Sprintf("pool-%d", 9-i)
	driver := pick(g, "a.example.com", "a.example.com", "b.example.com")
	count, generation := 1+g.IntN(2), int64(2)
	g.partitions = g.chance(40)
	spread := g.chance(25)
	for n := range count {
		s := g.newSlice(fmt.Sprintf("slice-%d-%d", i, n), driver, id, generation, int64(count))
		g.selectNodes(s, spread)
		for d := range g.IntN(g.rarely(5, 6)) {
			name := fmt.Sprintf("dev-%d%d", n, d)
			if g.fault(2) {
				name = "dev-00"
			}
			device := g.newDevice(name, s)
			s.Spec.Devices = append(s.Spec.Devices, device)
			g.listed(structured.MakeDeviceID(driver, id, name), &device)
		}
	}
	if g.partitions {
		g.makeCounters(i, driver, id, generation)
		count++
		for _, s := range g.slices {
			if s.Spec.Pool.Name == id {
				s.Spec.Pool.ResourceSliceCount = int64(count)
			}
		}
	}
	if g.chance(8) {
		old := g.newSlice(fmt.Sprintf("slice-%d-old", i), driver, id, generation-1, 1)
		g.selectNodes(old, false)
		old.Spec.Devices = append(old.Spec.Devices, g.newDevice("dev-old", old))
	}
	if g.chance(8) {
		next := g.newSlice(fmt.Sprintf("slice-%d-new", i), driver, id, generation+1, 2)
		g.selectNodes(next, true)
	}
}

// listed notes a device for the allocated state.
func (g *generator) listed(id structured.DeviceID, d *resourceapi.Device) {
	before, twice := g.sharable[id]
	g.sharable[id] = g.features.ConsumableCapacity && ptr.Deref(d.AllowMultipleAllocations, false) && (before || !twice)
	g.devices = append(g.devices, id)
}

func (g *generator) newSlice(name, driver, pool string, generation, count int64) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: driver,
			Pool:   resourceapi.ResourcePool{Name: pool, Generation: generation, ResourceSliceCount: count},
		},
	}
	if g.fault(4) {
		s.Spec.Pool.ResourceSliceCount++
	}
	if g.stored {
		s.ResourceVersion = "1"
	}
	if g.chance(g.rarely(10, 3)) {
		s.Spec.SkipNodeOperations = []resourceapi.SkipNodeOperation{"All"}
	}
	g.slices = append(g.slices, s)
	return s
}

// selectNodes makes a slice one for node-1, or for any of the others.
func (g *generator) selectNodes(s *resourceapi.ResourceSlice, spread bool) {
	switch {
	case !spread && g.chance(60):
		s.Spec.NodeName = ptr.To("node-1")
	case g.chance(20):
		s.Spec.NodeName = ptr.To(pick(g, "node-1", "node-2"))
	case g.chance(40):
		s.Spec.AllNodes = ptr.To(true)
	case g.chance(40):
		s.Spec.PerDeviceNodeSelection = ptr.To(true)
	case g.chance(95):
		s.Spec.NodeSelector = g.nodeSelector()
	}
}

func (g *generator) nodeSelector() *v1.NodeSelector {
	term := v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{
		{Key: "rack", Operator: v1.NodeSelectorOpIn, Values: pick(g, []string{"0"}, []string{"0", "1"}, []string{"1", "0"}, []string{"1"})},
	}}
	if g.fault(3) {
		term.MatchExpressions[0].Operator = "Near"
	}
	s := &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}}
	if g.fault(5) {
		s.NodeSelectorTerms = append(s.NodeSelectorTerms, term)
	}
	return s
}

func (g *generator) newDevice(name string, s *resourceapi.ResourceSlice) resourceapi.Device {
	d := resourceapi.Device{Name: name, Attributes: g.attributes()}
	if ptr.Deref(s.Spec.PerDeviceNodeSelection, false) {
		switch g.IntN(3) {
		case 0:
			d.NodeName = ptr.To(pick(g, "node-1", "node-1", "node-2"))
		case 1:
			d.AllNodes = ptr.To(true)
		case 2:
			d.NodeSelector = g.nodeSelector()
		}
	}
	if g.chance(g.rarely(15, 4)) {
		d.Taints = append(d.Taints, resourceapi.DeviceTaint{
			Key: pick(g, "x", "y"), Value: "v",
			Effect: pick(g, resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute, resourceapi.DeviceTaintEffectNone),
		})
	}
	if g.chance(10) {
		d.BindingConditions, d.BindingFailureConditions = []string{"Ready"}, []string{"Broken"}
	}
	if g.chance(5) {
		d.BindsToNode = ptr.To(true)
	}
	if g.chance(30) {
		d.AllowMultipleAllocations = ptr.To(g.chance(90))
	}
	if g.chance(50) {
		d.Capacity = g.capacity()
	}
	if g.partitions && g.chance(80) {
		d.ConsumesCounters = g.consumes()
	}
	return d
}

func (g *generator) attributes() map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	attributes := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
	if g.calm || g.chance(90) {
		attributes["kind"] = resourceapi.DeviceAttribute{StringValue: ptr.To(pick(g, "gpu", "gpu", "nic"))}
	}
	if g.chance(90) {
		attributes["std.example.com/numa"] = resourceapi.DeviceAttribute{IntValue: ptr.To(g.Int64N(3))}
	}
	switch kind := g.IntN(6); {
	case g.versions && kind > 0:
		attributes["std.example.com/root"] = g.version()
	case kind == 0:
		attributes["std.example.com/root"] = resourceapi.DeviceAttribute{StringValues: pick(g, []string{"r0"}, []string{"r0", "r1"}, []string{"r1", "r2"})}
	case kind < 5:
		attributes["std.example.com/root"] = resourceapi.DeviceAttribute{StringValue: ptr.To(pick(g, "r0", "r1", "r2"))}
	}
	return attributes
}

// version is one version or several, which may differ in build metadata alone.
func (g *generator) version() resourceapi.DeviceAttribute {
	one := func() string { return pick(g, "1.0.0", "1.0.0-rc.1", "2.0.0", "1.0.0") + pick(g, "", "+a", "+b") }
	if g.chance(50) {
		return resourceapi.DeviceAttribute{VersionValue: ptr.To(one())}
	}
	var a resourceapi.DeviceAttribute
	for range 1 + g.IntN(3) {
		a.VersionValues = append(a.VersionValues, one())
	}
	return a
}

func quantity(text string) resource.Quantity { return resource.MustParse(text) }

func (g *generator) capacity() map[resourceapi.QualifiedName]resourceapi.DeviceCapacity {
	c := resourceapi.DeviceCapacity{Value: quantity(pick(g, "4", "10", "2500m"))}
	switch g.IntN(4) {
	case 0:
		c.RequestPolicy = &resourceapi.CapacityRequestPolicy{
			Default:     ptr.To(quantity("1")),
			ValidValues: []resource.Quantity{quantity("1"), quantity("2"), quantity("4")},
		}
	case 1:
		c.RequestPolicy = &resourceapi.CapacityRequestPolicy{
			Default:    ptr.To(quantity(pick(g, "1", "500m"))),
			ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: ptr.To(quantity(pick(g, "1", "500m")))},
		}
		if g.chance(60) {
			c.RequestPolicy.ValidRange.Step = ptr.To(quantity(pick(g, "1", "500m", "3")))
		}
		if g.chance(40) {
			c.RequestPolicy.ValidRange.Max = ptr.To(quantity("4"))
		}
	}
	if g.fault(3) {
		c.Value = quantity("-1")
	}
	capacity := map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"mem": c}
	if g.chance(20) {
		capacity["std.example.com/bw"] = resourceapi.DeviceCapacity{Value: quantity("3")}
	}
	return capacity
}

func (g *generator) makeCounters(i int, driver, pool string, generation int64) {
	s := g.newSlice(fmt.Sprintf("slice-%d-counters", i), driver, pool, generation, 0)
	s.Spec.NodeName = ptr.To("node-1")
	if g.chance(20) {
		g.selectNodes(s, true)
	}
	sets := 2
	if g.fault(5) {
		sets = 1
	}
	for n := range sets {
		s.Spec.SharedCounters = append(s.Spec.SharedCounters, resourceapi.CounterSet{Name: fmt.Sprintf("set-%d", n), Counters: map[string]resourceapi.Counter{
			"a": {Value: quantity(pick(g, "1", "2", "3"))}, "b": {Value: quantity("2")},
		}})
	}
}

func (g *generator) consumes() []resourceapi.DeviceCounterConsumption {
	var all []resourceapi.DeviceCounterConsumption
	first := g.IntN(2)
	for n := range 1 + g.IntN(10)/8 {
		c := resourceapi.DeviceCounterConsumption{CounterSet: fmt.Sprintf("set-%d", (first+n)%2), Counters: map[string]resourceapi.Counter{
			pick(g, "a", "b"): {Value: quantity(pick(g, "1", "1", "2"))},
		}}
		if g.chance(25) {
			c.CompatibilityGroups = pick(g, []string{"g0"}, []string{"g0", "g1"}, []string{"g1"})
		}
		all = append(all, c)
	}
	return all
}

func (g *generator) makeState() {
	g.state = structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, id := range g.devices {
		switch {
		case g.chance(g.rarely(15, 5)):
			g.state.AllocatedDevices.Insert(id)
		case g.chance(10) && (g.calm || g.sharable[id]): // see settled
			share := types.UID(fmt.Sprint("share-", g.IntN(100)))
			g.state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, &share))
			if g.chance(70) {
				g.state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id,
					map[resourceapi.QualifiedName]resource.Quantity{"mem": quantity(pick(g, "1", "2", "500m"))}))
			}
		}
	}
	if g.chance(20) {
		g.state.AllocatedDevices.Insert(structured.MakeDeviceID("a.example.com", "pool-9", "gone"))
	}
}

// Selectors: those that never fail, and those that fail on some devices or do not
// even compile.
var (
	sound = []string{
		`device.driver.endsWith("example.com")`, `device.driver == "a.example.com"`,
		`device.attributes["std.example.com"].?numa.orValue(0) != 1`,
		`device.attributes[device.driver].?kind.orValue("") == "gpu"`,
	}
	unsound = []string{
		`device.attributes[device.driver].kind == "gpu"`, `device.attributes["std.example.com"].numa > 0`,
		`device.capacity[device.driver].mem.isGreaterThan(quantity("3"))`, `device.nothing == 1`,
	}
)

func (g *generator) selector() resourceapi.DeviceSelector {
	expression := pick(g, sound...)
	if g.fault(25) {
		expression = pick(g, unsound...)
	}
	return resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}
}

func (g *generator) makeClasses() {
	for _, name := range []string{"all", "some"} {
		class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if name == "some" {
			class.Spec.Selectors = []resourceapi.DeviceSelector{g.selector()}
		}
		if g.chance(40) {
			class.Spec.Config = []resourceapi.DeviceClassConfiguration{{DeviceConfiguration: configuration(name)}}
		}
		g.classes = append(g.classes, class)
	}
}

func configuration(driver string) resourceapi.DeviceConfiguration {
	return resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: driver}}
}

func (g *generator) makeClaim(i int) {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("claim-", i)}}
	spec := &claim.Spec.Devices
	var names []string
	for n := range 1 + g.IntN(3) {
		r := g.request(fmt.Sprint("req-", n))
		spec.Requests = append(spec.Requests, r)
		names = append(names, r.Name)
		for _, sub := range r.FirstAvailable {
			names = append(names, r.Name+"/"+sub.Name)
		}
	}
	for range g.IntN(g.rarely(3, 2)) {
		spec.Constraints = append(spec.Constraints, g.constraint(names))
	}
	for range g.IntN(2) {
		c := resourceapi.DeviceClaimConfiguration{DeviceConfiguration: configuration("claim")}
		c.Requests = g.some(names)
		spec.Config = append(spec.Config, c)
	}
	g.claims = append(g.claims, claim)
}

// some returns none or some of the names.
func (g *generator) some(names []string) []string {
	if g.chance(40) {
		return nil
	}
	var chosen []string
	for _, name := range names {
		if g.chance(60) {
			chosen = append(chosen, name)
		}
	}
	return chosen
}

func (g *generator) constraint(names []string) resourceapi.DeviceConstraint {
	c := resourceapi.DeviceConstraint{Requests: g.some(names)}
	attribute := pick(g, resourceapi.FullyQualifiedName("std.example.com/numa"), "std.example.com/root", "a.example.com/kind", "derived/value")
	switch {
	case g.fault(2):
	case g.chance(60):
		c.MatchAttribute = &attribute
	default:
		c.DistinctAttribute = &attribute
	}
	return c
}

func (g *generator) request(name string) resourceapi.DeviceRequest {
	r := resourceapi.DeviceRequest{Name: name}
	if g.chance(75) {
		s := g.subRequest("")
		r.Exactly = &resourceapi.ExactDeviceRequest{
			DeviceClassName: s.DeviceClassName, Selectors: s.Selectors, AllocationMode: s.AllocationMode, Count: s.Count,
			Tolerations: s.Tolerations, Capacity: s.Capacity, DerivedAttributes: s.DerivedAttributes,
		}
		if g.chance(8) {
			r.Exactly.AdminAccess = ptr.To(g.chance(80))
		}
		return r
	}
	for n := range 1 + g.IntN(3) {
		r.FirstAvailable = append(r.FirstAvailable, g.subRequest(fmt.Sprint("sub-", n)))
	}
	return r
}

func (g *generator) subRequest(name string) resourceapi.DeviceSubRequest {
	s := resourceapi.DeviceSubRequest{
		Name: name, DeviceClassName: pick(g, "all", "some"),
		AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: pick[int64](g, 1, 1, 1, 2, 3),
	}
	if g.chance(10) {
		s.AllocationMode, s.Count = resourceapi.DeviceAllocationModeAll, 0
	}
	switch {
	case g.fault(2):
		s.DeviceClassName = "missing"
	case g.fault(2):
		s.Count = 33
	case g.fault(1):
		s.AllocationMode = "Most"
	}
	if g.chance(50) {
		s.Selectors = append(s.Selectors, g.selector())
	}
	if g.chance(40) {
		s.Tolerations = append(s.Tolerations, g.toleration())
	}
	if g.features.ConsumableCapacity && g.chance(g.rarely(25, 10)) || g.fault(3) {
		s.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{
			"mem": quantity(pick(g, "1", "3", "1500m", "700m", "0")),
		}}
		if g.fault(15) {
			s.Capacity.Requests["mem"] = quantity(pick(g, "-1", "-1500m", "-1n"))
		}
	}
	if g.features.DerivedAttributes && g.chance(g.rarely(25, 10)) || g.fault(3) {
		s.DerivedAttributes = []resourceapi.DeviceDerivedAttribute{{Name: "derived/value", Expression: g.derived()}}
	}
	return s
}

func (g *generator) derived() string {
	if g.fault(30) {
		return pick(g, `device.attributes["std.example.com"].numa`, `device.nothing`)
	}
	if g.versions && g.chance(50) {
		return pick(g, `semver("1.0.0+a")`, `semver("1.0.0+b")`, `semver("1.0.0")`)
	}
	return pick(g, `device.attributes["std.example.com"].?numa.orValue(0)`, `device.driver`)
}

func (g *generator) toleration() resourceapi.DeviceToleration {
	return resourceapi.DeviceToleration{
		Key:      pick(g, "", "x"),
		Operator: resourceapi.DeviceTolerationOpExists,
		Effect:   pick(g, "", resourceapi.DeviceTaintEffectNoSchedule),
	}
}

// classes is a lister of device classes.
type classes []*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return c, nil }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	if i := slices.IndexFunc(c, func(class *resourceapi.DeviceClass) bool { return class.Name == name }); i >= 0 {
		return c[i], nil
	}
	return nil, fmt.Errorf("device class %s not found", name)
}
