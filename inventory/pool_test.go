// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// TestPools publishes slices beside a healthy pool, which no problem may affect.
func TestPools(t *testing.T) {
	device := resourceapi.Device{Name: "d0"}
	for name, tc := range map[string]struct {
		slices  []*resourceapi.ResourceSlice
		problem *PoolProblem
		devices string // on n1
	}{
		"complete": {
			slices:  []*resourceapi.ResourceSlice{slice("a", revision(1, 2), with(device)), slice("b", revision(1, 2), with(drawing("d1")))},
			devices: " d0 d1",
		},
		"old generation complete, new one not": {
			slices: []*resourceapi.ResourceSlice{
				slice("a1", revision(1, 2), with(device)), slice("b1", revision(1, 2), with(drawing("d1"))),
				slice("a2", revision(2, 2), with(drawing("d2"))),
			},
			devices: " d2", problem: &PoolProblem{Kind: Incomplete, Have: 1, Want: 2},
		},
		"old generation not complete, new one is": {
			slices: []*resourceapi.ResourceSlice{
				slice("a1", revision(1, 2), with(device)),
				slice("a2", revision(2, 2), with(drawing("d2"))), slice("b2", revision(2, 2), with(drawing("d1"))),
			},
			devices: " d2 d1",
		},
		"more slices than there should be": {
			slices:  []*resourceapi.ResourceSlice{slice("a", with(device)), slice("b", with(drawing("d1")))},
			devices: " d0 d1", problem: &PoolProblem{Kind: Incomplete, Have: 2, Want: 1},
		},
		"the missing slice is another node's": {
			slices:  []*resourceapi.ResourceSlice{slice("a", revision(1, 2), with(device))},
			devices: " d0", problem: &PoolProblem{Kind: Incomplete, Have: 1, Want: 2},
		},
		"slices of other nodes complete the pool": {
			slices:  []*resourceapi.ResourceSlice{slice("a", revision(1, 2), with(device)), slice("b", revision(1, 2), onNode("n2"), with(drawing("d1")))},
			devices: " d0",
		},
		"the new generation is another node's": {
			slices:  []*resourceapi.ResourceSlice{slice("a", with(device)), slice("b", revision(2, 1), onNode("n2"), with(device))},
			devices: " d0",
		},
		"slices disagree on the count": {
			slices:  []*resourceapi.ResourceSlice{slice("b", revision(1, 3), with(device)), slice("a", revision(1, 2), with(drawing("d1")))},
			devices: " d1 d0", problem: &PoolProblem{Kind: CountMismatch, Want: 2, Other: 3, Slices: []string{"a", "b"}},
		},
		"device twice in a slice": {
			slices:  []*resourceapi.ResourceSlice{slice("a", with(device, device))},
			devices: " d0 d0", problem: &PoolProblem{Kind: DuplicateDevice, Name: "d0", Slices: []string{"a", "a"}},
		},
		"device on two nodes": {
			slices:  []*resourceapi.ResourceSlice{slice("a", revision(1, 2), with(device)), slice("b", revision(1, 2), onNode("n2"), with(device))},
			devices: " d0", problem: &PoolProblem{Kind: DuplicateDevice, Name: "d0", Slices: []string{"a", "b"}},
		},
		"device in an old generation as well": {
			slices:  []*resourceapi.ResourceSlice{slice("a", with(device)), slice("b", revision(2, 1), with(device))},
			devices: " d0",
		},
		"counter set twice": {
			slices: []*resourceapi.ResourceSlice{
				slice("a", revision(1, 3), withSet("s/c=1")), slice("b", revision(1, 3), withSet("s/c=2")), slice("c", revision(1, 3), with(device)),
			},
			devices: " d0", problem: &PoolProblem{Kind: DuplicateCounterSet, Name: "s", Slices: []string{"a", "b"}},
		},
		"counter set missing": {
			slices:  []*resourceapi.ResourceSlice{slice("a", with(device, drawing("d1", "s/c=1")))},
			devices: " d0 d1", problem: &PoolProblem{Kind: MissingCounterSet, Name: "s", Device: "d1", Slices: []string{"a"}},
		},
		"counter set missing for a device of another node": {
			slices: []*resourceapi.ResourceSlice{
				slice("a", revision(1, 2), with(device)), slice("b", revision(1, 2), onNode("n2"), with(drawing("d1", "s/c=1"))),
			},
			devices: " d0", problem: &PoolProblem{Kind: MissingCounterSet, Name: "s", Device: "d1", Slices: []string{"b"}},
		},
		"counter missing": {
			slices: []*resourceapi.ResourceSlice{
				slice("a", revision(1, 2), withSet("s/c=1")), slice("b", revision(1, 2), with(drawing("d0", "s/other=1"))),
			},
			devices: " d0", problem: &PoolProblem{Kind: MissingCounter, Name: "s", Counter: "other", Device: "d0", Slices: []string{"b"}},
		},
		"counters in a slice of another node": {
			slices: []*resourceapi.ResourceSlice{
				slice("a", revision(1, 2), onNode("n2"), withSet("s/c=1")), slice("b", revision(1, 2), with(drawing("d0", "s/c=1"))),
			},
			devices: " d0",
		},
		"nothing but counters, incomplete": {
			slices:  []*resourceapi.ResourceSlice{slice("a", revision(1, 2), withSet("s/c=1"))},
			problem: &PoolProblem{Kind: Incomplete, Have: 1, Want: 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			healthy := slice("healthy", inPool("healthy"), with(device))
			var want []string
			if tc.devices != "" || tc.problem != nil {
				want = append(want, "d/p:"+tc.devices)
			}
			if tc.problem != nil {
				want[0] += " " + string(tc.problem.Kind)
			}
			want = append([]string{"d/healthy: d0"}, want...)
			snapshot := inventoryOf(append(tc.slices, healthy)...).Snapshot()
			if diff := cmp.Diff(want, names(snapshot.View(node("n1")))); diff != "" {
				t.Errorf("view (-want +got):\n%s", diff)
			}
			pool, _ := snapshot.Pool(PoolID{Driver: "d", Pool: "p"})
			if diff := cmp.Diff(tc.problem, pool.Problem); diff != "" {
				t.Errorf("problem (-want +got):\n%s", diff)
			}
			slices.Reverse(tc.slices)
			again, _ := inventoryOf(tc.slices...).Snapshot().Pool(pool.ID)
			if diff := cmp.Diff(pool.Problem, again.Problem); diff != "" {
				t.Errorf("slices in the reverse order give another problem:\n%s", diff)
			}
		})
	}
}

// TestBadNodeSelector: a selector that cannot be parsed is the problem of its
// pool, wherever it is.
func TestBadNodeSelector(t *testing.T) {
	bad := onNodes("n1")
	bad.NodeSelectorTerms[0].MatchExpressions[0].Operator = "Near"
	select1 := func(s *resourceapi.ResourceSlice) { s.Spec.NodeName, s.Spec.NodeSelector = nil, bad }
	for name, s := range map[string]*resourceapi.ResourceSlice{
		"of a slice":                 slice("a", select1, with(resourceapi.Device{Name: "d0"})),
		"of a slice without devices": slice("a", select1, withSet("s/c=1")),
		"of a device":                slice("a", perDevice, with(resourceapi.Device{Name: "d0", NodeSelector: bad})),
	} {
		pool, _ := inventoryOf(s).Snapshot().Pool(PoolID{Driver: "d", Pool: "p"})
		if pool.Problem == nil || pool.Problem.Kind != BadNodeSelector || pool.Problem.Name != "a" || pool.Problem.Detail == "" {
			t.Errorf("%s: problem %+v", name, pool.Problem)
		}
	}
}

// TestCounters: sets of all slices are sorted by name, and devices refer to them
// by position.
func TestCounters(t *testing.T) {
	two := drawing("d0", "s2/c=3", "s1/b=2")
	two.ConsumesCounters[0].CompatibilityGroups = []string{"g"}
	pool, use := inventoryOf(
		slice("x", revision(1, 3), withSet("s2/c=30")),
		slice("y", revision(1, 3), withSet("s1/b=20")),
		slice("z", revision(1, 3), with(two)),
	).Snapshot().Pool(PoolID{Driver: "d", Pool: "p"})
	if pool.Problem != nil {
		t.Fatal(pool.Problem)
	}
	if diff := cmp.Diff([]string{"s1/b=20", "s2/c=30"}, free(pool, use)); diff != "" {
		t.Errorf("counters (-want +got):\n%s", diff)
	}
	d := pool.Device("d0")
	if diff := cmp.Diff([]Draw{{Counter: 0, Amount: amountOfInt(2)}, {Counter: 1, Amount: amountOfInt(3)}}, d.Draws, cmp.AllowUnexported(Amount{})); diff != "" {
		t.Errorf("draws (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]SetGroups{{Set: 0}, {Set: 1, Groups: []string{"g"}}}, d.Groups); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

func taintRule(name string, selector *resourceapi.DeviceTaintSelector) *resourceapi.DeviceTaintRule {
	r := &resourceapi.DeviceTaintRule{}
	r.Name = name
	r.Spec.DeviceSelector = selector
	r.Spec.Taint = resourceapi.DeviceTaint{Key: name, Effect: resourceapi.DeviceTaintEffectNoSchedule}
	return r
}

func TestTaintRules(t *testing.T) {
	own := resourceapi.Device{Name: "d0", Taints: []resourceapi.DeviceTaint{{Key: "own", Effect: resourceapi.DeviceTaintEffectNoExecute}}}
	inv := inventoryOf(slice("a", with(own, drawing("d1"))), slice("b", inPool("q"), with(drawing("d0"))))
	for name, selector := range map[string]*resourceapi.DeviceTaintSelector{
		"nothing": nil,
		"all":     {},
		"driver":  {Driver: ptr("d")},
		"pool":    {Driver: ptr("d"), Pool: ptr("p")},
		"device":  {Device: ptr("d0")},
		"exact":   {Driver: ptr("d"), Pool: ptr("p"), Device: ptr("d1")},
		"other":   {Driver: ptr("e")},
		"none":    {Pool: ptr("p"), Device: ptr("d2")},
	} {
		inv.SetTaintRule(taintRule(name, selector))
	}
	check := func(device DeviceID, want ...string) {
		t.Helper()
		pool, _ := inv.Snapshot().Pool(device.PoolID())
		var got []string
		for _, taint := range pool.Device(device.Device).Taints {
			if taint.Rule != "" && taint.Rule != taint.Key {
				t.Errorf("%s has taint %s of rule %s", device, taint.Key, taint.Rule)
			}
			got = append(got, taint.Key)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("taints of %s (-want +got):\n%s", device, diff)
		}
	}
	d0, d1, other := DeviceID{"d", "p", "d0"}, DeviceID{"d", "p", "d1"}, DeviceID{"d", "q", "d0"}
	check(d0, "own", "all", "device", "driver", "pool")
	check(d1, "all", "driver", "exact", "pool")
	check(other, "all", "device", "driver")
	inv.DeleteTaintRule("all")
	inv.DeleteTaintRule("unknown")
	inv.SetTaintRule(taintRule("driver", &resourceapi.DeviceTaintSelector{Driver: ptr("e")}))
	inv.SetTaintRule(taintRule("nothing", &resourceapi.DeviceTaintSelector{Device: ptr("d1")}))
	check(d0, "own", "device", "pool")
	check(d1, "exact", "nothing", "pool")
	check(other, "device")
	if len(own.Taints) != 1 {
		t.Error("a rule changed the published device")
	}
}

func TestReach(t *testing.T) {
	for name, tc := range map[string]struct {
		reach Reach
		nodes []string
	}{
		"nothing":       {},
		"a name":        {reach: Reach{NodeName: "n1"}, nodes: []string{"n1"}},
		"all":           {reach: Reach{AllNodes: true}, nodes: []string{"n1", "n2", "n3"}},
		"a selector":    {reach: mustReach(t, nil, nil, onNodes("n2", "n3")), nodes: []string{"n2", "n3"}},
		"an empty name": {reach: mustReach(t, ptr(""), ptr(true), nil), nodes: []string{"n1", "n2", "n3"}},
		"an empty one":  {reach: mustReach(t, ptr(""), ptr(false), &v1.NodeSelector{})},
	} {
		var got []string
		for _, n := range []string{"n1", "n2", "n3"} {
			if tc.reach.Node(node(n)) {
				got = append(got, n)
			}
		}
		if diff := cmp.Diff(tc.nodes, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func mustReach(t *testing.T, nodeName *string, allNodes *bool, selector *v1.NodeSelector) Reach {
	t.Helper()
	r, err := newReach(nodeName, allNodes, selector)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
