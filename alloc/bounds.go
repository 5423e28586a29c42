// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/inventory"
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

// holders are the devices with each value of a constraint's attribute that some of
// the asks can have.
type holders struct {
	*search
	asks []*field
	// of has the holdings of each value.
	of [][]holding
}

// holding is a device with a value, and the set of asks that can have it for that.
type holding struct {
	unit int
	who  uint64
}

func (s *search) holders(c int, asks []*field) *holders {
	h := &holders{search: s, asks: asks, of: make([][]holding, len(s.valueIDs[c]))}
	s.meter.payBytes(24 * len(h.of))
	if values := s.seenByAll(c, asks); values != nil {
		for i, who := range s.who(asks) {
			if s.meter.pay(2 + 2*len(values[i])); s.meter.out() {
				return h
			}
			if who == 0 {
				continue
			}
			for _, v := range values[i] {
				if of := h.of[v]; len(of) == 0 || of[len(of)-1].unit != i { // a list may have a value twice
					h.of[v] = append(of, holding{i, who})
				}
			}
		}
		return h
	}
	for k, f := range asks {
		values := f.values[slices.Index(f.limits, c)]
		for i := range s.having(f).all() {
			if s.meter.out() {
				return h
			}
			s.meter.payBytes(16 * len(values[i]))
			for _, v := range values[i] {
				h.add(v, i, 1<<k)
			}
		}
	}
	return h
}

// seenByAll are the values of a constraint's attribute where all asks see the same, nil
// where they do not.
func (s *search) seenByAll(c int, asks []*field) [][]int32 {
	var all [][]int32
	for _, f := range asks {
		s.meter.pay(1 + len(f.limits)/4)
		values := f.values[slices.Index(f.limits, c)]
		if all == nil {
			all = values
		}
		if len(values) == 0 || &values[0] != &all[0] {
			return nil
		}
	}
	return all
}

// add notes that an ask can have a unit. Units come in ascending order for each ask.
func (h *holders) add(v int32, unit int, ask uint64) {
	of := h.of[v]
	at, found := slices.BinarySearchFunc(of, unit, func(one holding, unit int) int { return one.unit - unit })
	h.meter.pay(4)
	if found {
		of[at].who |= ask
		return
	}
	h.meter.pay((len(of) - at) / 4)
	h.of[v] = slices.Insert(of, at, holding{unit, ask})
}

// alike counts the devices with one value by the set of asks that can have them.
func (h *holders) alike(v int) map[uint64]int {
	capacity := map[uint64]int{}
	admin := slices.ContainsFunc(h.asks, func(f *field) bool { return f.admin })
	h.meter.pay(4 + 4*len(h.of[v]))
	for _, one := range h.of[v] {
		if h.units[one.unit].multi || admin {
			capacity[one.who] += resourceapi.AllocationResultsMaxSize
		} else {
			capacity[one.who]++
		}
	}
	return capacity
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

// counterShort: together the asks need more of some counter, or of all counters
// of one size, than is left in all sets.
func (s *search) counterShort(rest []*field) bool {
	if len(s.sets) == 0 {
		return false
	}
	families, n := s.countFamilies()
	s.meter.pay(4*len(families) + n)
	left := make([]inventory.Amount, n)
	for i, f := range families {
		if s.free[i].Sign() > 0 {
			for _, family := range f {
				left[family] = left[family].Add(s.free[i])
			}
		}
	}
	for _, f := range rest {
		if s.meter.pay(n * (1 + f.want)); s.meter.out() {
			return false
		}
		for family, least := range s.leastDraw(f, s.open[f.request], families, n) {
			for range f.want {
				left[family] = left[family].Sub(least)
			}
			if left[family].Sign() < 0 {
				return true
			}
		}
	}
	return false
}

// maxFamilies bounds the families of counters. Counters that no other is like make
// many, which refute nothing; those left over are all in the last.
const maxFamilies = 128

// countFamilies returns, for each counter of a pool, the families that it is in:
// those of one name, and those of one value. There are n.
func (b *board) countFamilies() (of [][2]int, n int) {
	if b.families != nil {
		return b.families, b.nFamilies
	}
	names, values := map[string]int{}, map[inventory.Amount]int{}
	b.meter.payBytes(32 * len(b.counters))
	for _, c := range b.counters {
		if c.set < 0 {
			break // capacities of shared units come last
		}
		name, found := names[c.name]
		if !found {
			name, b.nFamilies = min(b.nFamilies, maxFamilies-1), min(b.nFamilies+1, maxFamilies)
			names[c.name] = name
		}
		value, found := values[c.value]
		if !found {
			value, b.nFamilies = min(b.nFamilies, maxFamilies-1), min(b.nFamilies+1, maxFamilies)
			values[c.value] = value
		}
		b.families = append(b.families, [2]int{name, value})
	}
	return b.families, b.nFamilies
}

// leastDraw is the least that one of the devices takes of each family if the ask
// has it.
func (s *search) leastDraw(f *field, devices bits, families [][2]int, n int) []inventory.Amount {
	least := make([]inventory.Amount, n)
	if !s.occupies(f) {
		return least
	}
	first := true
	one := make([]inventory.Amount, n)
	for i := range devices.all() {
		if !s.fits(f, i) {
			continue
		}
		s.meter.pay(n + 4*len(s.units[i].draws))
		clear(one)
		if !s.paid(i) && !s.units[i].multi {
			for _, d := range s.units[i].draws {
				if d.Counter < len(families) {
					for _, family := range families[d.Counter] {
						one[family] = one[family].Add(d.Amount)
					}
				}
			}
		}
		for family := range least {
			if first || one[family].Cmp(least[family]) < 0 {
				least[family] = one[family]
			}
		}
		first = false
	}
	return least
}
