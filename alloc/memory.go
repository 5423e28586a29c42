// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"slices"
)

// memory recognises what a search has seen before: states that were refuted, and parts of
// a state that are like others.
type memory struct {
	problem *Problem
	board   *board
	meter   *meter
	now     position
	// roles has what does not change about each unit; nil until somebody asks.
	roles   []fingerprint
	refuted map[fingerprint]struct{}
}

func newMemory(s *state) *memory {
	return &memory{problem: s.problem, board: s.board, meter: s.meter, now: s}
}

// forget drops what is remembered: more is known about units since.
func (m *memory) forget() {
	m.roles, m.refuted = nil, nil
}

// role is what does not change about a unit and matters to the search: which
// asks it could serve and with which attribute values, and what it draws. Names
// of devices do not matter. Every list goes in with its length, so that no two
// different units can look the same.
func (m *memory) role(i int) fingerprint {
	u := &m.board.units[i]
	var r fingerprint
	m.meter.pay(len(m.board.fields))
	for _, f := range m.board.fields {
		if !f.completed {
			continue // and so of no interest now
		}
		r = r.withBool(f.open.has(i))
		if !f.open.has(i) {
			continue
		}
		m.meter.pay(8 + 4*len(f.limits) + 4*len(f.consumedOf(i)))
		for k := range f.limits {
			r = withNumbers(r, f.values[k][i])
		}
		r = r.with(uint64(len(f.consumedOf(i))))
		for _, amount := range f.consumedOf(i) {
			r = r.withAmount(amount)
		}
		r = r.with(uint64(len(f.tapsOf(i))))
		for _, d := range f.tapsOf(i) {
			r = r.with(uint64(d.Counter)).withAmount(d.Amount)
		}
	}
	r = r.with(uint64(len(u.draws)))
	for _, d := range u.draws {
		c := &m.board.counters[d.Counter]
		m.meter.pay(8 + len(c.name)/4)
		r = r.withText(c.name).withText(m.board.setRole(c.set)).withAmount(d.Amount)
	}
	r = r.with(uint64(len(u.sets)))
	for _, g := range u.sets {
		r = withNumbers(r.withText(m.board.setRole(g.set)), g.groups)
	}
	return r.withBool(u.multi).withBool(u.closed)
}

func withNumbers(f fingerprint, numbers []int32) fingerprint {
	f = f.with(uint64(len(numbers)))
	for _, n := range numbers {
		f = f.with(uint64(n))
	}
	return f
}

// setRole tells counter sets of one component apart. A component of one set, the
// usual case, needs no telling.
func (b *board) setRole(set int) string {
	if b.single[set] {
		return ""
	}
	return b.sets[set].name
}

// anyRequest stands for no request in particular.
const anyRequest = -1

// unitState is the role of a unit and what was done with it, as far as the
// request is concerned.
func (m *memory) unitState(i int, request int) fingerprint {
	open := request != anyRequest && m.now.openTo(request).has(i)
	m.meter.pay(4 + len(m.problem.claims) + 8*len(m.board.units[i].shares))
	f := m.roles[i].withBool(m.now.inUse(i)).withBool(open).withBool(m.now.paid(i))
	for claim := range m.problem.claims {
		f = f.withBool(m.now.pickedFor(claim, i))
	}
	for _, sh := range m.board.units[i].shares {
		f = f.withText(string(sh.name)).withAmount(m.now.left(sh.counter))
	}
	return f
}

// component is the state of a component as the request sees it: of its units, of
// what is left in its counters and of what the node has left.
func (m *memory) component(c int, request int) fingerprint {
	m.prepareRoles()
	total := m.nodeState()
	for _, i := range m.board.members[c] {
		total = total.plus(m.unitState(i, request))
	}
	for _, set := range m.board.setsOf[c] {
		f := withNumbers(fingerprint{}.withText(m.board.setRole(set)).withBool(m.now.groupsOf(set) == nil), m.now.groupsOf(set))
		for i := m.board.sets[set].first; i < m.board.sets[set].end; i++ {
			m.meter.pay(4 + len(m.board.counters[i].name)/4)
			f = f.withText(m.board.counters[i].name).withAmount(m.now.left(i))
		}
		total = total.plus(f)
	}
	return total
}

// nodeState is what is left of the resources of the node. They are the last
// counters.
func (m *memory) nodeState() fingerprint {
	var f fingerprint
	for at := len(m.board.free) - len(m.board.room); at < len(m.board.free); at++ {
		f = f.withAmount(m.now.left(at))
	}
	return f
}

func (m *memory) prepareRoles() {
	if m.roles != nil {
		return
	}
	m.meter.payBytes(16 * len(m.board.units))
	m.roles = make([]fingerprint, len(m.board.units))
	for i := range m.board.units {
		if m.meter.out() {
			return // nobody will rely on them
		}
		m.roles[i] = m.role(i)
	}
}

// classes says which units are equal for the request as things
// stand: exchanging two of them, with everything in their components, changes
// nothing.
func (m *memory) classes(request int) []fingerprint {
	defer m.meter.turn(m.meter.turn(Remembering))
	m.prepareRoles()
	m.meter.payBytes(16 * (len(m.board.members) + len(m.board.units)))
	components := make([]fingerprint, len(m.board.members))
	for c := range m.board.members {
		components[c] = m.component(c, request)
	}
	classes := make([]fingerprint, len(m.board.units))
	for i := range m.board.units {
		classes[i] = m.unitState(i, request)
		if c := m.board.units[i].component; c >= 0 {
			classes[i] = classes[i].withAll(components[c])
		}
	}
	return classes
}

// recall returns the fingerprint of the whole state, with these requests left to fill, the
// first of which misses so many devices, and whether it is known to be hopeless.
func (m *memory) recall(order []int, missing int) (key fingerprint, hopeless bool) {
	defer m.meter.turn(m.meter.turn(Remembering))
	m.prepareRoles()
	request := order[0]
	units := m.nodeState()
	for i := range m.board.units {
		if m.board.units[i].component < 0 {
			units = units.plus(m.unitState(i, request))
		}
	}
	for c := range m.board.members {
		units = units.plus(m.component(c, request))
	}
	key = units.with(uint64(len(order))).with(uint64(missing))
	for claim := range m.problem.claims {
		key = key.with(uint64(m.now.devicesOf(claim)))
	}
	for _, r := range order {
		if f := m.now.askOf(r); f != nil {
			key = key.with(uint64(f.id) + 1)
		} else {
			key = key.with(0)
		}
	}
	for c := range m.problem.constraints {
		set := m.now.limitOf(c)
		matters := set != nil && m.limitMatters(c, order)
		key = key.withBool(matters)
		if !matters {
			continue
		}
		m.meter.pay(len(set))
		for _, word := range set {
			key = key.with(word)
		}
	}
	if m.meter.out() {
		return fingerprint{}, false // it is not that of the whole state
	}
	_, hopeless = m.refuted[key]
	return key, hopeless
}

// limitMatters reports whether a constraint still applies to some device.
func (m *memory) limitMatters(c int, order []int) bool {
	m.meter.pay(1 + len(order)/2)
	return slices.ContainsFunc(order, m.problem.tied[c].has)
}

func (m *memory) remember(key fingerprint) {
	if key != (fingerprint{}) {
		m.meter.payBytes(64)
		if m.refuted == nil {
			m.refuted = map[fingerprint]struct{}{}
		}
		m.refuted[key] = struct{}{}
	}
}
