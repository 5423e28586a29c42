// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Line is a reason and the nodes that it holds for.
type Line struct {
	Reason string   `json:"reason"`
	Nodes  []string `json:"nodes"`
}

// Group merges equal reasons, given by node: the reason of most nodes first,
// nodes by name.
func Group(reasons map[string]string) []Line {
	nodes := map[string][]string{}
	for _, node := range slices.Sorted(maps.Keys(reasons)) {
		nodes[reasons[node]] = append(nodes[reasons[node]], node)
	}
	lines := make([]Line, 0, len(nodes))
	for reason, of := range nodes {
		lines = append(lines, Line{Reason: reason, Nodes: of})
	}
	slices.SortFunc(lines, func(a, b Line) int {
		return cmp.Or(cmp.Compare(len(b.Nodes), len(a.Nodes)), cmp.Compare(a.Reason, b.Reason))
	})
	return lines
}

// String names a single node and counts several.
func (l Line) String() string {
	if len(l.Nodes) == 1 {
		return l.Nodes[0] + ": " + l.Reason
	}
	return fmt.Sprintf("%s (%s): %s", count(len(l.Nodes), "node"), list(l.Nodes), l.Reason)
}
