// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"kerf.dev/kerf/api/compound/v1alpha1"
	"kerf.dev/kerf/compound"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/selector"
)

// TestCompound has an API server's rules judge what package compound publishes of generated
// hardware for generated policies: it takes every slice, and the pools are complete.
func TestCompound(t *testing.T) {
	server, err := New(func(string) *corev1.Namespace { return nil })
	if err != nil {
		t.Fatal(err)
	}
	matcher := selector.New()
	molecules, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		in := compound.Input{Node: "node-1", Matcher: matcher}
		for i := range rapid.IntRange(1, 2).Draw(t, "policies") {
			in.Policies = append(in.Policies, drawPolicy(t, fmt.Sprint("policy-", i)))
		}
		for _, driver := range drivers {
			in.Slices = append(in.Slices, drawPool(t, driver)...)
		}
		for _, s := range in.Slices {
			for _, reason := range judged(t, server, s) {
				t.Fatalf("generated slice %s: %v", s.Name, reason)
			}
		}
		r := compound.Decide(in)
		inv := inventory.New()
		for _, s := range r.Slices {
			for _, reason := range judged(t, server, s) {
				t.Errorf("slice %s: %v", s.Name, reason)
			}
			inv.SetSlice(s)
		}
		for pool := range inv.Snapshot().Pools {
			if pool.Problem != nil {
				t.Errorf("pool %s: %+v", pool.ID, pool.Problem)
			}
		}
		molecules += len(r.Molecules)
		refused += len(r.Report)
	})
	if molecules == 0 || refused == 0 {
		t.Errorf("%d molecules and %d notes, which tests little", molecules, refused)
	}
}

func judged(t *rapid.T, server *Rules, s *resourceapi.ResourceSlice) []Reason {
	reasons, err := server.Judge(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return reasons
}

var (
	drivers = []string{"gpu.example.com", "nic.example.com"}
	names   = []resourceapi.QualifiedName{"uuid", "example.com/root", "example.com/numa", "index"}
)

func drawPolicy(t *rapid.T, name string) *v1alpha1.CompoundPolicy {
	p := &v1alpha1.CompoundPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	selectors := []string{"", `"example.com" in device.attributes`, `device.attributes["example.com"].numa == 0`, "true"}
	for i, driver := range drivers {
		p.Spec.Atoms = append(p.Spec.Atoms, v1alpha1.Atom{
			Name: fmt.Sprint("atom-", i), Driver: driver, Selector: rapid.SampledFrom(selectors).Draw(t, "selector"), Alone: rapid.Bool().Draw(t, "alone"),
			Keep: rapid.SampledFrom([][]string{nil, {"uuid"}, {"example.com/root", "memory"}}).Draw(t, "keep"),
		})
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "molecules") {
		m := v1alpha1.Molecule{Name: fmt.Sprint("molecule-", i), Share: rapid.SampledFrom([][]string{nil, {"example.com/root"}, {"example.com/root", "example.com/numa"}}).Draw(t, "share")}
		for atom := range drivers {
			m.Members = append(m.Members, v1alpha1.Member{Atom: fmt.Sprint("atom-", atom), All: rapid.IntRange(0, 3).Draw(t, "all") == 0})
			if !m.Members[atom].All {
				m.Members[atom].Count = rapid.Int32Range(1, 3).Draw(t, "count")
			}
		}
		p.Spec.Molecules = append(p.Spec.Molecules, m)
	}
	return p
}

// drawPool draws a pool that an API server takes, with all that devices can have.
func drawPool(t *rapid.T, driver string) []*resourceapi.ResourceSlice {
	sets := resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: driver + "-sets"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: driver, NodeName: new("node-1"), Pool: resourceapi.ResourcePool{Name: "node-1", Generation: 1, ResourceSliceCount: 2},
	}}
	devices := sets
	devices.Name = driver + "-devices"
	for i := range rapid.IntRange(1, 3).Draw(t, "sets") {
		set := resourceapi.CounterSet{Name: fmt.Sprint("card-", i), Counters: map[string]resourceapi.Counter{}}
		for c := range rapid.SampledFrom([]int{1, 4, 31}).Draw(t, "counters") {
			set.Counters[fmt.Sprint("slice-", c)] = resourceapi.Counter{Value: *resource.NewQuantity(2, resource.DecimalSI)}
		}
		sets.Spec.SharedCounters = append(sets.Spec.SharedCounters, set)
	}
	for i := range rapid.SampledFrom([]int{1, 3, 8, 20}).Draw(t, "devices") {
		devices.Spec.Devices = append(devices.Spec.Devices, drawDevice(t, fmt.Sprintf("dev-%d", i), sets.Spec.SharedCounters))
	}
	if rapid.IntRange(0, 5).Draw(t, "skip") == 0 {
		devices.Spec.SkipNodeOperations = []resourceapi.SkipNodeOperation{"*"}
	}
	return []*resourceapi.ResourceSlice{&sets, &devices}
}

func drawDevice(t *rapid.T, name string, sets []resourceapi.CounterSet) resourceapi.Device {
	d := resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}, Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{}}
	rare := func(what string) bool { return rapid.IntRange(0, 9).Draw(t, what) == 0 }
	for _, name := range names {
		switch n := rapid.Int64Range(0, 2).Draw(t, "value"); rapid.IntRange(0, 9).Draw(t, "type") {
		case 0:
		case 1:
			d.Attributes[name] = resourceapi.DeviceAttribute{StringValues: []string{fmt.Sprint(n), "other"}}
		case 2:
			d.Attributes[name] = resourceapi.DeviceAttribute{VersionValue: new(fmt.Sprintf("%d.0.0", n))}
		default:
			d.Attributes[name] = resourceapi.DeviceAttribute{IntValue: &n}
		}
	}
	d.Capacity["memory"] = resourceapi.DeviceCapacity{Value: *resource.NewQuantity(rapid.Int64Range(1, 3).Draw(t, "memory"), resource.BinarySI)}
	if rare("shared") {
		d.AllowMultipleAllocations = new(true)
	} else if rapid.Bool().Draw(t, "part") {
		set := rapid.SampledFrom(sets).Draw(t, "card")
		c := resourceapi.DeviceCounterConsumption{CounterSet: set.Name, Counters: map[string]resourceapi.Counter{}}
		for name := range set.Counters {
			c.Counters[name] = resourceapi.Counter{Value: *resource.NewQuantity(1, resource.DecimalSI)}
		}
		if rare("grouped") {
			c.CompatibilityGroups = []string{"a", "b"}
		}
		d.ConsumesCounters = append(d.ConsumesCounters, c)
	}
	if rare("tainted") {
		for i := range rapid.IntRange(1, 16).Draw(t, "taints") {
			d.Taints = append(d.Taints, resourceapi.DeviceTaint{Key: fmt.Sprintf("example.com/%s-%d", name, i), Effect: resourceapi.DeviceTaintEffectNoSchedule})
		}
	}
	if rare("bound") {
		d.BindsToNode, d.BindingConditions, d.BindingFailureConditions = new(true), []string{"ready"}, []string{"failed"}
	}
	if rare("of the node") {
		d.NodeAllocatableResources = map[corev1.ResourceName]resourceapi.NodeAllocatableResource{"cpu": {Overhead: &resourceapi.NodeAllocatableOverhead{PerPod: new(resource.MustParse("1"))}}}
	}
	return d
}
