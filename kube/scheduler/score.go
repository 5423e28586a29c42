// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/alloc"
)

// PreScore ranks the nodes that passed Filter by the cost of the devices found
// on them, the same cost that decides between the devices of one node, and with
// the same strategy.
func (pl *Plugin) PreScore(ctx context.Context, cs fwk.CycleState, _ *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	s, err := stateOf(cs)
	if err != nil {
		return failed(klog.FromContext(ctx), err)
	}
	if s == nil || s.problem == nil && s.extended == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	found := make(map[string]finding, len(nodes))
	for _, node := range nodes {
		if f, ok := s.foundOn(node); ok {
			found[node.Node().Name] = f
		}
	}
	cs.Write(scoresKey, scores(rank(found, pl.compiler.Options.Strategy)))
	return nil
}

// Score returns the rank of a node, 0 to 100, more is better.
func (pl *Plugin) Score(ctx context.Context, cs fwk.CycleState, _ *v1.Pod, nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	data, err := cs.Read(scoresKey)
	if err != nil {
		return 0, failed(klog.FromContext(ctx), err)
	}
	ranked, _ := data.(scores)
	return ranked[nodeInfo.Node().Name], nil
}

// ScoreExtensions returns nil: PreScore saw all nodes, scores are final.
func (pl *Plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }

const scoresKey fwk.StateKey = Name + "/scores"

// scores are the scores by node.
type scores map[string]int64

// Clone implements fwk.StateData.
func (s scores) Clone() fwk.StateData { return s }

// rank gives each node a score out of its position among the distinct costs.
// Nodes with the same rank in prioritized lists share a band, and the bands
// divide the scores evenly. Where there are several, costs only use the upper half
// of a band: no packing is worth a worse alternative, and other plugins' scores
// only outweigh that if they differ much.
func rank(found map[string]finding, strategy alloc.Strategy) map[string]int64 {
	compare := comparison(strategy)
	bands := bandsOf(found, compare)
	width := float64(fwk.MaxScore) / float64(max(len(bands), 1))
	used := width
	if len(bands) > 1 {
		used = width / 2
	}
	result := make(map[string]int64, len(found))
	for node, f := range found {
		i := slices.IndexFunc(bands, func(b []finding) bool { return sameBand(b[0], f) })
		place, _ := slices.BinarySearchFunc(bands[i], f, compare)
		score := float64(fwk.MaxScore) - float64(i)*width
		if last := len(bands[i]) - 1; last > 0 {
			score -= used * float64(place) / float64(last)
		}
		result[node] = int64(score)
	}
	return result
}

// bandsOf returns the distinct costs, best first, divided into bands.
func bandsOf(found map[string]finding, compare func(a, b finding) int) [][]finding {
	distinct := slices.SortedFunc(maps.Values(found), compare)
	distinct = slices.CompactFunc(distinct, func(a, b finding) bool { return compare(a, b) == 0 })
	var bands [][]finding
	for i, f := range distinct {
		if i == 0 || !sameBand(distinct[i-1], f) {
			bands = append(bands, nil)
		}
		bands[len(bands)-1] = append(bands[len(bands)-1], f)
	}
	return bands
}

func sameBand(a, b finding) bool {
	return a.again == b.again && a.result.Cost.Rank == b.result.Cost.Rank
}

// comparison orders by what the strategy prefers; devices that failed before come
// last.
func comparison(strategy alloc.Strategy) func(a, b finding) int {
	return func(a, b finding) int {
		return cmp.Or(compareBool(a.again, b.again), strategy.Compare(a.result.Cost, b.result.Cost))
	}
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
