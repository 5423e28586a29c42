// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"math"
	"slices"
)

const (
	// maxJoint bounds the demands that are looked at together.
	maxJoint = 6
	// jointEffort bounds the work of finding out what one component yields,
	// jointWidth the number of ways that are kept in mind.
	jointEffort = 4096
	jointWidth  = 512
)

// yield is how many devices each demand gets, up to mostYielded: no claim can have as
// many, and the sum of two does not overflow.
type yield [maxJoint]uint8

const mostYielded = math.MaxInt8

// covers reports whether no demand gets less than in the other.
func (y *yield) covers(other *yield) bool {
	for at := range y {
		if y[at] < other[at] {
			return false
		}
	}
	return true
}

// plus adds, but no more than anybody needs.
func (y yield) plus(other, need *yield) yield {
	for at := range y {
		y[at] = min(y[at]+other[at], need[at])
	}
	return y
}

// keep adds a yield to those of which none covers another.
func keep(all []yield, y yield) []yield {
	for i := range all {
		if all[i].covers(&y) {
			return all
		}
	}
	all = slices.DeleteFunc(all, func(other yield) bool { return y.covers(&other) })
	return append(all, y)
}

// sums returns the sums of two lists of yields.
func (b *board) sums(one, other []yield, need *yield) []yield {
	var sums []yield
	for i := range other {
		for k := range one {
			b.meter.pay(2 + len(sums))
			sums = keep(sums, one[k].plus(&other[i], need))
		}
	}
	return sums
}

// conflicting reports whether the demands, each of which could be met, cannot be
// met together: what the components yield does not add up to the need, however
// it is shared out.
func (b *bounds) conflicting(o *outlook, need []int) bool {
	joint := b.jointDemands(o, need)
	if len(joint) < 2 || len(joint) > maxJoint {
		return false
	}
	var goal, loose yield
	for k, at := range joint {
		goal[k] = uint8(need[at])
		loose[k] = uint8(min(o.demands[at].most[len(b.board.members)], need[at]))
	}
	reached := []yield{loose}
	for c := range b.board.members {
		if reached = b.board.sums(reached, b.yields(o, c, joint), &goal); len(reached) > jointWidth || b.meter.out() {
			return false
		}
	}
	return !slices.Contains(reached, goal)
}

// jointDemands are those that compete for counters. Demands with constraints are
// left out.
func (b *bounds) jointDemands(o *outlook, need []int) []int {
	var joint []int
	for at, n := range need {
		d := &o.demands[at]
		if n > 0 && len(d.lead.limits) == 0 && d.sum > d.most[len(b.board.members)] {
			joint = append(joint, at)
		}
	}
	return joint
}

// yields are the ways in which a component can serve the demands: those that are
// not covered by others.
func (b *bounds) yields(o *outlook, c int, joint []int) []yield {
	key := b.memory.component(c, anyRequest)
	for _, at := range joint {
		key = key.with(uint64(o.demands[at].lead.id) + 1)
	}
	if known, found := b.harvests[key]; found || b.meter.out() {
		return known // nobody relies on what is missing when the budget has ended
	}
	h := b.newHarvest(o, c, joint)
	h.from(0, yield{})
	if h.effort < 0 {
		h.best = []yield{h.most}
	}
	if b.harvests == nil {
		b.harvests = map[fingerprint][]yield{}
	}
	b.harvests[key] = h.best
	return h.best
}

// harvest tries the ways to give the units of a component to demands.
type harvest struct {
	*bounds
	outlook *outlook
	joint   []int
	most    yield
	// chances are the units with a demand that can have them, in order; after
	// says how many more of them there are for each demand from one on.
	chances []chance
	after   []yield
	best    []yield
	effort  int
	// look goes on with the next chance once a unit was given; it is made once, for there
	// are many chances.
	look  func()
	next  int
	given yield
}

// chance is a unit and the position in harvest.joint of a demand for it.
type chance struct{ unit, k int }

func (b *bounds) newHarvest(o *outlook, c int, joint []int) *harvest {
	h := &harvest{bounds: b, outlook: o, joint: joint, effort: jointEffort}
	h.look = func() { h.from(h.next, h.given) }
	for k, at := range joint {
		h.most[k] = uint8(min(o.demands[at].most[c], mostYielded))
	}
	for _, i := range b.board.members[c] {
		for k, at := range joint {
			if f := o.demands[at].lead; !b.board.alone(i) && f.open.has(i) && b.now.fits(f, i) {
				h.chances = append(h.chances, chance{i, k})
			}
		}
	}
	h.after = make([]yield, len(h.chances)+1)
	for n := len(h.chances) - 1; n >= 0; n-- {
		h.after[n] = h.after[n+1]
		k := h.chances[n].k
		h.after[n][k] = min(h.after[n][k]+1, mostYielded)
	}
	return h
}

// from goes on with the n-th chance, unless that cannot lead to more than is
// known already.
func (h *harvest) from(n int, y yield) {
	for ; n < len(h.chances) && h.effort >= 0; n++ {
		h.meter.pay(4 + 2*len(h.best))
		hope := y.plus(&h.after[n], &h.most)
		if slices.ContainsFunc(h.best, func(known yield) bool { return known.covers(&hope) }) {
			return
		}
		h.effort--
		f := h.outlook.demands[h.joint[h.chances[n].k]].lead
		if !h.now.fits(f, h.chances[n].unit) {
			continue
		}
		more := y
		k := h.chances[n].k
		more[k] = min(more[k]+1, h.most[k])
		h.next, h.given = n+1, more
		h.now.with(f, h.chances[n].unit, h.look)
	}
	h.best = keep(h.best, y)
}
