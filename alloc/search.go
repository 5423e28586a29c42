// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"cmp"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// verdict is what is known about a part of the problem.
type verdict int8

const (
	no verdict = iota // proven impossible
	yes
	unknown // the budget ended
)

// search looks for a solution on a board: it branches, and takes back. Which choice is next
// and when to look ahead depend on each other, so all that branches is here, in best.go,
// foresight.go and foremost.go; what only judges a state is in its parts.
type search struct {
	problem *Problem
	board   *board
	meter   *meter
	// state is changed here alone, others see it as a [position]: bounds refute, memory
	// recognises, scales rank.
	state  *state
	bounds *bounds
	memory *memory
	scales scales
	// steps are the devices tried, budget how many may be. The meter counts all
	// other work.
	steps, budget int
	// order lists the requests in the order in which they are filled. Levels
	// are positions in it.
	order []int
	// later: the first alternatives of all requests together are known to lead nowhere,
	// or not soon.
	later bool
	// hard: the first devices that fit are known to lead nowhere.
	hard bool
	// doomed: some requests are known to be impossible by themselves, sound that
	// so many have been looked at.
	doomed bool
	sound  int
	// suspects are requests that are known not to go together, nil where none in
	// particular are.
	suspects []int
	// scarcity counts how often devices were found not to go round, and how
	// often it was asked.
	scarcity struct{ found, asked int }
	// scored orders candidates by cost instead of listed order.
	scored bool
	// solution has the choices of the last yes.
	solution []choice
}

func newSearch(b *board, budget int) *search {
	s := newState(b)
	bounds := newBounds(s)
	return &search{problem: b.problem, board: b, meter: b.meter, state: s, bounds: bounds, memory: bounds.memory, scales: newScales(s), budget: budget}
}

// solve leaves the state with the solution applied when it says yes, and as it
// was when it says no.
func (s *search) solve() verdict {
	if s.problem.options.Strategy == Listed {
		if s.board.completeAll() != nil {
			return unknown
		}
		return s.solveListed(natural(len(s.problem.requests)))
	}
	if len(s.problem.requests) == len(s.problem.asks) {
		return s.foremost()
	}
	if !s.later {
		lift := s.within(foremostPart)
		v := s.foremost()
		lift()
		if v == yes || v == no && slices.ContainsFunc(s.problem.requests, s.board.impossibleAlone) {
			return v
		}
		s.state.undo(0)
		if s.spent() {
			return unknown
		}
		s.later = true
	}
	return s.ranked()
}

// spent reports whether the budget is used up.
func (s *search) spent() bool { return s.steps >= s.budget || s.meter.out() }

// solveListed fills the requests in the given order with the first devices that
// do.
func (s *search) solveListed(order []int) verdict {
	if !s.settle(order) {
		return no
	}
	defer s.meter.turn(s.meter.turn(Trying))
	s.order = order
	return s.unlessNo(s.fill(0))
}

// unlessNo keeps what was done, unless nothing came of it.
func (s *search) unlessNo(v verdict) verdict {
	if v == no {
		s.state.undo(0)
	}
	return v
}

// settle chooses for each of the requests the only alternative, or what stands
// for them all, so that counting can take every request into account. It reports
// whether each can be satisfied by itself.
func (s *search) settle(requests []int) bool {
	for _, r := range requests {
		f := s.board.fields[s.problem.requests[r].asks[0].id]
		if len(s.problem.requests[r].asks) > 1 {
			f = s.board.relaxation(s.problem.requests[r])
		}
		if f == nil || f.impossible {
			s.state.undo(0)
			return false
		}
		s.state.choose(f)
	}
	return true
}

func natural(n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	return order
}

// rank chooses alternatives, the best ranks of the first requests first, and
// then devices for them. A choice is only kept if devices exist for it and for
// some alternatives of the requests after it.
func (s *search) rank(r int) verdict {
	for r < len(s.problem.requests) && len(s.problem.requests[r].asks) == 1 {
		r++
	}
	if r == len(s.problem.requests) {
		return s.place()
	}
	for _, a := range s.problem.requests[r].asks {
		f := s.board.fields[a.id]
		if f.impossible {
			continue
		}
		m := s.state.mark()
		s.state.choose(f)
		v := s.possible()
		if v == yes {
			v = s.rank(r + 1)
		}
		if v != no {
			return v
		}
		s.state.undo(m)
	}
	return no
}

// possible reports whether devices exist for what is chosen and for what is not.
func (s *search) possible() verdict {
	if s.meter.out() {
		return unknown
	}
	m := s.state.mark()
	defer s.state.undo(m)
	s.order, s.scored = s.scarcest(), false
	return s.fill(0)
}

// place finds devices for the chosen alternatives: those that the scores lead
// to, unless plain first fit happens to cost less.
func (s *search) place() verdict {
	m := s.state.mark()
	s.order, s.scored = s.scarcest(), true
	v := s.fill(0)
	if v != yes || s.problem.options.Strategy != BestFit || len(s.state.chosen) == 1 || !slices.ContainsFunc(s.state.asks, costly) {
		return v
	}
	scored, cost := s.solution, s.scales.cost()
	s.state.undo(m)
	if s.firstFit() != yes || s.scales.cost().Compare(cost) >= 0 {
		s.state.undo(m)
		for _, c := range scored {
			s.state.take(c.field, c.unit)
		}
		s.solution = scored
	}
	return yes
}

// costly reports whether it matters for the cost which candidates an ask gets.
func costly(f *field) bool { return !f.plain }

// firstFitEffort is how much more first fit may try than it took to find the
// solution that it is compared with.
const firstFitEffort = 4

// firstFit fills the chosen alternatives in listed order.
func (s *search) firstFit() verdict {
	s.order, s.scored = natural(len(s.problem.requests)), false
	budget, lift := s.budget, s.meter.within(firstFitEffort*s.meter.used)
	defer func() {
		s.budget = budget
		lift()
	}()
	s.budget = min(budget, s.steps*(1+firstFitEffort)+memoryAfter)
	return s.fill(0)
}

// scarcest orders the requests: those without a choice, then those for the largest
// devices, then those with the least choice. Undecided ones come last.
func (s *search) scarcest() []int {
	order := natural(len(s.problem.requests))
	slices.SortStableFunc(order, func(a, b int) int {
		f, g := s.state.asks[a], s.state.asks[b]
		if f.undecided() != g.undecided() {
			return map[bool]int{true: 1, false: -1}[f.undecided()]
		}
		if f.all != g.all {
			return map[bool]int{true: -1, false: 1}[f.all]
		}
		return cmp.Or(cmp.Compare(g.size, f.size), cmp.Compare(f.n-f.want, g.n-g.want))
	})
	return order
}

// fill finds devices for the requests from the level on. What the end of the budget
// cut short is not known to be impossible.
func (s *search) fill(level int) verdict {
	v := s.fillFrom(level)
	if v == no && s.meter.out() {
		return unknown
	}
	return v
}

func (s *search) fillFrom(level int) verdict {
	if level == len(s.order) {
		s.solution = slices.Clone(s.state.chosen)
		return yes
	}
	r := s.order[level]
	if f := s.state.asks[r]; !f.undecided() {
		return s.fillAsk(level, f)
	}
	for _, a := range s.problem.requests[r].asks {
		f := s.board.fields[a.id]
		if f.impossible {
			continue
		}
		m := s.state.mark()
		s.state.choose(f)
		if v := s.fillAsk(level, f); v != no {
			return v
		}
		s.state.undo(m)
	}
	return no
}

func (s *search) fillAsk(level int, f *field) verdict {
	switch {
	case s.state.devices[f.claim]+f.want > resourceapi.AllocationResultsMaxSize:
		return no
	case s.meter.out():
		return unknown
	case s.refutedByCounting(level):
		return no
	case f.all:
		return s.takeAll(level, f)
	}
	return s.pick(level, f, f.want)
}

// refutedByCounting reports whether bounds refute the requests from the level on.
func (s *search) refutedByCounting(level int) bool {
	return s.bounds.refute(s.order[level:], level == 0 || len(s.problem.requests[s.order[level]].asks) > 1)
}

// step counts one more device that is tried; false means to give up.
func (s *search) step() bool {
	if s.spent() {
		return false
	}
	s.steps++
	return true
}

// takeAll takes every device of an All request; there is nothing to choose.
func (s *search) takeAll(level int, f *field) verdict {
	m := s.state.mark()
	for i := range f.open.all() {
		if !s.step() {
			return unknown
		}
		if !s.state.fits(f, i) {
			s.state.undo(m)
			return no
		}
		s.state.take(f, i)
	}
	v := s.fill(level + 1)
	if v == no {
		s.state.undo(m)
	}
	return v
}

// memoryAfter is the number of steps from which on states are remembered.
// Most problems are solved before that, and remembering costs time.
const memoryAfter = 32

// recall reports whether the state is known to be hopeless; its fingerprint is empty where
// it is not worth to be remembered.
func (s *search) recall(level, missing int) (key fingerprint, hopeless bool) {
	if s.steps < memoryAfter {
		return fingerprint{}, false
	}
	return s.memory.recall(s.order[level:], missing)
}

// pick chooses the missing devices of an ask. Each candidate is tried, then set
// aside together with those equal to it: what fails with one of them fails with
// all.
func (s *search) pick(level int, f *field, missing int) verdict {
	if missing == 0 {
		return s.fill(level + 1)
	}
	candidates := s.candidates(level, f, missing)
	if len(candidates) < missing || s.doomed {
		return no
	}
	key, hopeless := s.recall(level, missing)
	if hopeless {
		return no
	}
	start := s.state.mark()
	if s.hopeless(level, missing) {
		s.state.undo(start)
		s.memory.remember(key)
		return no
	}
	if s.meter.out() {
		return unknown
	}
	failed := map[fingerprint]bool{}
	var classes []fingerprint
	for n, i := range candidates {
		if len(candidates)-n < missing || s.doomed {
			break
		}
		if len(failed) > 0 && failed[classes[i]] {
			s.state.ban(f.request, i)
			continue
		}
		if !s.step() {
			return unknown
		}
		m := s.state.mark()
		if v := s.pickWith(level, f, i, missing-1); v != no {
			return v
		}
		s.state.undo(m)
		if classes == nil {
			classes = s.memory.classes(f.request)
		}
		if s.meter.out() {
			return unknown
		}
		failed[classes[i]] = true
		s.state.ban(f.request, i)
	}
	if s.meter.out() {
		return unknown
	}
	s.state.undo(start)
	s.memory.remember(key)
	return no
}

// pickWith chooses the missing devices beside a unit.
func (s *search) pickWith(level int, f *field, i, missing int) verdict {
	if !s.takeOpen(level, f, i, missing) {
		return no
	}
	return s.pick(level, f, missing)
}

// takeOpen takes a unit and reports whether, as far as can be foreseen, the rest
// can still be had.
func (s *search) takeOpen(level int, f *field, i, missing int) bool {
	s.state.take(f, i)
	if s.state.outlook == nil {
		return true
	}
	s.narrow(i)
	return !s.starved(level, missing)
}

// candidates lists the units that the ask can still have, the most promising
// first, without those whose attribute values cannot lead to a solution.
func (s *search) candidates(level int, f *field, missing int) []int {
	var list []int
	s.meter.payBytes(8 * f.n)
	for i := range s.state.open[f.request].all() {
		if s.state.fits(f, i) {
			list = append(list, i)
		}
	}
	list = s.bounds.viable(s.order[level+1:], f, missing, list)
	if s.scored && len(list) > 1 {
		s.scales.byCost(f, missing, list)
	}
	return list
}
