// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// refutedByCounting reports whether the requests from the level on cannot be
// filled for a reason that shows without trying devices. Each of the bounds
// relaxes the problem, so none refutes what is possible, and neither does one that
// the end of the budget cuts short.
func (s *search) refutedByCounting(level int) bool {
	defer s.meter.turn(s.meter.turn(Counting))
	if s.tooMany(level) {
		return true
	}
	rest := s.rest(level)
	if len(rest) == 1 && rest[0].want == 1 {
		return false
	}
	want := wants(rest)
	if s.crowded(rest, want) || s.overbooked(rest, want) {
		return true
	}
	limited := s.limited(rest)
	return s.notDistinct(limited) != nil || s.notAlike(limited) >= 0 || s.counterShort(rest) ||
		s.nodeShort(rest) != "" || s.packed(rest[0]) < rest[0].want || s.news(level) && s.undivided(rest, want) != nil
}

// news reports whether more is wanted than when devices were last divided.
func (s *search) news(level int) bool {
	return level == 0 || len(s.requests[s.order[level]].asks) > 1
}

// rest lists the asks from the level on; the first is the level's own.
func (s *search) rest(level int) []*field {
	s.meter.payBytes(32 * (len(s.order) - level))
	rest := make([]*field, 0, len(s.order)-level)
	for _, r := range s.order[level:] {
		rest = append(rest, s.asks[r])
	}
	return rest
}

// tooMany: a claim can have at most 32 devices (AllocationResultsMaxSize).
func (s *search) tooMany(level int) bool {
	s.meter.pay(2 * (len(s.order) - level + len(s.claims)))
	need := make([]int, len(s.claims))
	for _, r := range s.order[level:] {
		claim := s.requests[r].claim
		need[claim] += s.asks[r].want
		if s.devices[claim]+need[claim] > resourceapi.AllocationResultsMaxSize {
			return true
		}
	}
	return false
}

// crowded: there are fewer devices than the asks want together, and none can be
// shared.
func (s *search) crowded(rest []*field, missing []int) bool {
	need := 0
	some := newBits(len(s.units))
	for k, f := range rest {
		if f.admin || missing[k] == 0 {
			continue
		}
		need += missing[k]
		s.meter.pay(1 + len(some))
		for w, word := range s.open[f.request] {
			some[w] |= word
		}
	}
	for i := range some.all() {
		s.meter.pay(1)
		switch {
		case s.units[i].multi:
			return false
		case !s.used.has(i):
			need--
		}
	}
	return need > 0
}

// maxMatched bounds the number of asks that a matching can tell apart. More are
// not looked at: what a part of them cannot have, all cannot.
const maxMatched = 64

// overbooked: the asks compete for devices that only one of them can have.
func (s *search) overbooked(rest []*field, missing []int) bool {
	var asks []*field
	var need []int
	for k, f := range rest {
		if !f.admin && missing[k] > 0 && len(asks) < maxMatched {
			asks, need = append(asks, f), append(need, missing[k])
		}
	}
	if len(asks) == 0 || s.forAll(asks).count() >= total(need) {
		return false
	}
	who := s.who(asks)
	if s.meter.pay(4 * len(who)); s.meter.out() {
		return false
	}
	capacity := map[uint64]int{}
	for i, who := range who {
		if who == 0 {
			continue
		}
		if s.units[i].multi {
			capacity[who] += len(asks) // one for each ask at most
		} else {
			capacity[who]++
		}
	}
	return !s.matched(need, capacity)
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
// devices that must still differ in it, among the asks that each applies to.
func (s *search) notDistinct(limited [][]*field) *constraint {
	for c, of := range s.constraints {
		asks := limited[c]
		if !of.distinct || len(asks) == 0 {
			continue
		}
		if s.meter.out() {
			return nil
		}
		asks = asks[:min(len(asks), maxMatched)]
		if !s.matched(wants(asks), s.valuesLeft(c, asks)) && !s.meter.out() {
			return of
		}
	}
	return nil
}

// limited are the asks that each constraint applies to.
func (s *search) limited(rest []*field) [][]*field {
	asks := make([][]*field, len(s.constraints))
	s.meter.pay(8 * len(s.constraints))
	for _, f := range rest {
		if f.want == 0 {
			continue
		}
		s.meter.pay(8 * len(f.limits))
		for _, c := range f.limits {
			asks[c] = append(asks[c], f)
		}
	}
	return asks
}

// notAlike returns a match constraint none of whose values has enough devices for
// all asks that it ties together, -1 where each has one.
func (s *search) notAlike(limited [][]*field) int {
	var forAll bits
	var before []*field
	for c, of := range s.constraints {
		asks := limited[c]
		if of.distinct || len(asks) == 0 {
			continue
		}
		if s.meter.out() {
			return -1
		}
		asks = asks[:min(len(asks), maxMatched)]
		if s.meter.pay(len(asks)); forAll == nil || !slices.Equal(asks, before) {
			forAll, before = s.forAll(asks), asks
		}
		if s.amplyAlike(c, asks, forAll) {
			continue
		}
		h := s.holders(c, asks)
		possible := false
		for v := 0; v < len(h.of) && !possible; v++ {
			possible = (s.limits[c] == nil || s.limits[c].has(v)) && s.matched(wants(h.asks), h.alike(v))
		}
		if !possible && !s.meter.out() {
			return c
		}
	}
	return -1
}

// amplyAlike reports whether it is plain to see that some value has enough devices.
func (s *search) amplyAlike(c int, asks []*field, forAll bits) bool {
	values := s.seenByAll(c, asks)
	need := total(wants(asks))
	if values == nil || forAll.count() < need {
		return false
	}
	s.meter.payBytes(8 * len(s.valueIDs[c]))
	count := make([]int, len(s.valueIDs[c]))
	for i := range forAll.all() {
		s.meter.pay(1 + len(values[i]))
		for n, v := range values[i] {
			if n > 0 && slices.Contains(values[i][:n], v) || s.limits[c] != nil && !s.limits[c].has(int(v)) {
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
func (s *search) valuesLeft(c int, asks []*field) map[uint64]int {
	who := make([]uint64, len(s.valueIDs[c]))
	s.meter.pay(4 * len(who))
	for k, f := range asks {
		at := slices.Index(f.limits, c)
		for i := range s.having(f).all() {
			if s.meter.out() {
				return nil
			}
			s.meter.pay(1 + len(f.values[at][i]))
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
// devices for the rest of the ask, or for the asks after it.
func (s *search) viable(level int, f *field, missing int, list []int) []int {
	defer s.meter.turn(s.meter.turn(Counting))
	for k, c := range f.limits {
		if s.constraints[c].distinct {
			continue
		}
		for before := -1; before != len(list) && !s.meter.out(); {
			before = len(list)
			good := s.goodValues(level, f, k, missing, list)
			list = slices.DeleteFunc(list, func(i int) bool {
				return !slices.ContainsFunc(f.values[k][i], func(v int32) bool { return good.has(int(v)) })
			})
		}
	}
	return list
}

// goodValues are the values of a matched attribute that enough devices have.
func (s *search) goodValues(level int, f *field, k, missing int, list []int) bits {
	c := f.limits[k]
	good := s.enough(c, missing, func(yield func([]int32)) {
		for _, i := range list {
			yield(f.values[k][i])
		}
	})
	for _, r := range s.order[level+1:] {
		if s.meter.pay(1); !s.tied[c].has(r) {
			continue
		}
		if s.meter.out() {
			return good // fewer would be
		}
		later := s.goodLater(r, c)
		for w := range good {
			if later != nil {
				good[w] &= later[w]
			}
		}
	}
	return good
}

// enough returns the values that at least n devices have and that the devices
// chosen so far allow.
func (s *search) enough(c, n int, each func(yield func([]int32))) bits {
	count := make([]int, len(s.valueIDs[c]))
	s.meter.payBytes(8 * len(count))
	each(func(values []int32) {
		s.meter.pay(1 + len(values))
		for _, v := range values {
			count[v]++
		}
	})
	good := newBits(len(count))
	for v, have := range count {
		if have >= n && (s.limits[c] == nil || s.limits[c].has(v)) {
			good.set(v)
		}
	}
	return good
}

// goodLater returns the values that a later request can work with, nil for all.
func (s *search) goodLater(r, c int) bits {
	var asks []*field
	if f := s.asks[r]; !f.undecided() {
		asks = append(asks, f)
	} else {
		for _, a := range s.requests[r].asks {
			if f := s.fields[a.id]; !f.impossible {
				asks = append(asks, f)
			}
		}
	}
	good := newBits(len(s.valueIDs[c]))
	for _, f := range asks {
		k := slices.Index(f.limits, c)
		if k < 0 {
			return nil
		}
		open := f.open
		if s.asks[r] == f {
			open = s.open[r]
		}
		for w, word := range s.enough(c, f.want, func(yield func([]int32)) {
			for i := range open.all() {
				if f.admin || !s.used.has(i) {
					yield(f.values[k][i])
				}
			}
		}) {
			good[w] |= word
		}
	}
	return good
}
