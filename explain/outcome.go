// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"

	"kerf.dev/kerf/alloc"
)

// GaveUp is the reason of a node where the search ended before its time, with what
// most of the work went into.
func GaveUp(g *alloc.GaveUp) string {
	parts := spent(g.Spent)
	switch {
	case g.Before:
		return "not looked at: the search on other nodes used up what one attempt may take"
	case g.Stopped && parts != "":
		return fmt.Sprintf("gave up when the time for it was over (%s), not known to be impossible", parts)
	case g.Stopped:
		return "gave up when the time for it was over, not known to be impossible"
	case parts != "":
		return fmt.Sprintf("gave up after %s or as much other work (%s), not known to be impossible", Count(g.Budget, "step"), parts)
	}
	return fmt.Sprintf("gave up after %s, not known to be impossible", Count(g.Budget, "step"))
}

// spent names the two largest expenses with their parts.
func spent(bill []alloc.Spent) string {
	total := int64(0)
	for _, s := range bill {
		total += s.Work
	}
	var parts []string
	for _, s := range bill[:min(2, len(bill))] {
		if percent := s.Work * 100 / total; percent > 0 {
			parts = append(parts, fmt.Sprintf("%d%% %s", percent, s.On))
		}
	}
	return strings.Join(parts, ", ")
}

// Input says in one line what is wrong with a claim or class, and what to do.
func Input(e *alloc.InputError) string {
	text := fmt.Sprintf("%s: %s: %s", e.Object, e.Field, e.Problem)
	if e.Err != nil {
		text += ": " + Cut(e.Err.Error(), 160)
	}
	if e.Class != "" {
		text += "; create the class or correct the name"
	}
	return text
}

// Outcome is the reason why claims do not fit on a node, empty where they do.
func Outcome(out alloc.Outcome, o Options) string {
	cause, refused := OutcomeCause(out, o)
	if !refused {
		return ""
	}
	return cause.String()
}

// OutcomeCause is the cause that claims do not fit on a node; refused is false where
// they do.
func OutcomeCause(out alloc.Outcome, o Options) (cause Cause, refused bool) {
	switch {
	case out.Refusal != nil:
		return CauseOf(out.Refusal, o), true
	case out.GaveUp != nil:
		return Because(GaveUp(out.GaveUp)), true
	}
	return Cause{}, false
}
