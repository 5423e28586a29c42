// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"maps"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/inventory"
)

// relation changes a world in a way that says something about the answer.
type relation struct {
	name string
	// change edits a copy of the world; false says that it does not apply.
	change func(w *World) bool
	// same expects the same devices, with names as rename gives them; else only
	// whether there is an answer is compared.
	same   bool
	rename func(string) string
	// easier allows a refusal to become a result, not the reverse.
	easier bool
}

var relations = []relation{
	{name: "an unrelated pool on another node", same: true, change: func(w *World) bool {
		return w.addPool("a.example.com", "other", func(s *resourceapi.ResourceSlice) { s.Spec.NodeName = ptr("n2") })
	}},
	{name: "a broken pool on another node", same: true, change: func(w *World) bool {
		return w.addPool("a.example.com", "other", func(s *resourceapi.ResourceSlice) {
			s.Spec.NodeName, s.Spec.Pool.ResourceSliceCount = ptr("n2"), 3
		})
	}},
	{name: "an unrelated device that is taken", change: func(w *World) bool {
		if w.asksForAll() || w.Features&WithAdmin != 0 {
			return false
		}
		result := resourceapi.DeviceRequestAllocationResult{Request: "r", Driver: "z.example.com", Pool: "other", Device: "d"}
		w.Held = append(w.Held, &resourceapi.ResourceClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "unrelated", UID: "unrelated"},
			Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{
				Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{result}}}},
		})
		return w.addPool("z.example.com", "other", func(*resourceapi.ResourceSlice) {})
	}},
	{name: "pools renamed", same: true, rename: func(pool string) string { return strings.Replace(pool, "p", "renamed", 1) }, change: func(w *World) bool {
		for _, s := range slices.Concat(w.Slices, w.Before) {
			s.Spec.Pool.Name = strings.Replace(s.Spec.Pool.Name, "p", "renamed", 1)
		}
		for _, c := range w.Held {
			for i := range c.Status.Allocation.Devices.Results {
				r := &c.Status.Allocation.Devices.Results[i]
				r.Pool = strings.Replace(r.Pool, "p", "renamed", 1)
			}
		}
		for _, rule := range w.Rules {
			if pool := rule.Spec.DeviceSelector.Pool; pool != nil {
				*pool = strings.Replace(*pool, "p", "renamed", 1)
			}
		}
		return true
	}},
	{name: "slices split in two", same: true, change: func(w *World) bool {
		if w.Features&WithBroken != 0 || w.Before != nil {
			return false
		}
		w.splitSlices()
		return true
	}},
	{name: "counters in smaller units", same: true, change: func(w *World) bool {
		if w.Before != nil {
			return false
		}
		w.scaleCounters(1000)
		return true
	}},
	{name: "requests in reverse", change: func(w *World) bool {
		for _, c := range w.Claims {
			slices.Reverse(c.Spec.Devices.Requests)
		}
		return true
	}},
	{name: "claims in reverse", change: func(w *World) bool {
		slices.Reverse(w.Claims)
		return true
	}},
	{name: "constraints doubled", same: true, change: func(w *World) bool {
		for _, c := range w.Claims {
			c.Spec.Devices.Constraints = slices.Concat(c.Spec.Devices.Constraints, c.Spec.Devices.Constraints)
		}
		return true
	}},
	{name: "some names with the driver's domain", same: true, change: func(w *World) bool { return w.spellOut() > 0 }},
	{name: "one claim less in the way", easier: true, change: func(w *World) bool {
		if len(w.Held) == 0 {
			return false
		}
		w.Held = w.Held[1:]
		return true
	}},
	{name: "one request less", easier: true, change: func(w *World) bool {
		requests := &w.Claims[0].Spec.Devices.Requests
		if len(*requests) < 2 || len(w.Claims[0].Spec.Devices.Constraints) > 0 {
			return false
		}
		*requests = (*requests)[1:]
		return true
	}},
}

// TestRelations changes worlds and compares the answers before and after.
func TestRelations(t *testing.T) {
	for _, r := range relations {
		t.Run(r.name, func(t *testing.T) {
			applied := 0
			for seed := range uint64(800) {
				changed := Generate(SeededBytes(seed), WithAll)
				if !r.change(changed) {
					continue
				}
				applied++
				for _, strategy := range []Strategy{Listed, BestFit} {
					before := solveWorld(t, Generate(SeededBytes(seed), WithAll), strategy)
					after := solveWorld(t, changed, strategy)
					r.compare(t, seed, strategy, before, after)
				}
			}
			if applied < 100 {
				t.Errorf("applies to %d worlds only", applied)
			}
		})
	}
}

func (r *relation) compare(t *testing.T, seed uint64, strategy Strategy, before, after *Outcome) {
	t.Helper()
	switch {
	case (before.Result != nil) == (after.Result != nil):
	case r.easier && before.Result == nil:
	default:
		t.Errorf("seed %d: %s:\n%s\nbecomes\n%s", seed, strategy, describeOutcome(before), describeOutcome(after))
		return
	}
	if !r.same || before.Result == nil {
		return
	}
	want, got := resultPicks(before.Result), resultPicks(after.Result)
	if r.rename != nil {
		want = strings.ReplaceAll(want, "/p", "/renamed")
	}
	if got != want {
		t.Errorf("seed %d: %s: the devices become %s, not %s", seed, strategy, got, want)
	}
}

func solveWorld(t *testing.T, w *World, strategy Strategy) *Outcome {
	t.Helper()
	return solveView(t, w, strategy, w.View())
}

func solveView(t *testing.T, w *World, strategy Strategy, view *inventory.View) *Outcome {
	t.Helper()
	problem, err := Compile(w.Claims, w.Class, tableMatcher{}, Options{Strategy: strategy, Containers: w.Containers})
	if err != nil {
		t.Fatal(err)
	}
	out, err := problem.Allocate(view)
	if err != nil {
		t.Fatal(err)
	}
	return &out
}

func (w *World) asksForAll() bool {
	for _, c := range w.Claims {
		for _, r := range c.Spec.Devices.Requests {
			all := func(s resourceapi.DeviceSubRequest) bool {
				return s.AllocationMode == resourceapi.DeviceAllocationModeAll
			}
			if r.Exactly != nil && r.Exactly.AllocationMode == resourceapi.DeviceAllocationModeAll || slices.ContainsFunc(r.FirstAvailable, all) {
				return true
			}
		}
	}
	return false
}

// addPool adds a pool of one device d, like nothing else.
func (w *World) addPool(driver, name string, edit func(*resourceapi.ResourceSlice)) bool {
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "zz-" + name}}
	s.Spec.Driver, s.Spec.AllNodes = driver, ptr(true)
	s.Spec.Pool = resourceapi.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1}
	s.Spec.Devices = []resourceapi.Device{{Name: "d", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		"std.example.com/kind": strAttr("x"), "std.example.com/size": {IntValue: ptr(int64(2))}}}}
	edit(s)
	if s.Spec.NodeName != nil {
		s.Spec.AllNodes = nil
	}
	w.Slices = append(w.Slices, s)
	if w.Before != nil {
		w.Before = append(w.Before, s)
	}
	return true
}

// splitSlices moves the second half of the devices of each slice into a slice
// that comes right after it.
func (w *World) splitSlices() {
	var more []*resourceapi.ResourceSlice
	for _, s := range w.Slices {
		devices := s.Spec.Devices
		if len(devices) < 2 {
			continue
		}
		half := s.DeepCopy()
		half.Name += "-half"
		half.Spec.Devices = slices.Clone(devices[len(devices)/2:])
		s.Spec.Devices = devices[:len(devices)/2]
		more = append(more, half)
	}
	w.Slices = append(w.Slices, more...)
	count := map[string]int64{}
	for _, s := range w.Slices {
		count[s.Spec.Driver+s.Spec.Pool.Name]++
	}
	for _, s := range w.Slices {
		s.Spec.Pool.ResourceSliceCount = count[s.Spec.Driver+s.Spec.Pool.Name]
	}
}

func (w *World) scaleCounters(factor int64) {
	scale := func(counters map[string]resourceapi.Counter) {
		for name, c := range counters {
			counters[name] = resourceapi.Counter{Value: *resource.NewQuantity(c.Value.Value()*factor, resource.DecimalSI)}
		}
	}
	for _, s := range w.Slices {
		for i := range s.Spec.SharedCounters {
			scale(s.Spec.SharedCounters[i].Counters)
		}
		for i := range s.Spec.Devices {
			for j := range s.Spec.Devices[i].ConsumesCounters {
				scale(s.Spec.Devices[i].ConsumesCounters[j].Counters)
			}
		}
	}
}

// spellOut adds the driver's domain to every second name of what devices have and claims
// hold, and returns how many.
func (w *World) spellOut() int {
	n, before := 0, map[*resourceapi.ResourceSlice]bool{}
	for _, s := range slices.Concat(w.Before, w.Slices) {
		if before[s] {
			continue
		}
		before[s] = true
		for i := range s.Spec.Devices {
			d := &s.Spec.Devices[i]
			d.Attributes, d.Capacity = spelledOut(s.Spec.Driver, d.Attributes, &n), spelledOut(s.Spec.Driver, d.Capacity, &n)
		}
	}
	for _, c := range w.Held {
		for i := range c.Status.Allocation.Devices.Results {
			r := &c.Status.Allocation.Devices.Results[i]
			r.ConsumedCapacity = spelledOut(r.Driver, r.ConsumedCapacity, &n)
		}
	}
	return n / 2
}

func spelledOut[V any](driver string, of map[resourceapi.QualifiedName]V, n *int) map[resourceapi.QualifiedName]V {
	spelled := maps.Clone(of)
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if strings.Contains(string(name), "/") {
			continue
		}
		if *n++; *n%2 == 0 {
			delete(spelled, name)
			spelled[resourceapi.QualifiedName(driver+"/"+string(name))] = of[name]
		}
	}
	return spelled
}

// TestFreedAndGivenAgain takes all allocations back and makes them again, in the
// same inventory.
func TestFreedAndGivenAgain(t *testing.T) {
	compared := 0
	for seed := range uint64(2000) {
		w := Generate(SeededBytes(seed), WithAll&^WithChanged)
		if len(w.Held) == 0 {
			continue
		}
		compared++
		inv := w.Inventory(nil)
		before := solveView(t, w, BestFit, w.viewOf(inv))
		for _, c := range w.Held {
			inv.DeleteClaim(c)
		}
		inv.Snapshot()
		for _, c := range w.Held {
			inv.SetClaim(c)
		}
		after := solveView(t, w, BestFit, w.viewOf(inv))
		if a, b := describeOutcome(before), describeOutcome(after); a != b {
			t.Errorf("seed %d:\n%s\nbecomes\n%s", seed, a, b)
		}
	}
	if compared < 200 {
		t.Errorf("compared %d worlds only", compared)
	}
}

// TestAllocatedAndFreed writes each result into the inventory, where CheckCluster
// must agree with it, and takes it back.
func TestAllocatedAndFreed(t *testing.T) {
	for seed := range uint64(2000) {
		w := Generate(SeededBytes(seed), WithAll&^WithChanged&^WithBroken)
		inv := w.Inventory(nil)
		before := solveView(t, w, BestFit, w.viewOf(inv))
		if before.Result == nil {
			continue
		}
		cluster := slices.Clone(w.Held)
		for i, c := range w.Claims {
			c = c.DeepCopy()
			c.UID = types.UID(c.Name)
			c.Status.Allocation = &before.Result.Claims[i]
			cluster = append(cluster, c)
			inv.SetClaim(c)
		}
		for _, v := range CheckCluster(w.Slices, cluster) {
			t.Errorf("seed %d: %s", seed, v)
		}
		if again := solveView(t, w, BestFit, w.viewOf(inv)); again.Result != nil {
			for _, v := range Check(w.viewOf(inv), w.Claims, w.Class, tableMatcher{}, w.Containers, again.Result.Claims) {
				t.Errorf("seed %d: a second time: %s", seed, v)
			}
		}
		for _, c := range cluster[len(w.Held):] {
			inv.DeleteClaim(c)
		}
		after := solveView(t, w, BestFit, w.viewOf(inv))
		if a, b := describeOutcome(before), describeOutcome(after); a != b {
			t.Errorf("seed %d:\n%s\nbecomes\n%s", seed, a, b)
		}
	}
}
