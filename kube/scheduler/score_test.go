// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/alloc"
)

func TestRank(t *testing.T) {
	cost := func(c alloc.Cost) finding { return finding{result: &alloc.Result{Cost: c}} }
	again := func(f finding) finding { f.again = true; return f }
	for name, tc := range map[string]struct {
		found    map[string]finding
		strategy alloc.Strategy
		want     map[string]int64
	}{
		"none":      {want: map[string]int64{}},
		"all equal": {found: map[string]finding{"a": cost(alloc.Cost{}), "b": cost(alloc.Cost{})}, want: map[string]int64{"a": 100, "b": 100}},
		"packing uses the whole range": {
			found: map[string]finding{"a": cost(alloc.Cost{Lost: 1}), "b": cost(alloc.Cost{Lost: 5}), "c": cost(alloc.Cost{Lost: 5, Fresh: 1})},
			want:  map[string]int64{"a": 100, "b": 50, "c": 0},
		},
		"spread is the reverse of packing": {
			found:    map[string]finding{"a": cost(alloc.Cost{Lost: 1}), "b": cost(alloc.Cost{Lost: 5}), "c": cost(alloc.Cost{Lost: 5, Fresh: 1})},
			strategy: alloc.Spread,
			want:     map[string]int64{"a": 0, "b": 50, "c": 100},
		},
		"listed order has no opinion on packing": {
			found:    map[string]finding{"a": cost(alloc.Cost{Lost: 1}), "b": cost(alloc.Cost{Lost: 5}), "c": cost(alloc.Cost{Rank: 1})},
			strategy: alloc.Listed,
			want:     map[string]int64{"a": 100, "b": 100, "c": 50},
		},
		"a better alternative beats any packing": {
			found: map[string]finding{"a": cost(alloc.Cost{Lost: 9}), "b": cost(alloc.Cost{Rank: 1}), "c": cost(alloc.Cost{Rank: 1, Lost: 9})},
			want:  map[string]int64{"a": 100, "b": 50, "c": 25},
		},
		"alternatives divide the range evenly": {
			found: map[string]finding{"a": cost(alloc.Cost{}), "b": cost(alloc.Cost{Rank: 1}), "c": cost(alloc.Cost{Rank: 2}), "d": cost(alloc.Cost{Rank: 7})},
			want:  map[string]int64{"a": 100, "b": 75, "c": 50, "d": 25},
		},
		"devices that failed come last": {
			found: map[string]finding{"a": again(cost(alloc.Cost{})), "b": cost(alloc.Cost{Rank: 3})},
			want:  map[string]int64{"a": 50, "b": 100},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, rank(tc.found, tc.strategy)); diff != "" {
				t.Errorf("unexpected scores (-want +got):\n%s", diff)
			}
		})
	}
}

func TestScorePrefersTheBetterAlternative(t *testing.T) {
	claim := newClaim("c")
	claim.Spec.Devices.Requests[0] = resourceapi.DeviceRequest{Name: "r", FirstAvailable: []resourceapi.DeviceSubRequest{
		{Name: "big", DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 2},
		{Name: "small", DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1},
	}}
	r := newRig(t, "", newClass(), newSlice("n1", newDevice("a")), newSlice("n2", newDevice("a"), newDevice("b")), claim)
	c := r.cycle(newPod("p", "c"))
	r.succeed("PreFilter", c.preFilter())
	var nodes []fwk.NodeInfo
	for _, node := range []string{"n1", "n2"} {
		r.succeed("Filter", c.filter(node))
		nodes = append(nodes, nodeInfo(node))
	}
	r.succeed("PreScore", r.plugin.PreScore(r.ctx, c.state, c.pod, nodes))
	got := map[string]int64{}
	for _, node := range nodes {
		score, status := r.plugin.Score(r.ctx, c.state, c.pod, node)
		r.succeed("Score", status)
		got[node.Node().Name] = score
	}
	if diff := cmp.Diff(map[string]int64{"n1": 50, "n2": 100}, got); diff != "" {
		t.Errorf("unexpected scores (-want +got):\n%s", diff)
	}
	if r.plugin.ScoreExtensions() != nil {
		t.Error("scores are final")
	}
}

func TestScoreSkipsPodsWithoutProblem(t *testing.T) {
	r := newRig(t, "", newClass(), newSlice("n1", newDevice("a")), allocated(newClaim("c"), "n1", "a"))
	c := r.cycle(newPod("p", "c"))
	r.succeed("PreFilter", c.preFilter())
	if got := r.plugin.PreScore(r.ctx, c.state, c.pod, nil); !got.IsSkip() {
		t.Errorf("got %s, want Skip", got.Code())
	}
}
