// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/inventory"
)

// example is a worked example of SEARCH.md: a claim that one bound refutes, and none of those
// that are asked before it.
type example struct {
	bound   string
	devices []resourceapi.Device
	// cards is how many counter sets of 8 slices there are, room the cpus of the node.
	cards, room int
	// wants is the claim, less one that wants a little less and can be had, see wanted.
	wants, less string
	// conflict is the reason that Allocate gives, as the document has it.
	conflict string
}

// examples are in the order in which bounds are asked.
func examples() []example {
	gpu := func(int) resourceapi.Device { return resourceapi.Device{} }
	rowsOf := func(n int) func(i int) resourceapi.Device {
		return func(i int) resourceapi.Device { return inRow(i / n) }
	}
	parts := func(size, each int) func(i int) resourceapi.Device {
		return func(i int) resourceapi.Device { return partOf(i/each, size) }
	}
	return []example{
		{bound: "tooMany", devices: many("gpu", 40, gpu), wants: "20*gpu 13*gpu", less: "20*gpu 12*gpu", conflict: "TooMany: need 33, limit 32"},
		{bound: "crowded", devices: many("gpu", 3, gpu), wants: "2*gpu 2*gpu", less: "2*gpu 1*gpu", conflict: "Shared: need 4, have 3"},
		{
			bound: "overbooked", devices: slices.Concat(many("large-gpu", 1, gpu), many("small-gpu", 2, gpu)),
			wants: "1*gpu 1*large 1*large", less: "1*gpu 1*gpu 1*large", conflict: "Shared: need 2, have 1",
		},
		{bound: "notDistinct", devices: many("gpu", 4, rowsOf(2)), wants: "1*gpu 2*gpu row!0,1", less: "1*gpu 1*gpu row!0,1", conflict: "NotDistinct: need 3, have 2"},
		{bound: "notAlike", devices: many("gpu", 4, rowsOf(2)), wants: "1*gpu 2*gpu row=0,1", less: "1*gpu 1*gpu row=0,1", conflict: "NoMatch: need 3, have 2"},
		{bound: "counterShort", cards: 2, devices: many("part", 4, parts(6, 2)), wants: "2*part 1*part", less: "1*part 1*part", conflict: "Counters: need 3, have 2"},
		{
			bound: "nodeShort", room: 4, devices: many("gpu", 4, func(int) resourceapi.Device { return hungry(2) }),
			wants: "2*gpu 1*gpu", less: "1*gpu 1*gpu", conflict: "NodeResource: need 3, 6 of cpu where 4 are left",
		},
		{bound: "packed", cards: 2, devices: many("part", 4, parts(5, 2)), wants: "3*part", less: "2*part", conflict: "Counters: need 3, have 2"},
		{
			bound: "undivided", devices: many("gpu", 6, rowsOf(3)),
			wants: "2*gpu 2*gpu 2*gpu row=0 row=1 row=2", less: "2*gpu 2*gpu row=0 row=1", conflict: "TooFewGroups: need 3, have 2",
		},
		{
			bound: "undivided shares", devices: many("gpu", 2, func(int) resourceapi.Device { return shared(10, 6) }),
			wants: "1*gpu 1*gpu 1*gpu", less: "1*gpu 1*gpu", conflict: "Exhausted: need 3",
		},
		{
			bound: "outlook", cards: 2, devices: slices.Concat(many("five", 2, parts(5, 1)), many("four", 4, parts(4, 2))),
			wants: "2*five 1*four", less: "1*five 1*four", conflict: "Exhausted: need 3",
		},
	}
}

// refutes asks a bound about all requests.
func refutes(s *search, bound string) bool {
	b, rest := s.bounds, s.bounds.rest(s.order)
	limited, want := b.limited(rest), wants(rest)
	switch bound {
	case "tooMany":
		return b.tooMany(s.order)
	case "crowded":
		return b.crowded(rest, want)
	case "overbooked":
		return b.overbooked(rest, want)
	case "notDistinct":
		return b.notDistinct(limited) >= 0
	case "notAlike":
		return b.notAlike(limited) >= 0
	case "counterShort":
		return b.counterShort(rest)
	case "nodeShort":
		return b.nodeShort(rest) != ""
	case "packed":
		return b.packed(rest[0]) < rest[0].want
	case "undivided":
		return len(s.problem.constraints) > 0 && b.undivided(rest, want) != nil
	case "undivided shares":
		return b.undivided(rest, want) != nil
	}
	return s.foresee(0, want[0])
}

// TestDocumentedExamples: what SEARCH.md says about bounds is so.
func TestDocumentedExamples(t *testing.T) {
	document, err := os.ReadFile("SEARCH.md")
	if err != nil {
		t.Fatal(err)
	}
	all := examples()
	for n, e := range all {
		t.Run(e.bound, func(t *testing.T) {
			problem, s := e.search(t, e.wants)
			for _, before := range all[:n+1] {
				if got, want := refutes(s, before.bound), before.bound == e.bound; got != want {
					t.Errorf("%s refutes: %t, want %t", before.bound, got, want)
				}
			}
			out, err := problem.Allocate(s.board.view)
			if err != nil || reason(out.Refusal) != e.conflict {
				t.Errorf("the reason is %q, want %q (%v)", reason(out.Refusal), e.conflict, err)
			}
			_, section, found := strings.Cut(string(document), "\n### "+e.bound+"\n")
			section, _, _ = strings.Cut(section, "\n##")
			for _, text := range []string{e.wants, e.less, e.conflict} {
				if !found || !strings.Contains(section, "`"+text+"`") {
					t.Errorf("SEARCH.md has no section %q with %q", e.bound, text)
				}
			}
			problem, s = e.search(t, e.less)
			if out, err := problem.Allocate(s.board.view); err != nil || out.Result == nil {
				t.Errorf("%s is refused, too (%v)", e.less, err)
			}
		})
	}
}

// TestDocumentedChoices: what SEARCH.md says beside bounds is so.
func TestDocumentedChoices(t *testing.T) {
	e := example{devices: many("gpu", 3, func(i int) resourceapi.Device { return inRow((i + 1) / 2) })}
	_, s := e.search(t, "2*gpu row=0")
	if got := s.bounds.viable(nil, s.state.asks[0], 2, []int{0, 1, 2}); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("candidates %v, want those of row 1", got)
	}
	e = example{devices: many("gpu", 8, func(int) resourceapi.Device { return resourceapi.Device{} })}
	_, s = e.search(t, "2*gpu")
	for _, want := range []int{1, 2} {
		classes := map[fingerprint]bool{}
		for _, class := range s.memory.classes(0) {
			classes[class] = true
		}
		if len(classes) != want {
			t.Errorf("%d classes of equal devices, want %d", len(classes), want)
		}
		s.state.take(s.state.asks[0], 0)
	}
	_, s = e.search(t, "3*gpu|2*gpu")
	if f := s.state.asks[0]; !f.undecided() || f.want != 2 || f.open.count() != 8 {
		t.Errorf("what stands for the list wants %d of %d", f.want, f.open.count())
	}
}

// search has every request settled, and nothing chosen.
func (e *example) search(t *testing.T, wants string) (*Problem, *search) {
	t.Helper()
	spec := resourceapi.ResourceSliceSpec{Driver: "d", NodeName: ptr("n"), Pool: resourceapi.ResourcePool{Name: "p", Generation: 1, ResourceSliceCount: 2}}
	devices := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "devices"}, Spec: spec}
	sets := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "sets"}, Spec: spec}
	devices.Spec.Devices = e.devices
	for card := range e.cards {
		sets.Spec.SharedCounters = append(sets.Spec.SharedCounters, resourceapi.CounterSet{
			Name: fmt.Sprint("card", card), Counters: map[string]resourceapi.Counter{"slices": {Value: units(8)}},
		})
	}
	view := *viewOf(devices, sets)
	if e.room > 0 {
		view.Room = map[v1.ResourceName]inventory.Amount{"cpu": inventory.AmountOf(units(e.room))}
	}
	problem, err := Compile([]*resourceapi.ResourceClaim{wanted(t, wants)}, func(string) *resourceapi.DeviceClass { return &resourceapi.DeviceClass{} }, nameMatcher{}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := newSearch(newBoard(problem, &view), 1000)
	s.order = natural(len(problem.requests))
	if err := s.board.completeAll(); err != nil || !s.settle(s.order) {
		t.Fatalf("a request cannot be had by itself (%v)", err)
	}
	return problem, s
}

// reason is that of a refusal in short.
func reason(r *Refusal) string {
	if r == nil {
		return "none"
	}
	c := r.Conflict
	text := fmt.Sprintf("%s: need %d", c.Kind, c.Need)
	switch {
	case c.Kind == NodeResource:
		needs, left := c.Shortage.Needs.Quantity(), c.Shortage.Left.Quantity()
		text += fmt.Sprintf(", %s of %s where %s are left", &needs, c.Shortage.Resource, &left)
	case c.Limit > 0:
		text += fmt.Sprintf(", limit %d", c.Limit)
	case c.Have > 0:
		text += fmt.Sprintf(", have %d", c.Have)
	}
	return text
}

// many are devices whose names have a kind, by which nameMatcher selects.
func many(kind string, n int, one func(i int) resourceapi.Device) []resourceapi.Device {
	var devices []resourceapi.Device
	for i := range n {
		d := one(i)
		d.Name = fmt.Sprintf("d-%s-%d", kind, i)
		devices = append(devices, d)
	}
	return devices
}

func inRow(row int) resourceapi.Device {
	return resourceapi.Device{Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"row": {IntValue: ptr(int64(row))}}}
}

// partOf is a part of a card with so many of its 8 slices.
func partOf(card, size int) resourceapi.Device {
	return resourceapi.Device{ConsumesCounters: []resourceapi.DeviceCounterConsumption{
		{CounterSet: fmt.Sprint("card", card), Counters: map[string]resourceapi.Counter{"slices": {Value: units(size)}}},
	}}
}

// hungry takes cpus of the node.
func hungry(cpus int) resourceapi.Device {
	return resourceapi.Device{NodeAllocatableResources: map[v1.ResourceName]resourceapi.NodeAllocatableResource{
		"cpu": {Mapping: &resourceapi.NodeAllocatableMapping{DeviceMultiplier: ptr(units(cpus))}},
	}}
}

// shared is a device that can be shared, with so much mem, of which a share has so much.
func shared(mem, share int) resourceapi.Device {
	return resourceapi.Device{
		AllowMultipleAllocations: ptr(true),
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			"mem": {Value: units(mem), RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: ptr(units(share))}},
		},
	}
}
