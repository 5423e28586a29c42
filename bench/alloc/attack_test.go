// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/structured"
)

// attack is input that the API accepts and that is meant to take long: what node 0
// reaches, what of it is taken, and the claims of a pod.
type attack struct {
	slices  []*resourceapi.ResourceSlice
	classes deviceClasses
	rules   []*resourceapi.DeviceTaintRule
	// held are the allocated claims of others.
	held   []*resourceapi.ResourceClaim
	claims []*resourceapi.ResourceClaim
	// room is what the node has left of its own resources.
	room v1.ResourceList
	// alpha: features are needed that are off by default.
	alpha bool
}

// enabled are the features of the stock allocator that the attack needs.
func (a *attack) enabled() structured.Features {
	f := features
	f.CompatibilityGroups, f.DerivedAttributes, f.ListTypeAttributes, f.OptionalNodeOperations = a.alpha, a.alpha, a.alpha, a.alpha
	return f
}

// kind is a way to make an allocator work.
type kind struct {
	name  string
	sizes []size
	// moderate are the sizes of the test that runs every time.
	moderate string
	build    func(p sizes, rnd *rand.Rand) *attack
}

// size is a parameter of a kind. Low and high bound what is drawn: the limits of
// the API or, where it has none, what a node or a pod may well have.
type size struct {
	name             string
	usual, low, high int
}

type sizes map[string]int

// plan is a kind with its parameters, and can be written and read.
type plan struct {
	*kind
	sizes
}

// String is the name of the kind and all parameters.
func (p plan) String() string {
	text := p.name
	for _, s := range p.kind.sizes {
		text += fmt.Sprintf(" %s=%d", s.name, p.sizes[s.name])
	}
	return text
}

// differing is the name of the kind and what is not as usual.
func (p plan) differing() string {
	text := p.name
	for _, s := range p.kind.sizes {
		if p.sizes[s.name] != s.usual || s.name == "devices" {
			text += fmt.Sprintf(" %s=%d", s.name, p.sizes[s.name])
		}
	}
	return text
}

// attack makes the input, the same for the same plan.
func (p plan) attack() *attack {
	a := p.build(p.sizes, rand.New(rand.NewPCG(uint64(p.sizes["seed"]), 0)))
	for name, c := range hostileClasses {
		if a.classes == nil {
			a.classes = deviceClasses{}
		}
		a.classes[name] = c
	}
	return a
}

// parsePlan reads a kind with those parameters that are not as usual.
func parsePlan(text string) (plan, error) {
	fields := strings.Fields(text)
	all := kinds()
	i := slices.IndexFunc(all, func(k *kind) bool { return len(fields) > 0 && k.name == fields[0] })
	if i < 0 {
		return plan{}, fmt.Errorf("attack %q: no such kind", text)
	}
	p := plan{kind: all[i], sizes: sizes{}}
	for _, s := range p.kind.sizes {
		p.sizes[s.name] = s.usual
	}
	for _, f := range fields[1:] {
		name, value, _ := strings.Cut(f, "=")
		n, err := strconv.Atoi(value)
		if _, known := p.sizes[name]; !known || err != nil {
			return plan{}, fmt.Errorf("attack %q: parameter %q: want name=number of %s", text, f, p)
		}
		p.sizes[name] = n
	}
	return p, nil
}

func mustPlan(text string) plan {
	p, err := parsePlan(text)
	if err != nil {
		panic(err)
	}
	return p
}

// draw chooses parameters: one third at their limit, the others spread over all
// magnitudes.
func (k *kind) draw(rnd *rand.Rand, devices int) plan {
	p := plan{kind: k, sizes: sizes{}}
	for _, s := range k.sizes {
		high := s.high
		if s.name == "devices" {
			high = min(high, devices)
		}
		p.sizes[s.name] = high
		if rnd.IntN(3) > 0 {
			low := math.Log(float64(s.low) + 1)
			p.sizes[s.name] = int(math.Exp(low+rnd.Float64()*(math.Log(float64(high)+1.99)-low)) - 1)
		}
		if s.name == "seed" {
			p.sizes[s.name] = rnd.IntN(s.high)
		}
	}
	return p
}

// seed is the last parameter of every kind.
var seed = size{"seed", 1, 0, 1 << 30}

func kinds() []*kind {
	return slices.Concat(selectorAttacks(), shareAttacks(), constraintAttacks(), refusalAttacks(), counterAttacks(), nodeAttacks())
}

const anyDevice = "any"

var hostileClasses = deviceClasses{anyDevice: class(anyDevice, `device.driver == "gpu.example.com"`)}

// own is an attribute or capacity of the GPUs' driver.
func own(name string) resourceapi.FullyQualifiedName {
	return resourceapi.FullyQualifiedName(gpuDriver + "/" + name)
}

// plain are devices that differ in an attribute.
func plain(count int, change func(i int, d *resourceapi.Device)) []resourceapi.Device {
	devices := make([]resourceapi.Device, count)
	for i := range devices {
		d := &devices[i]
		d.Name = fmt.Sprintf("gpu-%04d", i)
		d.Attributes = attributes{"uuid": text(fmt.Sprintf("GPU-%032d", i))}
		if change != nil {
			change(i, d)
		}
	}
	return devices
}

// published is a pool of node 0, in slices as large as the API allows.
func published(devices []resourceapi.Device, sets []resourceapi.CounterSet) []*resourceapi.ResourceSlice {
	var all []*resourceapi.ResourceSlice
	for part := range slices.Chunk(sets, resourceapi.ResourceSliceMaxCounterSets) {
		s := slice(fmt.Sprintf("counters-%04d", len(all)), gpuDriver, 0, 0)
		s.Spec.SharedCounters = part
		all = append(all, s)
	}
	for part := range slices.Chunk(devices, resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures) {
		all = append(all, slice(fmt.Sprintf("devices-%04d", len(all)), gpuDriver, 0, 0, part...))
	}
	for _, s := range all {
		s.Spec.Pool.ResourceSliceCount = int64(len(all))
	}
	return all
}

// wanted makes a request out of alternatives: they are named and completed.
func wanted(name string, alternatives ...resourceapi.DeviceSubRequest) resourceapi.DeviceRequest {
	r := resourceapi.DeviceRequest{Name: name}
	for i := range alternatives {
		sub := &alternatives[i]
		sub.Name, sub.DeviceClassName = fmt.Sprintf("a%d", i), anyDevice
		if sub.AllocationMode == "" {
			sub.AllocationMode, sub.Count = resourceapi.DeviceAllocationModeExactCount, max(sub.Count, 1)
		}
	}
	if len(alternatives) > 1 {
		r.FirstAvailable = alternatives
		return r
	}
	sub := alternatives[0]
	r.Exactly = &resourceapi.ExactDeviceRequest{
		DeviceClassName: sub.DeviceClassName, Selectors: sub.Selectors, AllocationMode: sub.AllocationMode, Count: sub.Count,
		Tolerations: sub.Tolerations, Capacity: sub.Capacity, DerivedAttributes: sub.DerivedAttributes,
	}
	return r
}

// grid is a claim with so many requests of so many alternatives.
func grid(name string, requests, alternatives int, ask func(request, alternative int) resourceapi.DeviceSubRequest) *resourceapi.ResourceClaim {
	c := claim(name)
	for r := range requests {
		subs := []resourceapi.DeviceSubRequest{}
		for a := range alternatives {
			subs = append(subs, ask(r, a))
		}
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, wanted(fmt.Sprintf("r%d", r), subs...))
	}
	return c
}

// matching are constraints on so many attributes of all requests.
func matching(count int) []resourceapi.DeviceConstraint {
	var all []resourceapi.DeviceConstraint
	for i := range count {
		all = append(all, resourceapi.DeviceConstraint{MatchAttribute: new(own(fmt.Sprintf("a%d", i)))})
	}
	return all
}

func whole(n int) resource.Quantity { return *resource.NewQuantity(int64(n), resource.DecimalSI) }
