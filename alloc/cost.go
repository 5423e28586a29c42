// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"cmp"
	"math"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/inventory"
)

// whole is the size of the largest device of its kind.
const whole = 1_000_000

// measure gives every unit a size, in millionths: the mean of its capacities as
// parts of the largest among the driver's devices on the node, and of its draws
// as parts of its counter sets. Devices without either are whole.
func (b *board) measure() {
	type key struct {
		driver string
		name   resourceapi.QualifiedName
	}
	keyOf := func(d *inventory.Device, name resourceapi.QualifiedName) key {
		return key{d.ID.Driver, inventory.LocalName(d.ID.Driver, name)}
	}
	largest := map[key]inventory.Amount{}
	names := map[string]int{}
	for i := range b.units {
		b.meter.pay(valueWork*len(b.units[i].dev.Spec.Capacity) + 4*len(b.units[i].draws))
		for name, c := range b.units[i].dev.Spec.Capacity {
			k := keyOf(b.units[i].dev, name)
			if _, found := largest[k]; !found {
				names[k.driver]++
			}
			if v := inventory.AmountOf(c.Value); v.Cmp(largest[k]) > 0 {
				largest[k] = v
			}
		}
	}
	for i := range b.units {
		u := &b.units[i]
		var parts []float64
		if n := names[u.dev.ID.Driver]; n > 0 {
			sum := int64(0) // integers: the order of the map must not matter
			for name, c := range u.dev.Spec.Capacity {
				sum += millionths(inventory.AmountOf(c.Value).Ratio(largest[keyOf(u.dev, name)]))
			}
			parts = append(parts, float64(sum)/float64(n))
		}
		if len(u.sets) > 0 {
			parts = append(parts, b.drawn(u))
		}
		u.size = whole
		if len(parts) > 0 {
			u.size = int64(math.Round(mean(parts)))
		}
	}
}

func millionths(ratio float64) int64 { return int64(math.Round(ratio * whole)) }

func mean(parts []float64) float64 {
	sum := 0.0
	for _, p := range parts {
		sum += p
	}
	return sum / float64(len(parts))
}

// drawn is the mean part of the counters of its sets that a unit takes.
func (b *board) drawn(u *unit) float64 {
	counters := 0
	for _, g := range u.sets {
		counters += b.sets[g.set].end - b.sets[g.set].first
	}
	sum := int64(0)
	for _, d := range u.draws {
		sum += millionths(d.Amount.Ratio(b.counters[d.Counter].value))
	}
	return float64(sum) / float64(max(counters, 1))
}

// scales rank devices, and solutions, by what they cost.
type scales struct {
	problem *Problem
	board   *board
	meter   *meter
	now     position
}

func newScales(s *state) scales { return scales{s.problem, s.board, s.meter, s} }

// score is what one more device would cost, in the order of [Cost].
type score struct {
	kept       int
	binding    int
	size, lost int64
	fresh      int
	unit       int
}

// byCost sorts candidates, the best for the strategy first. What is lost with each
// takes longest to find out, and only decides between those that are equal otherwise:
// it is found out for the first of these, from which missing devices will be taken,
// as long as the effort is small.
func (s *scales) byCost(f *field, missing int, candidates []int) {
	if f.plain {
		return // they are in listed order
	}
	defer s.meter.turn(s.meter.turn(Ranking))
	scores := make([]score, len(candidates))
	s.meter.payBytes(len(scores) * scoreBytes)
	for n, i := range candidates {
		scores[n] = s.score(f, i)
	}
	s.sort(scores)
	for from := 0; from < min(missing, len(scores)); {
		end := from + 1
		for end < len(scores) && s.prefer(scores[from], scores[end]) == 0 {
			end++
		}
		if end > from+1 {
			s.weigh(f, scores[from:end])
			s.sort(scores[from:end])
		}
		from = end
	}
	for n := range scores {
		candidates[n] = scores[n].unit
	}
}

// scoreBytes is what a score takes, with sorting it.
const scoreBytes = 160

func (s *scales) sort(scores []score) {
	slices.SortFunc(scores, func(a, b score) int {
		packing := cmp.Or(cmp.Compare(a.lost, b.lost), cmp.Compare(a.fresh, b.fresh))
		if s.problem.options.Strategy == Spread {
			packing = -cmp.Or(cmp.Compare(a.fresh, b.fresh), cmp.Compare(a.lost, b.lost))
		}
		return cmp.Or(s.prefer(a, b), packing, cmp.Compare(a.unit, b.unit))
	})
}

// prefer compares what comes before packing.
func (s *scales) prefer(a, b score) int {
	return cmp.Or(cmp.Compare(b.kept, a.kept), cmp.Compare(a.binding, b.binding), cmp.Compare(a.size, b.size))
}

func (s *scales) score(f *field, i int) score {
	u := &s.board.units[i]
	sc := score{unit: i, size: s.size(i)}
	if s.board.keeps(f.ask, u) {
		sc.kept = 1
	}
	if len(u.dev.Spec.BindingConditions) > 0 {
		sc.binding = 1
	}
	if u.multi && !s.now.paid(i) {
		sc.fresh++
	}
	if !s.burdens(f, i) {
		return sc
	}
	for _, g := range u.sets {
		if s.board.sets[g.set].fresh && s.untouched(g.set) {
			sc.fresh++
		}
	}
	return sc
}

// burdens reports whether counters pay for the unit if the ask has it.
func (s *scales) burdens(f *field, i int) bool {
	return s.board.units[i].component >= 0 && f.occupies && !s.now.paid(i)
}

// weigh finds out what is lost with each of the candidates. Where that takes more than
// a part of what may still be spent, the rest counts as if nothing were.
func (s *scales) weigh(f *field, scores []score) {
	defer s.meter.within((s.meter.limit - s.meter.used) / weighPart)()
	before := make([][]int, len(s.board.members))
	var alive []int
	var lost int64
	look := func() { lost = s.lost(alive) } // made once, for there are many candidates
	s.meter.payBytes(24 * len(before))
	for n := range scores {
		i := scores[n].unit
		if !s.burdens(f, i) {
			continue
		}
		if s.meter.out() {
			for n := range scores {
				scores[n].lost = 0
			}
			return
		}
		c := s.board.units[i].component
		if before[c] == nil {
			before[c] = s.alive(s.board.members[c])
		}
		alive = before[c]
		s.now.with(f, i, look)
		scores[n].lost = lost
	}
}

// weighPart is the part of what is left that one ranking may take.
const weighPart = 4

// size is that of a unit; of one that is shared, that of the part that is free: the
// fullest that suffices is the smallest.
func (s *scales) size(i int) int64 {
	u := &s.board.units[i]
	if len(u.shares) == 0 {
		return u.size
	}
	sum := int64(0)
	s.meter.pay(valueWork * len(u.shares))
	for _, sh := range u.shares {
		sum += millionths(s.now.left(sh.counter).Ratio(s.board.counters[sh.counter].value))
	}
	return sum / int64(len(u.shares)) * u.size / whole
}

func (s *scales) untouched(set int) bool {
	s.meter.pay(1 + (s.board.sets[set].end-s.board.sets[set].first)/4)
	for i := s.board.sets[set].first; i < s.board.sets[set].end; i++ {
		if s.now.left(i) != s.board.free[i] {
			return false
		}
	}
	return true
}

// alive lists the units among them that could still be given to somebody.
func (s *scales) alive(units []int) []int {
	list := []int{}
	s.meter.pay(2 * len(units))
	for _, i := range units {
		u := &s.board.units[i]
		if u.taken == nil && !s.now.inUse(i) && !s.now.paid(i) && s.now.admits(u) {
			list = append(list, i)
		}
	}
	return list
}

// lost sums up the squared sizes, see [Cost], of units that were alive, were not
// chosen, and are not alive any more.
func (s *scales) lost(before []int) int64 {
	sum := int64(0)
	s.meter.pay(len(before))
	for _, i := range before {
		if u := &s.board.units[i]; !s.now.inUse(i) && !s.now.paid(i) && !s.now.admits(u) {
			sum += u.size * u.size / whole
		}
	}
	return sum
}

// cost is the cost of everything chosen.
func (s *scales) cost() Cost {
	s.board.prepare()
	start := newScales(newState(s.board))
	var c Cost
	touched := map[int]bool{}
	broached := map[inventory.PoolID]bool{}
	for _, ch := range s.now.choices() {
		u := &s.board.units[ch.unit]
		c.Size += start.size(ch.unit)
		if len(u.dev.Spec.BindingConditions) > 0 {
			c.Binding++
		}
		if s.board.keeps(ch.field.ask, u) {
			c.Kept++
		}
		if !ch.field.occupies {
			continue
		}
		if u.component >= 0 {
			touched[u.component] = true
		}
		if u.multi && !u.charged && s.now.paid(ch.unit) {
			c.Fresh++
		}
		for _, g := range u.sets {
			if s.board.sets[g.set].fresh && !touched[-1-g.set] {
				touched[-1-g.set] = true
				c.Fresh++
			}
		}
		if s.board.opens(u) {
			broached[u.dev.ID.PoolID()] = true
		}
	}
	c.Open = s.board.unopened(broached)
	for r := range s.problem.requests {
		c.Rank += s.now.askOf(r).rank
	}
	for component := range touched {
		if component >= 0 {
			c.Lost += s.lost(start.alive(s.board.members[component]))
		}
	}
	return c
}

// opens reports whether the unit uses something that nobody uses yet: itself, or
// one of its counter sets.
func (b *board) opens(u *unit) bool {
	if len(u.sets) == 0 {
		return u.taken == nil
	}
	return slices.ContainsFunc(u.sets, func(g setGroups) bool { return b.sets[g.set].fresh })
}

// unopened counts the units and counter sets of the pools that nobody uses yet.
func (b *board) unopened(pools map[inventory.PoolID]bool) int {
	n := 0
	seen := map[int]bool{}
	for i := range b.units {
		u := &b.units[i]
		switch {
		case !pools[u.dev.ID.PoolID()]:
		case len(u.sets) == 0 && u.taken == nil:
			n++
		default:
			for _, g := range u.sets {
				if b.sets[g.set].fresh && !seen[g.set] {
					seen[g.set] = true
					n++
				}
			}
		}
	}
	return n
}
