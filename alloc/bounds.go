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
// relaxes the problem, so none refutes what is possible.
func (s *search) refutedByCounting(level int) bool {
	if s.tooMany(level) {
		return true
	}
	rest := s.rest(level)
	if len(rest) == 1 && rest[0].want == 1 {
		return false
	}
	return s.overbooked(rest, wants(rest)) || s.notDistinct(rest) != nil || s.notAlike(rest) >= 0 || s.counterShort(rest) ||
		s.nodeShort(rest) != "" || s.packed(rest[0]) < rest[0].want || s.news(level) && s.undivided(rest, wants(rest)) != nil
}

// news reports whether more is wanted than when devices were last divided.
func (s *search) news(level int) bool {
	return level == 0 || len(s.requests[s.order[level]].asks) > 1
}

// rest lists the asks from the level on; the first is the level's own.
func (s *search) rest(level int) []*field {
	var rest []*field
	for _, r := range s.order[level:] {
		rest = append(rest, s.asks[r])
	}
	return rest
}

// tooMany: a claim can have at most 32 devices (AllocationResultsMaxSize).
func (s *search) tooMany(level int) bool {
	need := map[int]int{}
	for _, r := range s.order[level:] {
		claim := s.requests[r].claim
		need[claim] += s.asks[r].want
		if s.devices[claim]+need[claim] > resourceapi.AllocationResultsMaxSize {
			return true
		}
	}
	return false
}

// maxMatched bounds the number of asks that a matching can tell apart.
const maxMatched = 64

// overbooked: the asks compete for devices that only one of them can have.
func (s *search) overbooked(rest []*field, missing []int) bool {
	var asks []*field
	var need []int
	for k, f := range rest {
		if !f.admin && missing[k] > 0 {
			asks, need = append(asks, f), append(need, missing[k])
		}
	}
	if len(asks) == 0 || len(asks) > maxMatched {
		return false
	}
	capacity := map[uint64]int{}
	for i := range s.units {
		var who uint64
		for k, f := range asks {
			if s.open[f.request].has(i) && s.fits(f, i) {
				who |= 1 << k
			}
		}
		if who == 0 {
			continue
		}
		if s.units[i].multi {
			capacity[who] += len(asks) // one for each ask at most
		} else {
			capacity[who]++
		}
	}
	return !matched(need, capacity)
}

func wants(asks []*field) []int {
	need := make([]int, len(asks))
	for k, f := range asks {
		need[k] = f.want
	}
	return need
}

// notDistinct returns a distinct constraint that has too few values for the
// devices that must still differ in it.
func (s *search) notDistinct(rest []*field) *constraint {
	for c, of := range s.constraints {
		if !of.distinct {
			continue
		}
		asks := limited(rest, c)
		if len(asks) == 0 || len(asks) > maxMatched {
			continue
		}
		if !matched(wants(asks), s.valuesLeft(c, asks)) {
			return of
		}
	}
	return nil
}

func limited(rest []*field, c int) []*field {
	var asks []*field
	for _, f := range rest {
		if f.want > 0 && slices.Contains(f.limits, c) {
			asks = append(asks, f)
		}
	}
	return asks
}

// notAlike returns a match constraint none of whose values has enough devices for
// all asks that it ties together, -1 where each has one.
func (s *search) notAlike(rest []*field) int {
	for c, of := range s.constraints {
		if of.distinct {
			continue
		}
		asks := limited(rest, c)
		if len(asks) == 0 || len(asks) > maxMatched {
			continue
		}
		possible := false
		for v := 0; v < len(s.valueIDs[c]) && !possible; v++ {
			possible = (s.limits[c] == nil || s.limits[c].has(v)) && matched(wants(asks), s.havingAlike(c, asks, v))
		}
		if !possible {
			return c
		}
	}
	return -1
}

// havingAlike counts the devices with one value of a constraint by the set of
// asks that can have them.
func (s *search) havingAlike(c int, asks []*field, v int) map[uint64]int {
	capacity := map[uint64]int{}
	for i := range s.units {
		var who uint64
		for k, f := range asks {
			if s.open[f.request].has(i) && slices.Contains(f.values[slices.Index(f.limits, c)][i], int32(v)) && s.fits(f, i) {
				who |= 1 << k
			}
		}
		switch {
		case who == 0:
		case s.units[i].multi || slices.ContainsFunc(asks, func(f *field) bool { return f.admin }):
			capacity[who] += resourceapi.AllocationResultsMaxSize
		default:
			capacity[who]++
		}
	}
	return capacity
}

// valuesLeft counts the values not spent yet by the set of asks that can use
// them. A device with several values uses at least one.
func (s *search) valuesLeft(c int, asks []*field) map[uint64]int {
	who := make([]uint64, len(s.valueIDs[c]))
	for k, f := range asks {
		at := slices.Index(f.limits, c)
		for i := range s.open[f.request].all() {
			if !s.fits(f, i) {
				continue
			}
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
	for k, c := range f.limits {
		if s.constraints[c].distinct {
			continue
		}
		for before := -1; before != len(list); {
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
	each(func(values []int32) {
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
	families, n := s.families()
	left := make([]inventory.Amount, n)
	for i, f := range families {
		if s.free[i].Sign() > 0 {
			for _, family := range f {
				left[family] = left[family].Add(s.free[i])
			}
		}
	}
	for _, f := range rest {
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

// families groups counters whose draws may be added up: those of one name, and
// those of one value, such as the memory slices of a card.
func (s *search) families() (of [][2]int, n int) {
	names, values := map[string]int{}, map[inventory.Amount]int{}
	for _, c := range s.counters {
		if c.set < 0 {
			break // capacities of shared units come last
		}
		name, found := names[c.name]
		if !found {
			name, n = n, n+1
			names[c.name] = name
		}
		value, found := values[c.value]
		if !found {
			value, n = n, n+1
			values[c.value] = value
		}
		of = append(of, [2]int{name, value})
	}
	return of, n
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
