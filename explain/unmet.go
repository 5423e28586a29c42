// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
)

// unmet says in brackets what the selectors of a request ask for that the devices of its
// class, or the others of them, do not have; it is empty where that is not known.
func unmet(r *alloc.RequestReport, whose string) string {
	var texts []string
	for i := range r.Unmet {
		u := &r.Unmet[i]
		if len(u.Have) == 0 && failsFor(r, short(string(u.Name))) {
			continue // the failure says it
		}
		texts = append(texts, askedAndThere(u))
	}
	if len(texts) == 0 {
		return ""
	}
	return " (" + whose + strings.Join(texts, "; ") + ")"
}

// failsFor reports whether a selector failed for want of an attribute or capacity.
func failsFor(r *alloc.RequestReport, id string) bool {
	return slices.ContainsFunc(r.SelectorErrors, func(e alloc.SelectorError) bool { return missingKey(e.Err) == id })
}

// askedBy says what is asked with each operator before the value, and what there is behind it.
var askedBy = map[inventory.Operator]struct{ asked, there string }{
	inventory.Equal:          {"", " there"},
	inventory.NotEqual:       {"other than ", " there"},
	inventory.Less:           {"less than ", " at least"},
	inventory.LessOrEqual:    {"at most ", " at least"},
	inventory.Greater:        {"more than ", " at most"},
	inventory.GreaterOrEqual: {"", " at most"},
}

// askedAndThere is "gpu.example.com/memory: 16Gi asked, 8Gi at most".
func askedAndThere(u *alloc.Unmet) string {
	words := askedBy[u.Operator]
	var values []string
	for _, v := range u.Values {
		values = append(values, Value(v.String()))
	}
	asked := List(values)
	if n := len(values); n > 1 && n <= Listed+1 {
		asked = strings.Join(values[:n-1], ", ") + " or " + values[n-1]
	}
	there := ListAnd(Values(u.Have)) + words.there
	if len(u.Have) == 0 {
		there = "no device has it"
	}
	text := fmt.Sprintf("%s: %s%s asked, %s", u.Name, words.asked, asked, there)
	if u.Rest > 0 {
		text += fmt.Sprintf(" of the %d that %s the rest", u.Rest, Verb(u.Rest, "meets", "meet"))
	}
	return text
}
