// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"slices"

	"kerf.dev/kerf/inventory"
)

// fingerprint identifies a state, or a part of one, up to symmetry: states that
// differ only in which of several equal devices or counter sets plays which part
// have the same one. 128 bits make accidental equality of different states
// practically impossible.
type fingerprint struct{ a, b uint64 }

// with mixes a number in; the order of calls matters.
func (f fingerprint) with(v uint64) fingerprint {
	return fingerprint{scramble(f.a ^ v), scramble(f.b + v*0x9e3779b97f4a7c15 + 0x7f4a7c15)}
}

func (f fingerprint) withBool(v bool) fingerprint {
	if v {
		return f.with(1)
	}
	return f.with(0)
}

func (f fingerprint) withAll(g fingerprint) fingerprint { return f.with(g.a).with(g.b) }

func (f fingerprint) withText(text string) fingerprint {
	f = f.with(uint64(len(text)))
	for i := range len(text) {
		f = f.with(uint64(text[i]))
	}
	return f
}

func (f fingerprint) withAmount(a inventory.Amount) fingerprint {
	hi, lo := a.Words()
	return f.with(hi).with(lo)
}

// plus adds an element of a multiset; the order of calls does not matter.
func (f fingerprint) plus(g fingerprint) fingerprint {
	g = g.with(1)
	return fingerprint{f.a + g.a, f.b + g.b}
}

// scramble is the finalizer of SplitMix64.
func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// role is what does not change about a unit and matters to the search: which
// asks it could serve and with which attribute values, and what it draws. Names
// of devices do not matter. Every list goes in with its length, so that no two
// different units can look the same.
func (s *search) role(i int) fingerprint {
	u := &s.units[i]
	var r fingerprint
	s.meter.pay(len(s.fields))
	for _, f := range s.fields {
		if !f.completed {
			continue // and so of no interest now
		}
		r = r.withBool(f.open.has(i))
		if !f.open.has(i) {
			continue
		}
		s.meter.pay(8 + 4*len(f.limits) + 4*len(f.consumedOf(i)))
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
		c := &s.counters[d.Counter]
		s.meter.pay(8 + len(c.name)/4)
		r = r.withText(c.name).withText(s.setRole(c.set)).withAmount(d.Amount)
	}
	r = r.with(uint64(len(u.sets)))
	for _, g := range u.sets {
		r = withNumbers(r.withText(s.setRole(g.set)), g.groups)
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
func (s *search) setRole(set int) string {
	if s.single[set] {
		return ""
	}
	return s.sets[set].name
}

// anyRequest stands for no request in particular.
const anyRequest = -1

// unitState is the role of a unit and what was done with it, as far as the
// request is concerned.
func (s *search) unitState(i int, request int) fingerprint {
	open := request != anyRequest && s.open[request].has(i)
	s.meter.pay(4 + len(s.picked) + 8*len(s.units[i].shares))
	f := s.roles[i].withBool(s.used.has(i)).withBool(open).withBool(s.paid(i))
	for _, picked := range s.picked {
		f = f.withBool(picked.has(i))
	}
	for _, sh := range s.units[i].shares {
		f = f.withText(string(sh.name)).withAmount(s.free[sh.counter])
	}
	return f
}

// component is the state of a component as the request sees it: of its units, of
// what is left in its counters and of what the node has left.
func (s *search) component(c int, request int) fingerprint {
	s.prepareRoles()
	total := s.nodeState()
	for _, i := range s.members[c] {
		total = total.plus(s.unitState(i, request))
	}
	for _, set := range s.setsOf[c] {
		f := withNumbers(fingerprint{}.withText(s.setRole(set)).withBool(s.groups[set] == nil), s.groups[set])
		for i := s.sets[set].first; i < s.sets[set].end; i++ {
			s.meter.pay(4 + len(s.counters[i].name)/4)
			f = f.withText(s.counters[i].name).withAmount(s.free[i])
		}
		total = total.plus(f)
	}
	return total
}

// nodeState is what is left of the resources of the node. They are the last
// counters.
func (s *search) nodeState() fingerprint {
	var f fingerprint
	for _, left := range s.free[len(s.free)-len(s.room):] {
		f = f.withAmount(left)
	}
	return f
}

func (s *search) prepareRoles() {
	if s.roles != nil {
		return
	}
	s.meter.payBytes(16 * len(s.units))
	s.roles = make([]fingerprint, len(s.units))
	for i := range s.units {
		if s.meter.out() {
			return // nobody will rely on them
		}
		s.roles[i] = s.role(i)
	}
}

// classes says which units are equal for the request of the level as things
// stand: exchanging two of them, with everything in their components, changes
// nothing.
func (s *search) classes(level int) []fingerprint {
	defer s.meter.turn(s.meter.turn(Remembering))
	s.prepareRoles()
	s.meter.payBytes(16 * (len(s.members) + len(s.units)))
	request := s.order[level]
	components := make([]fingerprint, len(s.members))
	for c := range s.members {
		components[c] = s.component(c, request)
	}
	classes := make([]fingerprint, len(s.units))
	for i := range s.units {
		classes[i] = s.unitState(i, request)
		if c := s.units[i].component; c >= 0 {
			classes[i] = classes[i].withAll(components[c])
		}
	}
	return classes
}

// memoryAfter is the number of steps from which on states are remembered.
// Most problems are solved before that, and remembering costs time.
const memoryAfter = 32

// recall returns the fingerprint of the whole state at a level and whether it is
// known to be hopeless.
func (s *search) recall(level, missing int) (key fingerprint, hopeless bool) {
	if s.steps < memoryAfter {
		return fingerprint{}, false
	}
	defer s.meter.turn(s.meter.turn(Remembering))
	s.prepareRoles()
	request := s.order[level]
	units := s.nodeState()
	for i := range s.units {
		if s.units[i].component < 0 {
			units = units.plus(s.unitState(i, request))
		}
	}
	for c := range s.members {
		units = units.plus(s.component(c, request))
	}
	key = units.with(uint64(level)).with(uint64(missing))
	for _, n := range s.devices {
		key = key.with(uint64(n))
	}
	for _, r := range s.order[level:] {
		if f := s.asks[r]; f != nil {
			key = key.with(uint64(f.id) + 1)
		} else {
			key = key.with(0)
		}
	}
	for c, set := range s.limits {
		matters := set != nil && s.limitMatters(c, level)
		key = key.withBool(matters)
		if !matters {
			continue
		}
		s.meter.pay(len(set))
		for _, word := range set {
			key = key.with(word)
		}
	}
	if s.meter.out() {
		return fingerprint{}, false // it is not that of the whole state
	}
	_, hopeless = s.refuted[key]
	return key, hopeless
}

// limitMatters reports whether a constraint still applies to some device.
func (s *search) limitMatters(c, level int) bool {
	s.meter.pay(1 + (len(s.order)-level)/2)
	return slices.ContainsFunc(s.order[level:], s.tied[c].has)
}

func (s *search) remember(key fingerprint) {
	if key != (fingerprint{}) {
		s.meter.payBytes(64)
		s.refuted[key] = struct{}{}
	}
}
