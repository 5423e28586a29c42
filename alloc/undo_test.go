// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// dump writes everything that a search may change, with nothing left out that
// could tell two states apart.
func dump(s *state) string {
	var text strings.Builder
	fmt.Fprintf(&text, "trail %d free %v used %v picked %v shared %v devices %v", len(s.trail), s.free, s.used, s.picked, s.shared, s.devices)
	for i, groups := range s.groups {
		fmt.Fprintf(&text, "\ngroups %d: %t %v", i, groups == nil, groups)
	}
	for i, limit := range s.limits {
		fmt.Fprintf(&text, "\nlimit %d: %t %v", i, limit == nil, limit)
	}
	for i, ask := range s.asks {
		fmt.Fprintf(&text, "\nrequest %d: %p open %v", i, ask, s.open[i])
	}
	for _, c := range s.chosen {
		fmt.Fprintf(&text, "\nchosen %p %d", c.field, c.unit)
	}
	fmt.Fprintf(&text, "\nboard %v", s.board.free)
	for _, f := range s.board.fields {
		fmt.Fprintf(&text, " %v", f.open)
	}
	return text.String()
}

// walk changes a state at random and remembers what it looked like at each mark.
type walk struct {
	*search
	random *rand.Rand
	marks  []mark
	dumps  []string
}

// TestUndoRestores goes back and forth at random and compares the whole state
// with what it was at the mark, after every step back.
func TestUndoRestores(t *testing.T) {
	taken, undone := 0, 0
	for seed := range uint64(1500) {
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
		walk := &walk{search: newSearch(b, 100_000), random: rand.New(rand.NewPCG(seed, 3))}
		walk.order = natural(len(b.problem.requests))
		for range 60 {
			walk.marks, walk.dumps = append(walk.marks, walk.state.mark()), append(walk.dumps, dump(walk.state))
			if walk.change() {
				taken++
			}
			walk.checkHaving(t, seed)
			if walk.random.IntN(3) > 0 {
				continue
			}
			undone++
			to := walk.random.IntN(len(walk.marks))
			walk.state.undo(walk.marks[to])
			if got := dump(walk.state); got != walk.dumps[to] {
				t.Fatalf("seed %d: undo does not restore the state:\n%s\nwas:\n%s", seed, got, walk.dumps[to])
			}
			walk.marks, walk.dumps = walk.marks[:to], walk.dumps[:to]
		}
	}
	t.Logf("%d devices taken, %d times undone", taken, undone)
	if taken < 10_000 {
		t.Errorf("only %d devices were taken", taken)
	}
}

// checkHaving asks what each request can have as things stand, which is remembered,
// also between searches on one board.
func (w *walk) checkHaving(t *testing.T, seed uint64) {
	other := newSearch(w.board, 1)
	for r, f := range w.state.asks {
		if f == nil {
			continue
		}
		if w.random.IntN(4) == 0 {
			other.state.fitting(f)
		}
		want := newBits(len(w.board.units))
		for i := range w.state.open[r].all() {
			if w.state.fits(f, i) {
				want.set(i)
			}
		}
		if got := w.bounds.having(f); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %s can have %v, want %v", seed, f.ref, got, want)
		}
	}
}

// change makes one random change. It reports whether it took a device.
func (w *walk) change() bool {
	r := w.random.IntN(len(w.problem.requests))
	f := w.state.asks[r]
	if f == nil {
		asks := w.problem.requests[r].asks
		w.state.choose(w.board.fields[asks[w.random.IntN(len(asks))].id])
		return false
	}
	unit := w.random.IntN(max(len(w.board.units), 1))
	switch {
	case !w.state.open[r].has(unit):
	case w.random.IntN(4) == 0:
		w.state.ban(r, unit)
	case w.state.fits(f, unit):
		w.state.take(f, unit)
		return true
	}
	return false
}

// TestLookingChangesNothing calls everything that works out something about a
// state, much of it by trying, and expects the state to be the same after.
func TestLookingChangesNothing(t *testing.T) {
	for seed := range uint64(600) {
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
		walk := &walk{search: newSearch(b, 100_000), random: rand.New(rand.NewPCG(seed, 5))}
		walk.order = natural(len(b.problem.requests))
		for _, r := range b.problem.requests {
			walk.state.choose(b.fields[r.asks[0].id])
		}
		for range 6 {
			before := dump(walk.state)
			for what, look := range map[string]func(){
				"refutedByCounting": func() { walk.refutedByCounting(0) },
				"packed":            func() { walk.bounds.packed(walk.state.asks[0]) },
				"candidates":        func() { walk.candidates(0, walk.state.asks[0], walk.state.asks[0].want) },
				"by cost":           func() { walk.scored = true; walk.candidates(0, walk.state.asks[0], walk.state.asks[0].want) },
				"classes":           func() { walk.memory.classes(0) },
				"recall":            func() { walk.memory.recall(walk.order, 1) },
				"cost":              func() { walk.scales.cost() },
				"possible":          func() { walk.possible(); walk.order = natural(len(b.problem.requests)) },
				"minimal": func() {
					(&explainer{problem: b.problem, board: b, meter: b.meter}).minimal(natural(len(walk.problem.requests)))
				},
			} {
				look()
				if after := dump(walk.state); after != before {
					t.Fatalf("seed %d: %s changes the state:\n%s\nwas:\n%s", seed, what, after, before)
				}
			}
			walk.change()
		}
	}
}

// TestNoLeavesNothingBehind expects the state after a refuted search to be that
// before.
func TestNoLeavesNothingBehind(t *testing.T) {
	refuted := 0
	for seed := range uint64(1500) {
		for _, strategy := range []Strategy{Listed, BestFit} {
			w := Generate(SeededBytes(seed), WithAll)
			problem, err := Compile(w.Claims, w.Class, tableMatcher{}, Options{Strategy: strategy, Containers: w.Containers})
			if err != nil {
				t.Fatal(err)
			}
			b := newBoard(problem, w.View())
			if err := b.completeAll(); err != nil {
				t.Fatal(err)
			}
			s := newSearch(b, DefaultStepBudget)
			before := dump(s.state)
			if s.solve() != no {
				continue
			}
			refuted++
			if after := dump(s.state); after != before {
				t.Fatalf("seed %d: %s leaves changes behind:\n%s\nwas:\n%s", seed, strategy, after, before)
			}
		}
	}
	t.Logf("%d refuted", refuted)
}
