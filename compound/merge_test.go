// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package compound_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/compound"
)

// one has a molecule of two GPUs and a NIC.
const one = `
metadata: {name: one}
spec:
  atoms:
  - {name: gpu, driver: gpu.example.com}
  - {name: nic, driver: nic.example.com}
  molecules: [{name: all, members: [{atom: gpu, count: 2}, {atom: nic}]}]
`

type attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute

// merged is the molecule of two GPUs and a NIC, after each was changed.
func merged(t *testing.T, gpu0, gpu1, nic0 func(*resourceapi.Device)) resourceapi.Device {
	t.Helper()
	return published(t, decide(t, one, three(gpu0, gpu1, nic0)...), "gpu0-gpu1-nic0")
}

func three(gpu0, gpu1, nic0 func(*resourceapi.Device)) []*resourceapi.ResourceSlice {
	in := []*resourceapi.ResourceSlice{slice(gpus, device("gpu0", nil), device("gpu1", nil)), slice(nics, device("nic0", nil))}
	gpu0(&in[0].Spec.Devices[0])
	gpu1(&in[0].Spec.Devices[1])
	nic0(&in[1].Spec.Devices[0])
	return in
}

func TestAttributes(t *testing.T) {
	with := func(a attributes) func(*resourceapi.Device) {
		return func(d *resourceapi.Device) { d.Attributes = a }
	}
	flag := func(b bool) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{BoolValue: &b} }
	got := merged(t,
		with(attributes{"model": text("A"), "uuid": text("2"), "index": number(1), "numa": number(0), "on": flag(true), "example.com/root": {StringValues: []string{"b", "a"}}}),
		with(attributes{"gpu.example.com/model": text("A"), "uuid": text("1"), "index": number(0), "numa": number(0), "on": flag(false), "example.com/root": text("c")}),
		with(attributes{"model": text("N"), "uuid": text("9"), "index": number(0), "example.com/root": text("a"), "example.com/tags": {IntValues: []int64{2, 1, 2}}}),
	).Attributes
	want := attributes{
		"compound.kerf.dev/rule": text("all"),
		"gpu.example.com/model":  text("A"),
		"gpu.example.com/uuid":   {StringValues: []string{"1", "2"}},
		"gpu.example.com/index":  {IntValues: []int64{0, 1}},
		"gpu.example.com/numa":   number(0),
		"gpu.example.com/on":     {BoolValues: []bool{false, true}},
		"nic.example.com/model":  text("N"),
		"nic.example.com/uuid":   text("9"),
		"nic.example.com/index":  number(0),
		"example.com/root":       {StringValues: []string{"a", "b", "c"}},
		"example.com/tags":       {IntValues: []int64{2, 1, 2}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
}

func TestOtherFields(t *testing.T) {
	early, late := metav1.NewTime(time.Unix(100, 0)), metav1.NewTime(time.Unix(200, 0))
	taint := func(key string, added *metav1.Time) resourceapi.DeviceTaint {
		return resourceapi.DeviceTaint{Key: key, Effect: resourceapi.DeviceTaintEffectNoSchedule, TimeAdded: added}
	}
	capacity := func(name resourceapi.QualifiedName, value string) map[resourceapi.QualifiedName]resourceapi.DeviceCapacity {
		return map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{name: {Value: quantity(value)}}
	}
	cores := func(multiplier, pod string) map[v1.ResourceName]resourceapi.NodeAllocatableResource {
		return map[v1.ResourceName]resourceapi.NodeAllocatableResource{"cpu": {
			Mapping:  &resourceapi.NodeAllocatableMapping{DeviceMultiplier: new(quantity(multiplier))},
			Overhead: &resourceapi.NodeAllocatableOverhead{PerPod: new(quantity(pod))},
		}}
	}
	got := merged(t,
		func(d *resourceapi.Device) {
			d.Taints, d.Capacity, d.NodeAllocatableResources = []resourceapi.DeviceTaint{taint("b", &late)}, capacity("memory", "80Gi"), cores("2", "1")
		},
		func(d *resourceapi.Device) {
			d.Taints, d.Capacity, d.BindsToNode = []resourceapi.DeviceTaint{taint("b", &early)}, capacity("gpu.example.com/memory", "40Gi"), new(true)
		},
		func(d *resourceapi.Device) {
			d.Taints, d.Capacity, d.NodeAllocatableResources = []resourceapi.DeviceTaint{taint("a", nil)}, capacity("memory", "1Gi"), cores("3", "500m")
		},
	)
	want := resourceapi.Device{
		Name:        got.Name,
		Attributes:  attributes{"compound.kerf.dev/rule": text("all")},
		Capacity:    map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"gpu.example.com/memory": {Value: quantity("40Gi")}, "nic.example.com/memory": {Value: quantity("1Gi")}},
		Taints:      []resourceapi.DeviceTaint{taint("a", nil), taint("b", &early)},
		BindsToNode: new(true),
		NodeAllocatableResources: map[v1.ResourceName]resourceapi.NodeAllocatableResource{"cpu": {
			Mapping:  &resourceapi.NodeAllocatableMapping{DeviceMultiplier: new(quantity("5"))},
			Overhead: &resourceapi.NodeAllocatableOverhead{PerPod: new(quantity("1500m"))},
		}},
		ConsumesCounters: got.ConsumesCounters,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("device (-want +got):\n%s", diff)
	}
	if len(got.ConsumesCounters) != 1 || len(got.ConsumesCounters[0].Counters) != 3 {
		t.Errorf("counters %v, want one for each atom", got.ConsumesCounters)
	}
}

// TestRefused has what cannot be combined: it is left out with a reason, and nothing else.
func TestRefused(t *testing.T) {
	same := func(*resourceapi.Device) {}
	many := func(prefix string, n int) attributes {
		a := attributes{}
		for i := range n {
			a[resourceapi.QualifiedName(fmt.Sprintf("%s%d", prefix, i))] = number(int64(i))
		}
		return a
	}
	for name, tc := range map[string]struct {
		gpu0, nic0 func(*resourceapi.Device)
		want       string
	}{
		"types":              {func(d *resourceapi.Device) { d.Attributes = attributes{"e.com/a": text("1")} }, func(d *resourceapi.Device) { d.Attributes = attributes{"e.com/a": number(1)} }, "different types in the attribute e.com/a"},
		"attributes":         {func(d *resourceapi.Device) { d.Attributes = many("a", 16) }, func(d *resourceapi.Device) { d.Attributes = many("a", 16) }, "33 attributes and capacities, more than 32"},
		"values":             {func(d *resourceapi.Device) { d.Attributes = attributes{"a": {IntValues: make([]int64, 40)}} }, func(d *resourceapi.Device) { d.Attributes = attributes{"a": {IntValues: make([]int64, 8)}} }, "49 values of attributes, more than 48"},
		"binding conditions": {same, func(d *resourceapi.Device) { d.BindingConditions = []string{"ready"} }, "nic has binding conditions"},
		"shared":             {func(d *resourceapi.Device) { d.AllowMultipleAllocations = new(true) }, same, "gpu can be allocated several times"},
		"taints": {func(d *resourceapi.Device) {
			for i := range 17 {
				d.Taints = append(d.Taints, resourceapi.DeviceTaint{Key: fmt.Sprint(i), Effect: resourceapi.DeviceTaintEffectNone})
			}
		}, same, "17 taints, more than 16"},
		"mapped capacity": {func(d *resourceapi.Device) {
			d.NodeAllocatableResources = map[v1.ResourceName]resourceapi.NodeAllocatableResource{"cpu": {Mapping: &resourceapi.NodeAllocatableMapping{CapacityKey: new(resourceapi.QualifiedName("cores")), CapacityMultiplier: new(quantity("1"))}}}
			d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"cores": {Value: quantity("4")}}
		}, same, "by a capacity that is consumed"},
	} {
		t.Run(name, func(t *testing.T) {
			r := decide(t, one, three(tc.gpu0, same, tc.nic0)...)
			i := slices.IndexFunc(r.Report, func(n compound.Note) bool { return n.Reason == compound.CannotCombine })
			if i < 0 || !strings.Contains(r.Report[i].Problem, tc.want) || r.Report[i].Fix == "" {
				t.Errorf("report %+v, want %q", r.Report, tc.want)
			}
			if len(r.Molecules) > 0 {
				t.Errorf("molecules %v", names(r))
			}
		})
	}
}

// TestKeep leaves out what is not wanted, so that the rest fits.
func TestKeep(t *testing.T) {
	keep := strings.Replace(one, "driver: gpu.example.com", "driver: gpu.example.com, keep: [gpu.example.com/uuid, memory]", 1)
	in := three(func(d *resourceapi.Device) {
		d.Attributes = attributes{"uuid": text("u"), "model": text("m")}
		d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: quantity("1")}, "cores": {Value: quantity("1")}}
	}, func(*resourceapi.Device) {}, func(d *resourceapi.Device) { d.Attributes = attributes{"model": text("n")} })
	got := published(t, decide(t, keep, in...), "gpu0-gpu1-nic0")
	want := attributes{"compound.kerf.dev/rule": text("all"), "gpu.example.com/uuid": text("u"), "nic.example.com/model": text("n")}
	if diff := cmp.Diff(want, got.Attributes); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	if _, found := got.Capacity["gpu.example.com/memory"]; !found || len(got.Capacity) != 1 {
		t.Errorf("capacity %v, want memory alone", got.Capacity)
	}
}

// TestShared keeps what several claims can share, alone.
func TestShared(t *testing.T) {
	shared := strings.Replace(one, "driver: nic.example.com", "driver: nic.example.com, alone: true", 1)
	policy := &resourceapi.CapacityRequestPolicy{Default: new(quantity("1G"))}
	same := func(*resourceapi.Device) {}
	r := decide(t, shared, three(same, same, func(d *resourceapi.Device) {
		d.AllowMultipleAllocations = new(true)
		d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"bandwidth": {Value: quantity("10G"), RequestPolicy: policy}}
		d.NodeAllocatableResources = map[v1.ResourceName]resourceapi.NodeAllocatableResource{"cpu": {Mapping: &resourceapi.NodeAllocatableMapping{CapacityKey: new(resourceapi.QualifiedName("bandwidth")), CapacityMultiplier: new(quantity("1"))}}}
	})...)
	got := published(t, r, "nic0")
	if got.AllowMultipleAllocations == nil || !*got.AllowMultipleAllocations || len(got.ConsumesCounters) > 0 {
		t.Errorf("nic0 is %+v, want one that is allocated several times and has no counter", got)
	}
	if diff := cmp.Diff(policy, got.Capacity["nic.example.com/bandwidth"].RequestPolicy); diff != "" {
		t.Errorf("request policy (-want +got):\n%s", diff)
	}
	if key := got.NodeAllocatableResources["cpu"].Mapping.CapacityKey; *key != "nic.example.com/bandwidth" {
		t.Errorf("cpu is computed from %s", *key)
	}
}

// TestSkip has a slice of its own for what needs no node.
func TestSkip(t *testing.T) {
	in := server(2)
	in[0].Spec.SkipNodeOperations = []resourceapi.SkipNodeOperation{"*"}
	in[1].Spec.SkipNodeOperations = []resourceapi.SkipNodeOperation{"NodeUnprepareResources"}
	skips := map[string][]resourceapi.SkipNodeOperation{}
	for _, s := range decide(t, triplets, in...).Slices {
		for _, d := range s.Spec.Devices {
			skips[d.Name[:strings.LastIndexByte(d.Name, '-')]] = s.Spec.SkipNodeOperations
		}
	}
	all, some := []resourceapi.SkipNodeOperation{"*"}, []resourceapi.SkipNodeOperation{"NodeUnprepareResources"}
	want := map[string][]resourceapi.SkipNodeOperation{"gpu0": all, "gpu1": all, "gpu0-nic0": some, "gpu1-nic0": some, "gpu0-gpu1-nic0": some}
	if diff := cmp.Diff(want, skips); diff != "" {
		t.Errorf("what devices skip (-want +got):\n%s", diff)
	}
}
