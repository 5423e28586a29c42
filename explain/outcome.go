// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"

	"kerf.dev/kerf/alloc"
)

// GaveUp is the reason of a node where the search ended before its time.
func GaveUp(g *alloc.GaveUp) string {
	return fmt.Sprintf("gave up after %s, not known to be impossible", count(g.Budget, "step"))
}

// Input says in one line what is wrong with a claim or class, and what to do.
func Input(e *alloc.InputError) string {
	text := fmt.Sprintf("%s: %s: %s", e.Object, e.Field, e.Problem)
	if e.Err != nil {
		text += ": " + cut(e.Err.Error(), 160)
	}
	if e.Class != "" {
		text += "; create the class or correct the name"
	}
	return text
}

// Outcome is the reason why claims do not fit on a node, empty where they do.
func Outcome(out alloc.Outcome, o Options) string {
	switch {
	case out.Refusal != nil:
		return Reason(out.Refusal, o)
	case out.GaveUp != nil:
		return GaveUp(out.GaveUp)
	}
	return ""
}
