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
	WithNode
	WithKept
	// WithBuilds has versions with build metadata.
	WithBuilds
	// WithFormer has devices that cannot be shared any more while shares of them
	// are held.
	WithFormer

	// WithAll allows every feature.
	WithAll = WithFormer<<1 - 1
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
	// Room and Containers are those of inventory.View and Options.
	Room       map[v1.ResourceName]inventory.Amount
	Containers []int
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
	// counters are the counter sets of the pool that is being made.
	counters []resourceapi.CounterSet
}

// Generate makes a world out of bytes, with no features beyond those allowed.
func Generate(data []byte, allowed Feature) *World {
	g := &generator{source: &source{data: data}}
	rare := g.mask() // fewer features than not
	g.Features = rare & g.mask() & allowed
	g.Node = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "z1", "rack": "r1"}}}
	if g.has(WithSkips) && !g.rarely(3) {
		g.Node.Status.DeclaredFeatures = []string{"DRAOptionalNodeOperations"}
	}
	if g.kind = pick(g.source, 0, 0, 0, 1, 2, 3); g.has(WithBuilds) {
		g.kind = kindVersion
	}
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
	if g.has(WithHeld | WithFormer) {
		for range 1 + g.intn(4) {
			g.hold()
		}
	}
	if g.has(WithFormer) {
		g.unshare()
	}
	if g.has(WithChanged) {
		g.change()
	}
	for i := range pick(g.source, 1, 1, 2) {
		g.addClaim(i)
	}
	if g.has(WithNode) {
		g.tapNode()
		for range g.Claims {
			g.Containers = append(g.Containers, g.intn(3))
		}
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

// unshare has devices that could be shared when they were taken be devices that are had
// as a whole.
func (g *generator) unshare() {
	for _, slice := range g.Slices {
		for i := range slice.Spec.Devices {
			if d := &slice.Spec.Devices[i]; d.AllowMultipleAllocations != nil && !g.rarely(3) {
				d.AllowMultipleAllocations = pick(g.source, nil, ptr(false))
			}
		}
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
func (w *World) View() *inventory.View { return w.viewOf(w.Inventory(nil)) }

func (w *World) viewOf(inv *inventory.Inventory) *inventory.View {
	view := *inv.Snapshot().View(w.Node)
	view.Room = w.Room
	return &view
}

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
