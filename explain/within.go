// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"slices"
)

// Shown is a line and as much of its reason as there is room for.
type Shown struct {
	Line
	// Text is the reason or, where it is too long, what comes first of it: at least the
	// proof, without names at worst. It is empty where there is no room for that.
	Text string
}

// Within shows causes, given by node, in a text of at most that many bytes, of which
// every line takes some beside its Text. What tells most comes first: the nodes where
// devices got farthest, then those with most nodes. All have their proof before any
// has more.
func Within(causes map[string]Cause, most, everyLine int) []Shown {
	lines := Group(causes)
	slices.SortStableFunc(lines, func(a, b Line) int { return cmp.Compare(b.causes[0].rank, a.causes[0].rank) })
	shown := make([]Shown, len(lines))
	for i, line := range lines {
		shown[i].Line = line
		brief := line.causes[0].proofBrief()
		if i == 0 {
			brief = Cut(brief, max(0, most-everyLine-len("…")))
		}
		if need := len(brief) + everyLine; need <= most {
			shown[i].Text = brief
			most -= need
		}
	}
	for i := range shown {
		s := &shown[i]
		for n := len(s.texts); s.Text != "" && n > 0; n-- {
			text := s.First(n)
			if more := len(text) - len(s.Text); more <= most {
				s.Text = text
				most -= more
				break
			}
		}
	}
	return shown
}

func (c Cause) proofBrief() string {
	if len(c.clauses) == 0 {
		return ""
	}
	return c.clauses[0].brief
}
