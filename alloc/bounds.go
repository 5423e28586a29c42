// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// bounds refute: they find out by counting what cannot be had from here on. They see the
// state as a [position], so that they cannot change it. There are many of them, each of one
// method and what it counts with, for what they remember of components serves several;
// SEARCH.md has an example for each.
type bounds struct {
	problem *Problem
	board   *board
	meter   *meter
	now     position
	memory  *memory
	// packs remembers how many devices components hold, harvests how they can serve
	// demands.
	packs    map[fingerprint]int
	harvests map[fingerprint][]yield
}

func newBounds(s *state) *bounds {
	return &bounds{problem: s.problem, board: s.board, meter: s.meter, now: s, memory: newMemory(s)}
}

// forget drops what is remembered: more is known about units since.
func (b *bounds) forget() {
	b.packs, b.harvests = nil, nil
	b.memory.forget()
}

// refute reports whether the requests cannot be filled, in addition to what was chosen, for
// a reason that shows without trying devices. Each of the bounds relaxes the problem, so
// none refutes what is possible, and neither does one that the end of the budget cuts
// short. Whether devices go round is only asked with news: if more is wanted than when
// they were last divided.
func (b *bounds) refute(order []int, news bool) bool {
	defer b.meter.turn(b.meter.turn(Counting))
	if b.tooMany(order) {
		return true
	}
	rest := b.rest(order)
	if len(rest) == 1 && rest[0].want == 1 {
		return false
	}
	want := wants(rest)
	if b.crowded(rest, want) || b.overbooked(rest, want) {
		return true
	}
	limited := b.limited(rest)
	return b.notDistinct(limited) >= 0 || b.notAlike(limited) >= 0 || b.counterShort(rest) ||
		b.nodeShort(rest) != "" || b.packed(rest[0]) < rest[0].want || news && b.undivided(rest, want) != nil
}

// rest lists the asks of the requests.
func (b *bounds) rest(order []int) []*field {
	b.meter.payBytes(32 * len(order))
	rest := make([]*field, 0, len(order))
	for _, r := range order {
		rest = append(rest, b.now.askOf(r))
	}
	return rest
}

// tooMany: a claim can have at most 32 devices (AllocationResultsMaxSize).
func (b *bounds) tooMany(order []int) bool {
	b.meter.pay(2 * (len(order) + len(b.problem.claims)))
	need := make([]int, len(b.problem.claims))
	for _, r := range order {
		claim := b.problem.requests[r].claim
		need[claim] += b.now.askOf(r).want
		if b.now.devicesOf(claim)+need[claim] > resourceapi.AllocationResultsMaxSize {
			return true
		}
	}
	return false
}

// crowded: there are fewer devices than the asks want together, and none can be
// shared.
func (b *bounds) crowded(rest []*field, missing []int) bool {
	need := 0
	some := newBits(len(b.board.units))
	for k, f := range rest {
		if f.admin || missing[k] == 0 {
			continue
		}
		need += missing[k]
		b.meter.pay(1 + len(some))
		some.add(b.now.openTo(f.request))
	}
	for i := range some.all() {
		b.meter.pay(1)
		switch {
		case b.board.units[i].multi:
			return false
		case !b.now.inUse(i):
			need--
		}
	}
	return need > 0
}

// maxMatched bounds the number of asks that a matching can tell apart. More are
// not looked at: what a part of them cannot have, all cannot.
const maxMatched = 64

// overbooked: the asks compete for devices that only one of them can have.
func (b *bounds) overbooked(rest []*field, missing []int) bool {
	var asks []*field
	var need []int
	for k, f := range rest {
		if !f.admin && missing[k] > 0 && len(asks) < maxMatched {
			asks, need = append(asks, f), append(need, missing[k])
		}
	}
	if len(asks) == 0 || b.forAll(asks).count() >= total(need) {
		return false
	}
	who := b.who(asks)
	if b.meter.pay(4 * len(who)); b.meter.out() {
		return false
	}
	capacity := map[uint64]int{}
	for i, who := range who {
		if who == 0 {
			continue
		}
		if b.board.units[i].multi {
			capacity[who] += len(asks) // one for each ask at most
		} else {
			capacity[who]++
		}
	}
	return !b.board.matched(need, capacity)
}

func total(need []int) int {
	sum := 0
	for _, n := range need {
		sum += n
	}
	return sum
}

func wants(asks []*field) []int {
	need := make([]int, len(asks))
	for k, f := range asks {
		need[k] = f.want
	}
	return need
}

// notDistinct returns a distinct constraint that has too few values for the
// devices that must still differ in it, among the asks that each applies to; -1
// where each has enough.
func (b *bounds) notDistinct(limited [][]*field) int {
	for c, of := range b.problem.constraints {
		asks := limited[c]
		if !of.distinct || len(asks) == 0 {
			continue
		}
		if b.meter.out() {
			return -1
		}
		asks = asks[:min(len(asks), maxMatched)]
		if !b.board.matched(wants(asks), b.valuesLeft(c, asks)) && !b.meter.out() {
			return c
		}
	}
	return -1
}

// limited are the asks that each constraint applies to.
func (b *bounds) limited(rest []*field) [][]*field {
	asks := make([][]*field, len(b.problem.constraints))
	b.meter.pay(8 * len(b.problem.constraints))
	for _, f := range rest {
		if f.want == 0 {
			continue
		}
		b.meter.pay(8 * len(f.limits))
		for _, c := range f.limits {
			asks[c] = append(asks[c], f)
		}
	}
	return asks
}

// notAlike returns a match constraint none of whose values has enough devices for
// all asks that it ties together, -1 where each has one.
func (b *bounds) notAlike(limited [][]*field) int {
	var forAll bits
	var before []*field
	for c, of := range b.problem.constraints {
		asks := limited[c]
		if of.distinct || len(asks) == 0 {
			continue
		}
		if b.meter.out() {
			return -1
		}
		asks = asks[:min(len(asks), maxMatched)]
		if b.meter.pay(len(asks)); forAll == nil || !slices.Equal(asks, before) {
			forAll, before = b.forAll(asks), asks
		}
		if b.amplyAlike(c, asks, forAll) {
			continue
		}
		h := b.holders(c, asks)
		possible := false
		for v := 0; v < len(h.of) && !possible; v++ {
			possible = (b.now.limitOf(c) == nil || b.now.limitOf(c).has(v)) && b.board.matched(wants(h.asks), h.alike(v))
		}
		if !possible && !b.meter.out() {
			return c
		}
	}
	return -1
}

// amplyAlike reports whether it is plain to see that some value has enough devices.
func (b *bounds) amplyAlike(c int, asks []*field, forAll bits) bool {
	values := b.seenByAll(c, asks)
	need := total(wants(asks))
	if values == nil || forAll.count() < need {
		return false
	}
	b.meter.payBytes(8 * len(b.board.valueIDs[c]))
	count := make([]int, len(b.board.valueIDs[c]))
	for i := range forAll.all() {
		b.meter.pay(1 + len(values[i]))
		for n, v := range values[i] {
			if n > 0 && slices.Contains(values[i][:n], v) || b.now.limitOf(c) != nil && !b.now.limitOf(c).has(int(v)) {
				continue
			}
			if count[v]++; count[v] >= need {
				return true
			}
		}
	}
	return false
}

// valuesLeft counts the values not spent yet by the set of asks that can use
// them. A device with several values uses at least one.
func (b *bounds) valuesLeft(c int, asks []*field) map[uint64]int {
	who := make([]uint64, len(b.board.valueIDs[c]))
	b.meter.pay(4 * len(who))
	for k, f := range asks {
		at := slices.Index(f.limits, c)
		for i := range b.having(f).all() {
			if b.meter.out() {
				return nil
			}
			b.meter.pay(1 + len(f.values[at][i]))
			for _, v := range f.values[at][i] {
				who[v] |= 1 << k
			}
		}
	}
	capacity := map[uint64]int{}
	for _, w := range who {
		if w != 0 {
			capacity[w]++
		}
	}
	return capacity
}

// viable drops candidates whose values of matched attributes leave too few
// devices for the rest of the ask, or for the requests after it.
func (b *bounds) viable(later []int, f *field, missing int, list []int) []int {
	defer b.meter.turn(b.meter.turn(Counting))
	for k, c := range f.limits {
		if b.problem.constraints[c].distinct {
			continue
		}
		for before := -1; before != len(list) && !b.meter.out(); {
			before = len(list)
			good := b.goodValues(later, f, k, missing, list)
			list = slices.DeleteFunc(list, func(i int) bool {
				return !slices.ContainsFunc(f.values[k][i], func(v int32) bool { return good.has(int(v)) })
			})
		}
	}
	return list
}

// goodValues are the values of a matched attribute that enough devices have.
func (b *bounds) goodValues(later []int, f *field, k, missing int, list []int) bits {
	c := f.limits[k]
	good := b.enough(c, missing, func(yield func([]int32)) {
		for _, i := range list {
			yield(f.values[k][i])
		}
	})
	for _, r := range later {
		if b.meter.pay(1); !b.problem.tied[c].has(r) {
			continue
		}
		if b.meter.out() {
			return good // fewer would be
		}
		good.keep(b.goodLater(r, c))
	}
	return good
}

// enough returns the values that at least n devices have and that the devices
// chosen so far allow.
func (b *bounds) enough(c, n int, each func(yield func([]int32))) bits {
	count := make([]int, len(b.board.valueIDs[c]))
	b.meter.payBytes(8 * len(count))
	each(func(values []int32) {
		b.meter.pay(1 + len(values))
		for _, v := range values {
			count[v]++
		}
	})
	good := newBits(len(count))
	for v, have := range count {
		if have >= n && (b.now.limitOf(c) == nil || b.now.limitOf(c).has(v)) {
			good.set(v)
		}
	}
	return good
}

// goodLater returns the values that a later request can work with, nil for all.
func (b *bounds) goodLater(r, c int) bits {
	var asks []*field
	if f := b.now.askOf(r); !f.undecided() {
		asks = append(asks, f)
	} else {
		for _, a := range b.problem.requests[r].asks {
			if f := b.board.fields[a.id]; !f.impossible {
				asks = append(asks, f)
			}
		}
	}
	good := newBits(len(b.board.valueIDs[c]))
	for _, f := range asks {
		k := slices.Index(f.limits, c)
		if k < 0 {
			return nil
		}
		open := f.open
		if b.now.askOf(r) == f {
			open = b.now.openTo(r)
		}
		good.add(b.enough(c, f.want, func(yield func([]int32)) {
			for i := range open.all() {
				if f.admin || !b.now.inUse(i) {
					yield(f.values[k][i])
				}
			}
		}))
	}
	return good
}
