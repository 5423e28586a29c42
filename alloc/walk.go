// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"errors"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// walker fills the requests one after the other, each with the first devices in
// listed order that fit, and goes back where that leads nowhere: what the stock
// allocator does. It looks at no more devices than that takes, and it comes
// across errors where the stock allocator does.
type walker struct {
	*search
	// patience is how many choices may still be taken back.
	patience int
}

// crowded is the verdict on an alternative that wants more devices than its
// claim can still have. Other devices for the requests before it do not help.
const crowded verdict = unknown + 1

// walk says yes with the first solution in listed order applied, no where there
// is none, and unknown, with everything as before, where it would have to take
// back more choices than that.
func (s *search) walk(patience int) (verdict, error) {
	defer s.meter.turn(s.meter.turn(Trying))
	w := &walker{search: s, patience: patience}
	v, err := w.from(0)
	if errors.Is(err, errSpent) {
		v, err = unknown, nil
	}
	if v != yes || err != nil {
		s.state.undo(0)
	}
	return v, err
}

// from fills the requests from r on, with the alternatives in rank order.
func (w *walker) from(r int) (verdict, error) {
	if r == len(w.problem.requests) {
		w.solution = slices.Clone(w.state.chosen)
		return yes, nil
	}
	all := crowded
	for _, a := range w.problem.requests[r].asks {
		m, steps := w.state.mark(), w.steps
		v, err := w.ask(w.board.fields[a.id])
		if v == yes || v == unknown || err != nil {
			return v, err
		}
		w.state.undo(m)
		if w.steps > steps {
			if w.patience--; w.patience < 0 {
				return unknown, nil
			}
		}
		if v == no {
			all = no
		}
	}
	if r > 0 && w.problem.requests[r-1].claim != w.problem.requests[r].claim {
		return no, nil // another claim can have as many devices as before
	}
	return all, nil
}

func (w *walker) ask(f *field) (verdict, error) {
	if f.all {
		if err := w.board.complete(f); err != nil || f.matching == 0 || w.board.unknownForAll(f.ask) != nil {
			return w.unless(no), err
		}
	}
	if w.state.devices[f.claim]+f.want > resourceapi.AllocationResultsMaxSize {
		return crowded, nil
	}
	w.state.choose(f)
	if f.all {
		return w.all(f, 0)
	}
	return w.pick(f, f.want, 0)
}

// pick fills an ask with devices from the i-th on.
func (w *walker) pick(f *field, missing, i int) (verdict, error) {
	if missing == 0 {
		return w.from(f.request + 1)
	}
	for ; i < len(w.board.units); i++ {
		if w.meter.out() {
			return unknown, nil
		}
		if w.inUse(f, i) {
			w.meter.pay(1)
			continue // cheap to find out, so that selectors need not be asked
		}
		if fits, err := w.usable(f, i); err != nil {
			return no, err
		} else if !fits {
			continue
		}
		if !w.step() {
			return unknown, nil
		}
		m := w.state.mark()
		w.state.take(f, i)
		v, err := w.pick(f, missing-1, i+1)
		if v != no || err != nil {
			return v, err
		}
		w.state.undo(m)
		if w.patience--; w.patience < 0 {
			return unknown, nil
		}
	}
	return w.unless(no), nil
}

// unless returns what was found out, unless the budget ended meanwhile.
func (w *walker) unless(v verdict) verdict {
	if w.meter.out() {
		return unknown
	}
	return v
}

// all takes the devices of a request for all from the i-th on. One that cannot
// be had ends the attempt.
func (w *walker) all(f *field, i int) (verdict, error) {
	for ; i < len(w.board.units); i++ {
		if w.meter.out() {
			return unknown, nil
		}
		if f.stages[i] <= StageSelector || !w.board.countsForAll(f, i) {
			continue
		}
		if f.stages[i] < StageCapacity || w.inUse(f, i) || f.occupies && !w.state.paid(i) && !w.state.admits(&w.board.units[i]) {
			return no, nil
		}
		// What is left of capacities comes last, as with the stock allocator.
		if meets, err := w.meets(f, i); err != nil || !meets {
			if err == nil {
				err = w.problem.reading.keptOut(f, w.board.units[i].dev)
			}
			return no, err
		}
		if f.stages[i] < StageConstraints || f.occupies && !w.state.hasRoom(f, i) || !w.state.nodeHolds(f, i) {
			return no, nil
		}
		if !w.step() {
			return unknown, nil
		}
		w.state.take(f, i)
	}
	return w.from(f.request + 1)
}

// inUse reports whether other claims, or other requests, have the unit.
func (w *walker) inUse(f *field, i int) bool {
	u := &w.board.units[i]
	return u.dismissed && !f.admin || !u.multi && (w.state.picked[f.claim].has(i) || !f.admin && w.state.used.has(i))
}

// usable reports whether the ask can have the unit, which is not in use.
func (w *walker) usable(f *field, i int) (bool, error) {
	if f.stages == nil || f.stages[i] == StageDevices {
		from := w.meter.turn(Judging)
		w.board.judge(f, i)
		w.meter.turn(from)
	}
	if fault, found := f.faults[i]; found && fault.limit < 0 {
		return false, fault.err
	}
	if f.stages[i] < StageConstraints || f.occupies && !w.state.affords(f, i) || !w.state.nodeHolds(f, i) {
		return false, nil
	}
	return w.meets(f, i)
}

// meets reports whether the constraints admit the unit, asking one after the
// other.
func (w *walker) meets(f *field, i int) (bool, error) {
	for k, c := range f.limits {
		if fault, found := f.faults[i]; found && fault.limit == k {
			return false, fault.err
		}
		w.meter.pay(1 + len(f.values[k][i])/4)
		if f.values[k][i] == nil || !w.state.allows(c, f.values[k][i]) {
			return false, nil
		}
	}
	return true, nil
}
