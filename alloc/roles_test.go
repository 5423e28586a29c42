// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"
	"strings"
	"testing"
)

// TestEqualRolesAreEqual compares fingerprints of devices with the same written
// out. A search skips a device if one with its fingerprint failed, so devices that
// differ in anything must differ in it.
func TestEqualRolesAreEqual(t *testing.T) {
	equal := 0
	for seed := range uint64(6000) {
		w := Generate(SeededBytes(seed), WithAll)
		problem, err := Compile(w.Claims, w.Class, tableMatcher{}, Options{Containers: w.Containers})
		if err != nil {
			t.Fatal(err)
		}
		b := newBoard(problem, w.View())
		if len(b.problem.requests) == 0 {
			continue
		}
		if err := b.completeAll(); err != nil {
			t.Fatal(err)
		}
		s := newSearch(b, 1000)
		s.memory.prepareRoles()
		known := map[fingerprint]string{}
		for i := range s.board.units {
			text, role := roleText(s, i), s.memory.roles[i]
			if other, found := known[role]; found {
				equal++
				if other != text {
					t.Errorf("seed %d: one fingerprint for\n%s\nand\n%s", seed, other, text)
				}
			}
			known[role] = text
		}
	}
	if equal < 1000 {
		t.Errorf("only %d devices were equal to another", equal)
	}
}

// roleText is what distinguishes a device for the problem at hand.
func roleText(s *search, i int) string {
	u := &s.board.units[i]
	var text strings.Builder
	fmt.Fprintf(&text, "multi %t", u.multi)
	for _, f := range s.board.fields {
		if !f.open.has(i) {
			text.WriteString(" closed")
			continue
		}
		text.WriteString(" open")
		for k := range f.limits {
			fmt.Fprintf(&text, " values %v", f.values[k][i])
		}
		fmt.Fprintf(&text, " consumes %v", f.consumedOf(i))
	}
	for _, d := range u.draws {
		c := s.board.counters[d.Counter]
		fmt.Fprintf(&text, " draws %v of %s %s", d.Amount, s.board.setRole(c.set), c.name)
	}
	for _, g := range u.sets {
		fmt.Fprintf(&text, " groups %v of %s", g.groups, s.board.setRole(g.set))
	}
	return text.String()
}
