// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// views lists what the nodes n1, n2 and so on have, with the nodes that publish the
// pool where that is told.
func views(s *Snapshot, nodes int) []string {
	var lines []string
	for i := range nodes {
		name := fmt.Sprint("n", i+1)
		view := s.View(node(name))
		for k, line := range names(view) {
			if publishers := view.Pools[k].Pool.Publishers; publishers != nil {
				line += fmt.Sprint(" ", publishers)
			}
			lines = append(lines, name+" "+line)
		}
	}
	return lines
}

// TestPoolsOfSeveralNodes: what each node has of a pool, and why not.
func TestPoolsOfSeveralNodes(t *testing.T) {
	selecting := func(nodes ...string) change {
		return func(s *resourceapi.ResourceSlice) { s.Spec.NodeName, s.Spec.NodeSelector = nil, onNodes(nodes...) }
	}
	for name, tc := range map[string]struct {
		slices []*resourceapi.ResourceSlice
		want   []string
	}{
		"each its own": {
			[]*resourceapi.ResourceSlice{slice("a", with(named("d0"))), slice("b", onNode("n2"), with(named("d0"))), slice("c", onNode("n3"), revision(7, 1), with(named("d1")))},
			[]string{"n1 d/p: d0 [n1 n2 n3]", "n2 d/p: d0 [n1 n2 n3]", "n3 d/p: d1 [n1 n2 n3]"},
		},
		"a whole one, and one that is not": {
			[]*resourceapi.ResourceSlice{slice("a", with(named("d0"))), slice("b", onNode("n2"), revision(1, 3), with(named("d1")))},
			[]string{"n1 d/p: d0 [n1 n2]", "n2 d/p: d1 CountMismatch [n1 n2]"},
		},
		"a higher generation, for a node that lacks slices": {
			[]*resourceapi.ResourceSlice{slice("a", revision(1, 2), with(named("d0"))), slice("b", onNode("n2"), revision(2, 1), with(named("d1")))},
			[]string{"n1 d/p: d0 Superseded [n1 n2]", "n2 d/p: d1 [n1 n2]"},
		},
		"of several nodes, beside one of a node": {
			[]*resourceapi.ResourceSlice{
				slice("a", revision(2, 2), with(named("d0"))), slice("b", onNode("n2"), revision(2, 2), with(named("d1"))),
				slice("c", onNode("n3"), with(named("d2"))),
			},
			[]string{"n1 d/p: d0 [n1 n2 n3]", "n2 d/p: d1 [n1 n2 n3]", "n3 d/p: d2 [n1 n2 n3]"},
		},
		"for all nodes, and one of a node": {
			[]*resourceapi.ResourceSlice{slice("a", onAllNodes, with(named("d0"))), slice("b", onNode("n2"), revision(5, 1), with(named("d1")))},
			[]string{"n1 d/p: d0 [n2]", "n2 d/p: d1 [n2]", "n3 d/p: d0 [n2]"},
		},
		"for different nodes": {
			[]*resourceapi.ResourceSlice{slice("a", selecting("n1", "n2"), with(named("d0"))), slice("b", selecting("n2", "n3"), revision(5, 1), with(named("d1")))},
			[]string{"n1 d/p: d0", "n2 d/p: d1", "n3 d/p: d1"},
		},
		"for different nodes, too many": {
			[]*resourceapi.ResourceSlice{
				slice("a", selecting("n1"), with(named("d0"))), slice("b", selecting("n2"), with(named("d1"))), slice("c", selecting("n1", "n2"), with(named("d2"))),
				slice("e", selecting("n4"), with(named("d3"))), slice("f", selecting("n3", "n5"), with(named("d4"))),
			},
			[]string{"n1 d/p: d0 d2 Incomplete", "n2 d/p: d1 d2 Incomplete", "n3 d/p: d4 Incomplete"},
		},
		"nothing but counters in an old generation": {
			[]*resourceapi.ResourceSlice{slice("a", revision(1, 2), withSet("s/c=1")), slice("b", onNode("n2"), revision(2, 1), with(named("d1")))},
			[]string{"n2 d/p: d1 [n1 n2]"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, views(inventoryOf(tc.slices...).Snapshot(), 3)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestOneName: a device is taken under its name on all nodes; what it draws is the
// node's that has it, and an allocation gets the device of its node.
func TestOneName(t *testing.T) {
	inv := inventoryOf(
		slice("a", revision(1, 2), withSet("s/c=10")), slice("b", revision(1, 2), with(drawing("d0", "s/c=1"), drawing("d1", "s/c=1"))),
		slice("x", onNode("n2"), revision(9, 2), withSet("s/c=10")), slice("y", onNode("n2"), revision(9, 2), with(drawing("d0", "s/c=7"), drawing("d2", "s/c=2"))),
	)
	holder := Holder{Namespace: "ns", Claim: "c", UID: "u"}
	hold := func(device, node string) []Hold {
		return []Hold{{Device: DeviceID{"d", "p", device}, Holder: holder, Node: node}}
	}
	left := func(name string) string {
		pv := inv.Snapshot().View(node(name)).Pools[0]
		return fmt.Sprint(names(&View{Pools: []PoolView{pv}}), free(pv.Pool, pv.Use), slices.ContainsFunc(pv.Use.Taken, func(o *Occupancy) bool { return o != nil }))
	}
	expect := func(when, n1, n2 string) {
		t.Helper()
		if got := left("n1"); got != "[d/p: d0 d1] "+n1 {
			t.Errorf("%s: n1 has %s, want %s", when, got, n1)
		}
		if got := left("n2"); got != "[d/p: d0 d2] "+n2 {
			t.Errorf("%s: n2 has %s, want %s", when, got, n2)
		}
	}
	expect("at first", "[s/c=10] false", "[s/c=10] false")
	inv.SetHolds("o", hold("d0", "n2"))
	expect("d0 is taken", "[s/c=9] true", "[s/c=3] true")
	if got := inv.Snapshot().Holders(DeviceID{"d", "p", "d2"}); got != nil {
		t.Errorf("d2 is held by %v", got)
	}
	inv.SetHolds("o", hold("d2", "n2"))
	expect("d2 is taken", "[s/c=10] false", "[s/c=8] true")
	if got := inv.Snapshot().Holders(DeviceID{"d", "p", "d2"}); !slices.Equal(got, []Holder{holder}) {
		t.Errorf("d2 is held by %v", got)
	}
	inv.SetHolds("o", hold("gone", "n2"))
	expect("a device is taken that n2 had once", "[s/c=10] false", "[s/c=10 closed] false")
	inv.SetHolds("o", hold("gone", ""))
	expect("a device is taken that anyone had", "[s/c=10 closed] false", "[s/c=10 closed] false")
	inv.SetHolds("o", nil)
	expect("nothing is", "[s/c=10] false", "[s/c=10] false")

	for _, name := range []string{"n1", "n2"} {
		a := &resourceapi.AllocationResult{NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{name}}},
		}}}}
		a.Devices.Results = []resourceapi.DeviceRequestAllocationResult{{Driver: "d", Pool: "p", Device: "d0"}}
		if got := inv.Snapshot().DevicesOf(a)[0]; got.Reach.NodeName != name {
			t.Errorf("an allocation on %s has the device of %s", name, got.Reach.NodeName)
		}
	}
}

// TestForgedNames: a node that publishes the pools of all others is found by its own name
// alone, and a change of one of them is that of one.
func TestForgedNames(t *testing.T) {
	const nodes = 300
	inv := New()
	for i := range nodes {
		name := fmt.Sprint("n", i)
		inv.SetSlice(slice(name, inPool(name), onNode(name), with(named("d0"), named("d1"))))
		inv.SetSlice(slice("evil-"+name, inPool(name), onNode("evil"), revision(9, 1), with(named("d0"), named("d2"))))
	}
	before := inv.Snapshot()
	if n := before.byNode.Len(); n != 2*nodes {
		t.Errorf("pools are found by %d names of nodes, want %d", n, 2*nodes)
	}
	if got := names(before.View(node("n7"))); !slices.Equal(got, []string{"d/n7: d0 d1"}) {
		t.Errorf("n7 has %v", got)
	}
	inv.SetHolds("o", []Hold{{Device: DeviceID{"d", "n7", "d2"}}})
	after := inv.Snapshot()
	for i := range nodes {
		name := fmt.Sprint("n", i)
		old, now := before.View(node(name)).Pools[0], after.View(node(name)).Pools[0]
		if old.Pool != now.Pool || old.Use != now.Use {
			t.Errorf("%s: what is taken on another node made its pool anew", name)
		}
	}
	for i := range nodes {
		inv.DeleteSlice(fmt.Sprint("evil-n", i))
	}
	if n := inv.Snapshot().byNode.Len(); n != nodes {
		t.Errorf("pools are found by %d names of nodes after all, want %d", n, nodes)
	}
}

// TestOneNameForAll: nodes that all call their pool the same have a part each, and one
// device that is taken concerns one part.
func TestOneNameForAll(t *testing.T) {
	const nodes = 300
	inv := New()
	for i := range nodes {
		name := fmt.Sprint("n", i)
		inv.SetSlice(slice(name, onNode(name), with(named("gpu-"+name))))
	}
	uses := func() map[*PoolUse]bool {
		all := map[*PoolUse]bool{}
		for _, use := range inv.Snapshot().Pools {
			all[use] = true
		}
		return all
	}
	before := uses()
	if len(before) != nodes {
		t.Fatalf("%d parts, want %d", len(before), nodes)
	}
	inv.SetHolds("o", []Hold{{Device: DeviceID{"d", "p", "gpu-n7"}, Node: "n7"}})
	after := uses()
	maps.DeleteFunc(after, func(use *PoolUse, _ bool) bool { return before[use] })
	if len(after) != 1 {
		t.Errorf("%d parts were made anew, want 1", len(after))
	}
}
