// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

// foremostPart is the part of the budget that the first alternatives get before the
// others are looked at, where it is not small.
const foremostPart = 8

// within leaves a part of what may still be spent for a while, but not less than what most
// attempts need. The function that it returns ends that.
func (s *search) within(part int) (lift func()) {
	budget := s.budget
	s.budget = s.steps + (budget-s.steps)/part
	work := s.meter.within(max((s.meter.limit-s.meter.used)/int64(part), promptWork))
	return func() {
		s.budget = budget
		work()
	}
}

// foremost fills every request with its first alternative that can be had by
// itself. No other has better ranks, so that the others need not be judged where
// this succeeds.
func (s *search) foremost() verdict {
	for _, r := range s.problem.requests {
		f, v := s.firstPossible(r)
		if v != yes {
			s.state.undo(0)
			return v
		}
		s.state.choose(f)
	}
	s.bounds.forget()
	defer s.meter.turn(s.meter.turn(Trying))
	return s.unlessNo(s.place())
}

func (s *search) firstPossible(r *request) (*field, verdict) {
	for _, a := range r.asks {
		f := s.board.fields[a.id]
		if s.board.complete(f) != nil {
			return nil, unknown
		}
		if !f.impossible {
			return f, yes
		}
	}
	return nil, no
}

// ranked tries the alternatives of all requests.
func (s *search) ranked() verdict {
	if s.board.completeAll() != nil {
		return unknown
	}
	s.bounds.forget()
	if !s.settle(natural(len(s.problem.requests))) {
		return no
	}
	defer s.meter.turn(s.meter.turn(Trying))
	return s.unlessNo(s.rank(0))
}

// best finds the devices that cost least. Where that takes long, those of first fit
// are better than none; better ones are looked for once more if it was judging devices
// that took long.
func (s *search) best() verdict {
	lift := s.meter.within(promptWork)
	v := s.solve()
	lift()
	if v != unknown || s.spent() {
		return v
	}
	s.state.undo(0)
	if s.outnumbered() {
		return no
	}
	before, judged := s.meter.used, s.meter.judging()
	switch s.stroll() {
	case no:
		return no
	case unknown:
		return s.solve()
	}
	first := s.solution
	s.state.undo(0)
	if before-judged < promptWork/2 && s.board.judging() < promptWork {
		defer s.meter.within(promptWork + s.meter.used - before)()
		if s.solve() == yes {
			return yes
		}
		s.state.undo(0)
	}
	s.retake(first)
	return yes
}

// judging is the work of judging devices that is left for the first alternatives, to
// go by those that were judged up to now.
func (b *board) judging() int64 {
	left := map[*sight]bool{}
	for _, r := range b.problem.requests {
		if f := b.fields[r.asks[0].id]; !f.whole {
			left[f.sight] = true
		}
	}
	return b.meter.judgement(b.judgements) * int64(len(left)*len(b.units))
}

// stroll looks for what first fit finds: without taking anything back, and then with
// little effort.
func (s *search) stroll() verdict {
	left := s.meter.limit - s.meter.used
	lift := s.meter.within(left - left/strollRest)
	v, _ := s.walk(0)
	lift()
	if v != unknown || s.spent() {
		return v
	}
	defer s.meter.within(min(max(2*promptWork, s.meter.used), mostStrolling))()
	v, _ = s.walk(patience)
	return v
}

const (
	// strollRest is the part of the budget that first fit has to leave, while it takes
	// nothing back: it may be compiling many expressions that take most of it.
	strollRest = 8
	// mostStrolling is the work with which it may take something back.
	mostStrolling = leastWork / 2
)

// retake applies a solution that was found before.
func (s *search) retake(solution []choice) {
	for _, c := range solution {
		if s.state.asks[c.field.request] != c.field {
			s.state.choose(c.field)
		}
	}
	for _, c := range solution {
		s.state.take(c.field, c.unit)
	}
	s.solution = solution
}
