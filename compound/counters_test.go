// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package compound_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/compound"
)

// card has a four-slice card in the NIC's root: partitions, and the whole of it.
func card(name string) (set resourceapi.CounterSet, devices []resourceapi.Device) {
	set = resourceapi.CounterSet{Name: name, Counters: map[string]resourceapi.Counter{}}
	draw := func(part string, first, n int) {
		d := at(name+"-"+part, "pci0")
		d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: name, Counters: map[string]resourceapi.Counter{}}}
		for i := first; i < first+n; i++ {
			d.ConsumesCounters[0].Counters[fmt.Sprintf("memory-slice-%d", i)] = resourceapi.Counter{Value: quantity("1")}
		}
		devices = append(devices, d)
	}
	for i := range 4 {
		set.Counters[fmt.Sprintf("memory-slice-%d", i)] = resourceapi.Counter{Value: quantity("1")}
		draw(fmt.Sprintf("quarter-%d", i), i, 1)
	}
	for i := 0; i < 4; i += 2 {
		draw(fmt.Sprintf("half-%d", i), i, 2)
	}
	draw("whole", 0, 4)
	return set, devices
}

// cards are in one pool, the counter sets first.
func cards(names ...string) []*resourceapi.ResourceSlice {
	sets, devices := slice(gpus), slice(gpus)
	sets.Name += "-sets"
	for _, name := range names {
		set, of := card(name)
		sets.Spec.SharedCounters = append(sets.Spec.SharedCounters, set)
		devices.Spec.Devices = append(devices.Spec.Devices, of...)
	}
	sets.Spec.Pool.ResourceSliceCount, devices.Spec.Pool.ResourceSliceCount = 2, 2
	return []*resourceapi.ResourceSlice{sets, devices, slice(nics, at("nic0", "pci0"), at("nic1", "pci0"))}
}

const partitions = `
metadata: {name: a}
spec:
  atoms:
  - {name: part, driver: gpu.example.com, alone: true}
  - {name: nic, driver: nic.example.com}
  molecules:
  - {name: pair, members: [{atom: part}, {atom: nic}]}
  - {name: two, members: [{atom: part, count: 2}]}
`

// countersOf are the values of all counters that are published, by set and counter.
func countersOf(r *compound.Result) map[string]string {
	all := map[string]string{}
	for _, s := range r.Slices {
		for _, set := range s.Spec.SharedCounters {
			for name, c := range set.Counters {
				all[s.Spec.Pool.Name+"/"+set.Name+"/"+name] = c.Value.String()
			}
		}
	}
	return all
}

// TestPartitions keeps the counters of cards, and leaves out what their parts cannot be
// together.
func TestPartitions(t *testing.T) {
	r := decide(t, partitions, cards("card-a", "card-b")...)
	got := names(r)
	for _, want := range []string{"part: card-a-whole", "pair: card-a-half-0 nic1", "two: card-a-half-0 card-a-half-2", "two: card-a-whole card-b-whole"} {
		if !slices.Contains(got, want) {
			t.Errorf("there is no %s", want)
		}
	}
	for _, never := range []string{"two: card-a-half-0 card-a-quarter-1", "two: card-a-half-0 card-a-whole"} {
		if slices.Contains(got, never) {
			t.Errorf("there is %s, of parts that exclude each other", never)
		}
	}
	i := slices.IndexFunc(r.Report, func(n compound.Note) bool { return strings.Contains(n.Problem, "exclude each other") })
	if i < 0 || r.Report[i].Count != 2*(6+4) {
		t.Errorf("report %+v, want the whole with 6 others and each half with its 2 quarters, of 2 cards", r.Report)
	}
	if n := len(countersOf(r)); n != 2*4+2*7+2 {
		t.Errorf("%d counters, want 4 of each card, and one of each of 14 partitions and 2 NICs", n)
	}
	both := published(t, r, "card-a-half-0-card-a-quarter-2")
	sum := 0
	for _, c := range both.ConsumesCounters {
		sum += len(c.Counters)
	}
	if sum != 2+3 || len(both.ConsumesCounters) > 2 {
		t.Errorf("half and quarter consume %v, want 3 slices of memory and themselves", both.ConsumesCounters)
	}
}

// TestBehind hides what would stay behind without its counters.
func TestBehind(t *testing.T) {
	halves := strings.Replace(partitions, "alone: true", `alone: true, selector: 'device.attributes["gpu.example.com"].uuid.contains("half")'`, 1)
	r := decide(t, halves, cards("card-a")...)
	i := slices.IndexFunc(r.Report, func(n compound.Note) bool { return n.Reason == compound.SharesCounters })
	if i < 0 || r.Report[i].Count != 5 {
		t.Errorf("report %+v, want 5 devices behind", r.Report)
	}
	for _, s := range r.Slices {
		if s.Spec.Driver == gpus {
			t.Errorf("%s is published with %d devices and %d counter sets", s.Name, len(s.Spec.Devices), len(s.Spec.SharedCounters))
		}
	}
}

// TestCardLeft moves one card and leaves the other as it was.
func TestCardLeft(t *testing.T) {
	first := strings.Replace(partitions, "alone: true", `alone: true, selector: 'device.attributes["gpu.example.com"].uuid.contains("card-a")'`, 1)
	in := cards("card-a", "card-b")
	left := map[string]int{}
	for _, s := range decide(t, first, in...).Slices {
		if s.Spec.Driver == gpus {
			left["devices"] += len(s.Spec.Devices)
			left["sets"] += len(s.Spec.SharedCounters)
			left["slices"] += int(s.Spec.Pool.ResourceSliceCount)
		}
	}
	if diff := cmp.Diff(map[string]int{"devices": 7, "sets": 1, "slices": 4}, left); diff != "" {
		t.Errorf("left of the driver (-want +got):\n%s", diff)
	}
}

// TestGroups keeps compatibility groups apart from all other counters.
func TestGroups(t *testing.T) {
	in := cards("card-a")
	of := in[1].Spec.Devices
	for i, groups := range [][]string{{"x"}, {"x", "y"}, {"y"}, nil, {"x"}, {"z"}, {"y"}} {
		of[i].ConsumesCounters[0].CompatibilityGroups = groups
	}
	r := decide(t, partitions, in...)
	want := []string{"two: card-a-quarter-0 card-a-quarter-1", "two: card-a-quarter-1 card-a-quarter-2"}
	got := slices.DeleteFunc(names(r), func(n string) bool { return !strings.HasPrefix(n, "two") })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pairs with a group in common (-want +got):\n%s", diff)
	}
	d := published(t, r, "card-a-quarter-1-card-a-quarter-2")
	i := slices.IndexFunc(d.ConsumesCounters, func(c resourceapi.DeviceCounterConsumption) bool { return len(c.CompatibilityGroups) > 0 })
	if i < 0 || !slices.Equal(d.ConsumesCounters[i].CompatibilityGroups, []string{"y"}) || len(d.ConsumesCounters[i].Counters) != 2 {
		t.Errorf("two quarters consume %v, want the memory in a set of its own, with group y", d.ConsumesCounters)
	}
}

// TestManySets has more counters than a set, and more sets than a slice.
func TestManySets(t *testing.T) {
	var a, b []resourceapi.Device
	for i := range 128 {
		a, b = append(a, at(fmt.Sprintf("gpu%d", i), fmt.Sprint(i/8))), append(b, at(fmt.Sprintf("nic%d", i), fmt.Sprint(i/8)))
	}
	pairs := strings.Replace(triplets, "{atom: gpu, count: 2}, {atom: nic}", "{atom: gpu, all: true}, {atom: nic, all: true}", 1)
	r := decide(t, pairs, slice(gpus, a...), slice(nics, b...))
	if want := 128 + 128*8 + 16; len(r.Molecules) != want || len(r.Report) > 0 {
		t.Errorf("%d molecules, want %d; report %+v", len(r.Molecules), want, r.Report)
	}
	if n := len(countersOf(r)); n != 256 {
		t.Errorf("%d counters, want one for each of 256 atoms", n)
	}
	for _, s := range r.Slices {
		if len(s.Spec.SharedCounters) > 8 || len(s.Spec.Devices) > 64 {
			t.Errorf("slice %s has %d counter sets and %d devices", s.Name, len(s.Spec.SharedCounters), len(s.Spec.Devices))
		}
	}
	// All of a host with 40 atoms is in two sets, with 65 in none.
	for n, want := range map[int]int{20: 1, 33: 0} {
		host := strings.Replace(strings.Replace(pairs, "share: [resource.kubernetes.io/pcieRoot]\n    members: [{atom: gpu, all", "members: [{atom: gpu, all", 1), "alone: true", "", 1)
		host = strings.Replace(host, "{name: gpu, driver: gpu.example.com, }", "{name: gpu, driver: gpu.example.com}", 1)
		r := decide(t, host, slice(gpus, a[:n]...), slice(nics, b[:n]...))
		got := 0
		for _, m := range r.Molecules {
			if m.Rule == "triplet" {
				got++
			}
		}
		if got != want {
			t.Errorf("%d molecules of all of %d and %d, want %d; report %+v", got, n, n, want, r.Report)
		}
	}
}
