// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"kerf.dev/kerf/inventory"
)

// state is everything that changes during a search. It changes only through
// its methods, which log the old value on the trail; undo goes back to any
// earlier mark. There is no other way to take something back.
type state struct {
	problem *Problem
	board   *board
	meter   *meter
	free    []inventory.Amount
	// groups in common per counter set, nil for everything.
	groups [][]int32
	// used units cannot be given out again; picked says so per claim.
	used   bits
	picked []bits
	// shared counts the shares of a unit handed out by this search.
	shared []int
	// limits is the state of each constraint: the values that all devices so
	// far have in common (nil: no device yet), or for distinct constraints
	// those spent.
	limits []bits
	// asks is the chosen alternative of each request, or what stands for all of
	// them; nil where neither is known yet.
	asks []*field
	// open are the candidates that are still worth trying per request.
	open []bits
	// moment stands for what was chosen: it changes when something is taken or given
	// back, and no other state has the same.
	moment int
	// devices counts the devices chosen per claim.
	devices []int
	// chosen lists the choices in order.
	chosen []choice
	// outlook bounds the rest; nil until it is worth the effort.
	outlook *outlook
	trail   []change
}

// choice is a unit given to an ask.
type choice struct {
	field *field
	unit  int
}

// change is an entry of the trail: what was before.
type change struct {
	kind    changeKind
	at      int
	claim   int
	old     int
	amount  inventory.Amount
	set     bits
	groups  []int32
	field   *field
	outlook *outlook
}

type changeKind uint8

const (
	changedFree changeKind = iota
	changedGroups
	changedUsed
	changedPicked
	changedShared
	changedLimit
	changedAsk
	changedOpen
	changedBan
	changedDevices
	changedChosen
	changedOutlook
	changedMost
)

func newState(b *board) *state {
	b.meter.payBytes(stateBytes + len(b.free)*24 + len(b.sets)*24 + len(b.units)*(8+(len(b.problem.claims)+1)/8) + (len(b.problem.constraints)+3*len(b.problem.requests))*24)
	s := &state{
		problem: b.problem, board: b, meter: b.meter, free: append([]inventory.Amount(nil), b.free...), groups: make([][]int32, len(b.sets)),
		used: newBits(len(b.units)), shared: make([]int, len(b.units)), limits: make([]bits, len(b.problem.constraints)),
		asks: make([]*field, len(b.problem.requests)), open: make([]bits, len(b.problem.requests)), devices: make([]int, len(b.problem.claims)),
	}
	for i := range b.sets {
		s.groups[i] = b.sets[i].groups
	}
	s.trail = make([]change, 0, 32)
	s.pass()
	for range b.problem.claims {
		s.picked = append(s.picked, newBits(len(b.units)))
	}
	return s
}

// stateBytes is what a state takes whatever the problem.
const stateBytes = 512

// pass begins another moment.
func (s *state) pass() {
	s.board.moments++
	s.moment = s.board.moments
}

// mark is a point of the trail to go back to.
type mark int

func (s *state) mark() mark { return mark(len(s.trail)) }

// undo restores the state at the mark, last change first.
func (s *state) undo(m mark) {
	s.pass()
	for len(s.trail) > int(m) {
		c := &s.trail[len(s.trail)-1]
		switch c.kind {
		case changedFree:
			s.free[c.at] = c.amount
		case changedGroups:
			s.groups[c.at] = c.groups
		case changedUsed:
			s.used.clear(c.at)
		case changedPicked:
			s.picked[c.claim].clear(c.at)
		case changedShared:
			s.shared[c.at]--
		case changedLimit:
			s.limits[c.at] = c.set
		case changedAsk:
			s.asks[c.at] = c.field
		case changedOpen:
			s.open[c.at] = c.set
		case changedBan:
			s.open[c.claim].set(c.at)
		case changedDevices:
			s.devices[c.at]--
		case changedChosen:
			s.chosen = s.chosen[:len(s.chosen)-1]
		case changedOutlook:
			s.outlook = c.outlook
		case changedMost:
			s.outlook.demands[c.claim].set(c.at, c.old)
		}
		s.trail = s.trail[:len(s.trail)-1]
	}
}

// choose settles on an alternative of its request.
func (s *state) choose(f *field) {
	s.trail = append(s.trail,
		change{kind: changedAsk, at: f.request, field: s.asks[f.request]},
		change{kind: changedOpen, at: f.request, set: s.open[f.request]})
	s.meter.payBytes(2*changeBytes + 8*len(f.open))
	s.asks[f.request] = f
	s.open[f.request] = f.open.clone()
}

// changeBytes is what an entry of the trail takes.
const changeBytes = 128

// lookOut goes on with an outlook.
func (s *state) lookOut(o *outlook) {
	s.trail = append(s.trail, change{kind: changedOutlook, outlook: s.outlook})
	s.outlook = o
}

// narrow sets a bound of the outlook.
func (s *state) narrow(demand, c, most int) {
	if d := &s.outlook.demands[demand]; most != d.most[c] {
		s.trail = append(s.trail, change{kind: changedMost, at: c, claim: demand, old: d.most[c]})
		d.set(c, most)
	}
}

// ban takes a unit out of a request's candidates.
func (s *state) ban(request, u int) {
	if s.open[request].has(u) {
		s.open[request].clear(u)
		s.trail = append(s.trail, change{kind: changedBan, at: u, claim: request})
	}
}

// take gives the unit to the ask. The unit must fit.
func (s *state) take(f *field, i int) {
	u := &s.board.units[i]
	s.pass()
	s.meter.pay(takeWork + 2*len(u.draws) + 2*len(u.sets) + 8*len(u.shares) + 4*len(f.limits))
	if !u.multi {
		s.markPicked(f.claim, i)
	}
	if f.occupies {
		s.consumeUnit(f, i)
	}
	for _, d := range f.tapsOf(i) {
		s.draw(d.Counter, d.Amount)
	}
	for k, c := range f.limits {
		s.limit(c, f.values[k][i])
	}
	s.ban(f.request, i)
	s.devices[f.claim]++
	s.chosen = append(s.chosen, choice{f, i})
	s.trail = append(s.trail, change{kind: changedDevices, at: f.claim}, change{kind: changedChosen})
}

// takeWork is for taking a unit that draws from nothing, and giving it back.
const takeWork = 20

func (s *state) markPicked(claim, i int) {
	if !s.picked[claim].has(i) {
		s.picked[claim].set(i)
		s.trail = append(s.trail, change{kind: changedPicked, at: i, claim: claim})
	}
}

// consumeUnit takes what the unit draws; further shares of a unit do not pay for
// its counters again.
func (s *state) consumeUnit(f *field, i int) {
	u := &s.board.units[i]
	if !s.paid(i) {
		for _, d := range u.draws {
			s.draw(d.Counter, d.Amount)
		}
		for _, g := range u.sets {
			s.trail = append(s.trail, change{kind: changedGroups, at: g.set, groups: s.groups[g.set]})
			s.groups[g.set] = common(s.groups[g.set], g.groups)
		}
	}
	if !u.multi {
		if !s.used.has(i) {
			s.used.set(i)
			s.trail = append(s.trail, change{kind: changedUsed, at: i})
		}
		return
	}
	for k, amount := range f.consumedOf(i) {
		s.draw(u.shares[k].counter, amount)
	}
	s.shared[i]++
	s.trail = append(s.trail, change{kind: changedShared, at: i})
}

func (s *state) draw(counter int, amount inventory.Amount) {
	s.trail = append(s.trail, change{kind: changedFree, at: counter, amount: s.free[counter]})
	s.free[counter] = s.free[counter].Sub(amount)
}

// limit narrows a constraint by one device's values.
func (s *state) limit(c int, values []int32) {
	old := s.limits[c]
	s.trail = append(s.trail, change{kind: changedLimit, at: c, set: old})
	next := newBits(len(s.board.valueIDs[c]))
	s.meter.pay(limitWork + len(next) + len(values))
	if s.problem.constraints[c].distinct {
		copy(next, old)
	}
	for _, v := range values {
		if s.problem.constraints[c].distinct || old == nil || old.has(int(v)) {
			next.set(int(v))
		}
	}
	s.limits[c] = next
}

// limitWork is for narrowing a constraint that knows few values.
const limitWork = 10

// paid reports whether the counters of the unit have been charged.
func (s *state) paid(i int) bool { return s.board.units[i].charged || s.shared[i] > 0 }

// fits reports whether the ask can have the unit in addition to what was chosen.
func (s *state) fits(f *field, i int) bool {
	u := &s.board.units[i]
	s.meter.pay(1)
	if !u.multi && (s.picked[f.claim].has(i) || !f.admin && s.used.has(i)) {
		return false
	}
	if f.occupies && !s.affords(f, i) || !s.nodeHolds(f, i) {
		return false
	}
	return s.allowed(f, i)
}

// allowed reports whether the constraints admit the unit.
func (s *state) allowed(f *field, i int) bool {
	work := 0
	for k, c := range f.limits {
		values := f.values[k][i]
		work += 1 + len(values)/4
		if !s.allows(c, values) {
			s.meter.pay(work)
			return false
		}
	}
	s.meter.pay(work)
	return true
}

// affords reports whether counters, capacities and groups admit the unit.
func (s *state) affords(f *field, i int) bool {
	return (s.paid(i) || s.admits(&s.board.units[i])) && s.hasRoom(f, i)
}

// hasRoom reports whether the capacities of the unit have what the ask consumes.
func (s *state) hasRoom(f *field, i int) bool {
	u := &s.board.units[i]
	if len(u.shares) > 0 {
		s.meter.pay(2 + len(u.shares))
	}
	for k, amount := range f.consumedOf(i) {
		if s.free[u.shares[k].counter].Cmp(amount) < 0 {
			return false
		}
	}
	return true
}

// admits reports whether counters and groups have room for an unpaid unit.
func (s *state) admits(u *unit) bool {
	s.meter.pay(len(u.draws)/4 + 2*len(u.sets))
	if u.closed || !s.board.covers(s.free, u.draws) {
		return false
	}
	for _, g := range u.sets {
		if s.groups[g.set] != nil && !intersect(s.groups[g.set], g.groups) {
			return false
		}
	}
	return true
}

// allows reports whether a constraint admits one more device with the values.
func (s *state) allows(c int, values []int32) bool {
	seen := s.limits[c]
	if seen == nil {
		return true
	}
	if s.board.isLoner(c, values) {
		return false
	}
	for _, v := range values {
		if seen.has(int(v)) {
			return !s.problem.constraints[c].distinct
		}
	}
	return s.problem.constraints[c].distinct
}
