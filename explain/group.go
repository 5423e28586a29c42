// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Line is a reason and the nodes that it holds for.
type Line struct {
	Reason string   `json:"reason"`
	Nodes  []string `json:"nodes"`

	causes []Cause  // of the nodes
	texts  []string // the clauses of Reason
}

// Group tells causes, given by node, together that are of the same situation: the
// reason of most nodes first, nodes by name.
func Group(causes map[string]Cause) []Line {
	lines := map[string]*Line{}
	for _, node := range slices.Sorted(maps.Keys(causes)) {
		situation := causes[node].situation()
		if lines[situation] == nil {
			lines[situation] = &Line{}
		}
		lines[situation].Nodes = append(lines[situation].Nodes, node)
		lines[situation].causes = append(lines[situation].causes, causes[node])
	}
	var grouped []Line
	for _, line := range lines {
		line.texts = together(line.causes)
		line.Reason = line.First(len(line.texts))
		grouped = append(grouped, *line)
	}
	slices.SortFunc(grouped, func(a, b Line) int {
		return cmp.Or(cmp.Compare(len(b.Nodes), len(a.Nodes)), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Nodes[0], b.Nodes[0]))
	})
	return grouped
}

// First joins the first clauses of the reason. One is the proof.
func (l *Line) First(n int) string { return strings.Join(l.texts[:min(n, len(l.texts))], "; ") }

// String names a single node and counts several.
func (l Line) String() string {
	if len(l.Nodes) == 1 {
		return l.Nodes[0] + ": " + l.Reason
	}
	return fmt.Sprintf("%s (%s): %s", Count(len(l.Nodes), "node"), List(l.Nodes), l.Reason)
}
