// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// A pod may have thousands of requests. Where the first claims cannot be satisfied, there
// is no need to look at the others.

const (
	// manyRequests is how many there are where the first claims are looked at before
	// all, firstClaims how many of these at most.
	manyRequests, firstClaims = 96, 8
)

// refutedEarly reports whether the requests of the first claims cannot be filled, for a
// reason that shows by counting: those of the first one, else those of twice as many.
// They are the suspects then, or those of one of the claims where that is enough.
func (s *search) refutedEarly() bool {
	if len(s.problem.requests) < manyRequests {
		return false
	}
	defer s.meter.within(promptWork)()
	sub := newSearch(s.board, 0)
	end := 0
	for claims := 1; claims <= firstClaims; claims *= 2 {
		before := end
		for ; end < len(s.problem.requests) && s.problem.requests[end].claim < claims; end++ {
			if !s.board.completeRequest(end) {
				return false
			}
			if s.board.impossibleAlone(s.problem.requests[end]) {
				return true
			}
		}
		if end == len(s.problem.requests) {
			return false // all are looked at anyway
		}
		if all := natural(end); sub.refutes(all) {
			s.suspects = sub.culprit(all, before)
			return true
		}
	}
	return false
}

// refutes reports whether counting shows that the requests do not go together.
func (s *search) refutes(requests []int) bool {
	defer s.state.undo(0)
	s.order = requests
	return len(requests) > 0 && s.settle(requests) && s.refutedByCounting(0) && !s.meter.out()
}

// culprit returns the requests of one claim that do not go together, from a request on,
// or all where there is none.
func (s *search) culprit(all []int, from int) []int {
	for end := from; from < len(all); from = end {
		for end < len(all) && s.problem.requests[end].claim == s.problem.requests[from].claim {
			end++
		}
		if own := all[from:end]; s.refutes(own) {
			return own
		}
	}
	return all
}

// outnumbered reports whether fewer devices are free than the requests want at least,
// whatever their selectors match. As many of the first requests as that takes are the
// suspects then.
func (s *search) outnumbered() bool {
	s.meter.pay(len(s.board.units) + len(s.problem.asks))
	if slices.ContainsFunc(s.board.units, func(u unit) bool { return u.multi }) {
		return false
	}
	left := s.board.unheld()
	for r, of := range s.problem.requests {
		if left -= of.least(); left < 0 {
			s.suspects = natural(r + 1)
			return true
		}
	}
	return false
}

// unheld counts the units that nobody has.
func (b *board) unheld() int {
	n := 0
	for i := range b.units {
		if !b.units[i].held {
			n++
		}
	}
	return n
}

// explainOutnumbered says so of suspects that there was no time to judge.
func (e *explainer) explainOutnumbered() Conflict {
	c := Conflict{Kind: Shared, Have: e.board.unheld()}
	for _, r := range e.suspects {
		c.Need += e.problem.requests[r].least()
	}
	return c
}

// least is how many devices a request takes from all others at least. Of those for all
// devices nobody knows yet.
func (r *request) least() int {
	least := resourceapi.AllocationResultsMaxSize
	for _, a := range r.asks {
		if a.admin || a.all {
			return 0
		}
		least = min(least, a.count)
	}
	return least
}

// completeRequest judges all units for all alternatives of a request, if there is work
// enough.
func (b *board) completeRequest(r int) bool {
	for _, a := range b.problem.requests[r].asks {
		if b.complete(b.fields[a.id]) != nil {
			return false
		}
	}
	return true
}
