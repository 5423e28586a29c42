// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"slices"
)

// hopeless looks ahead as far as that is worth the effort by now, and reports
// whether nothing can come of it.
func (s *search) hopeless(level, missing int) bool {
	defer s.meter.turn(s.meter.turn(Counting))
	late := s.steps >= memoryAfter
	return s.state.outlook == nil && (s.hard || late) && s.foresee(level, missing) || late && s.groupImpossible()
}

// foresee makes an outlook, and reports whether it is hopeless.
func (s *search) foresee(level, missing int) bool {
	o := s.bounds.outlook(s.order[level:])
	if o == nil {
		return false
	}
	s.state.lookOut(o)
	return s.starved(level, missing)
}

// narrow brings the outlook up to date after the unit was taken.
func (s *search) narrow(i int) {
	for at, d := range s.state.outlook.demands {
		if c := s.board.units[i].component; c >= 0 {
			s.state.narrow(at, c, s.bounds.mostIn(d.lead, c))
		}
		if all := len(s.board.members); s.board.alone(i) {
			s.state.narrow(at, all, s.bounds.mostIn(d.lead, all))
		}
	}
}

// starved reports whether some demand cannot be met any more, or all together
// not, with so many devices missing for the level's own ask.
func (s *search) starved(level, missing int) bool {
	o := s.state.outlook
	need := make([]int, len(o.demands))
	s.meter.pay(len(need) + len(s.order) - level)
	for k, r := range s.order[level:] {
		f := s.state.asks[r]
		if o.of[r] < 0 {
			continue
		}
		want := f.want
		if k == 0 {
			want = missing
		}
		at := o.of[r]
		if need[at] += want; need[at] > o.demands[at].sum {
			return true
		}
	}
	return !s.meter.out() && (s.bounds.drained(o, need) || s.bounds.conflicting(o, need) || s.scarce(level, missing))
}

// scarce reports whether devices do not go round any more. That takes longer to
// find out than most problems take to solve, and is given up where it is of no use.
func (s *search) scarce(level, missing int) bool {
	if s.steps < memoryAfter || s.scarcity.asked > memoryAfter && s.scarcity.found < s.scarcity.asked/8 {
		return false
	}
	rest := s.bounds.rest(s.order[level:])
	still := wants(rest)
	still[0] = missing
	s.scarcity.asked++
	if !s.bounds.overbooked(rest, still) && s.bounds.undivided(rest, still) == nil {
		return false
	}
	s.scarcity.found++
	return true
}

// groupEffort bounds the steps spent on one group of requests by itself.
const groupEffort = 500

// groupImpossible reports whether requests that constraints tie together, but not
// to all others, cannot be satisfied even by themselves. Where they come last, the
// search would find out again for every choice of devices for the others.
func (s *search) groupImpossible() bool {
	if s.doomed || s.sound == len(s.order) {
		return s.doomed
	}
	s.sound = len(s.order)
	for _, group := range s.tiedGroups() {
		judged := !slices.ContainsFunc(group, func(r int) bool { return !s.board.judged(s.problem.requests[r]) })
		if judged && len(group) < len(s.order) && newSearch(s.board, min(groupEffort, s.budget)).solveListed(group) == no {
			s.doomed = true
		}
	}
	return s.doomed
}

// tiedGroups lists the groups of requests that constraints tie together, without
// those that no constraint applies to.
func (s *search) tiedGroups() [][]int {
	var groups [][]int
	for c := range s.problem.constraints {
		if s.meter.out() {
			return nil
		}
		var tied []int
		for _, r := range s.order {
			if s.problem.tied[c].has(r) {
				tied = append(tied, r)
			}
		}
		s.meter.pay(8 * (len(s.order) + len(tied)))
		groups = slices.DeleteFunc(groups, func(other []int) bool {
			s.meter.pay(len(other) * len(tied))
			meets := slices.ContainsFunc(other, func(r int) bool { return slices.Contains(tied, r) })
			if meets {
				tied = append(tied, other...)
			}
			return meets
		})
		slices.Sort(tied)
		if tied = slices.Compact(tied); len(tied) > 0 {
			groups = append(groups, tied)
		}
	}
	return groups
}
