// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"kerf.dev/kerf/explain"
)

// TestWithin: whatever the room, no more of it is used, and what there is room for is told.
func TestWithin(t *testing.T) {
	causes := map[string]explain.Cause{}
	for i := range 40 {
		causes[fmt.Sprintf("n%02d", i)] = explain.Because(fmt.Sprintf("reason %d: %s", i/2, strings.Repeat("ä", i)))
	}
	const everyLine = 10
	told := 0
	for most := range 2500 {
		used, nodes, n := 0, 0, 0
		for _, s := range explain.Within(causes, most, everyLine) {
			nodes += len(s.Nodes)
			if s.Text == "" {
				continue
			}
			n++
			used += everyLine + len(s.Text)
			if !utf8.ValidString(s.Text) {
				t.Fatalf("%d bytes: %q is no text", most, s.Text)
			}
			if s.Text != s.Reason && n > 1 {
				t.Errorf("%d bytes: half a sentence after the first: %q of %q", most, s.Text, s.Reason)
			}
		}
		if used > most || nodes != len(causes) {
			t.Errorf("%d bytes: %d are used, for %d nodes of %d", most, used, nodes, len(causes))
		}
		if most > 60 && n == 0 {
			t.Errorf("%d bytes: nothing is told", most)
		}
		told = max(told, n)
	}
	if told != 40 {
		t.Errorf("with enough room %d of 40 reasons are told", told)
	}
}
