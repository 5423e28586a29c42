// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// division asks whether devices go round, sorted into cells: those with one value
// of an attribute each, or one that can be shared each. The parties are groups of
// asks that need everything from one cell, asks that need every device from another
// cell, and everybody else. The ways in which a cell can serve the parties are added
// up over all cells.
type division struct {
	*bounds
	attribute resourceapi.FullyQualifiedName
	parties   []party
	// columns are the sets of candidates that parties choose from. asks has an
	// ask for each, nil where the set is that of several.
	columns []bits
	asks    []*field
	cells   []*cell
	effort  int
	// reached are the ways in which all cells together can serve the parties.
	reached []yield
}

// unbounded stands for as many devices as anybody may want.
const unbounded = 1 << 20

const (
	// divisionEffort bounds the matchings of one division.
	divisionEffort = 512
	// sumsPerMatching is how many sums of yields take as long as a matching.
	sumsPerMatching = 4
)

// party is a number of groups on equal terms.
type party struct {
	terms terms
	// each is how many devices of each column a group takes.
	each map[int]int
	goal int
}

// terms say where the devices of a party may come from.
type terms int

const (
	alike  terms = iota // those of a group from one cell
	apart               // each from a different cell
	freely              // from anywhere
)

// undivided returns a division in which the devices do not go round for what is
// missing of each ask, nil where they may.
func (b *bounds) undivided(asks []*field, missing []int) *division {
	if d := b.divideShares(asks, missing); d != nil && !d.goesRound() {
		return d
	}
	seen := map[resourceapi.FullyQualifiedName]bool{}
	for _, of := range b.problem.constraints {
		if seen[of.attribute] || b.meter.out() {
			continue
		}
		seen[of.attribute] = true
		if d := b.divide(of.attribute, asks, missing); d != nil && !d.goesRound() {
			return d
		}
	}
	return nil
}

// divide returns nil where nobody competes, and where devices have several values.
func (b *bounds) divide(attribute resourceapi.FullyQualifiedName, asks []*field, missing []int) *division {
	d := &division{bounds: b, attribute: attribute, effort: divisionEffort}
	tied := make([][]int, len(b.problem.constraints))
	b.meter.pay(4 * len(tied))
	var free []int
	for k, f := range asks {
		if missing[k] == 0 || f.admin {
			continue
		}
		if c := d.constraintOn(f); c < 0 {
			free = append(free, k)
		} else {
			tied[c] = append(tied[c], k)
		}
	}
	for c, of := range tied {
		if b.meter.out() {
			return nil
		}
		if len(of) > 0 {
			d.tie(c, of, asks, missing)
		}
	}
	if len(d.parties) == 0 || len(free) == 0 && len(d.parties) == 1 && d.parties[0].goal == 1 && len(d.board.sets) == 0 {
		return nil
	}
	for _, k := range free {
		if b.meter.out() {
			return nil
		}
		d.add(party{terms: freely, goal: missing[k], each: map[int]int{d.column(asks[k], b.having(asks[k])): 1}})
	}
	if len(d.columns) > maxMatched || !d.sort(asks) {
		return nil
	}
	d.parties = d.parties[:min(len(d.parties), maxJoint)]
	return d
}

// constraintOn returns the ask's constraint on the attribute, a match rather than
// a distinct one, or -1.
func (d *division) constraintOn(f *field) int {
	found := -1
	d.meter.pay(1 + 4*len(f.limits))
	for _, c := range f.limits {
		if of := d.problem.constraints[c]; of.attribute == d.attribute && (found < 0 || d.problem.constraints[found].distinct && !of.distinct) {
			found = c
		}
	}
	return found
}

// tie adds the party of the asks that a constraint applies to.
func (d *division) tie(c int, of []int, asks []*field, missing []int) {
	p := party{terms: alike, goal: 1, each: map[int]int{}}
	if d.problem.constraints[c].distinct {
		p = party{terms: apart, each: map[int]int{}}
		either := newBits(len(d.board.units))
		for _, k := range of {
			p.goal += missing[k]
			either.add(d.having(asks[k]))
		}
		p.each[d.column(nil, either)] = 1
	} else {
		for _, k := range of {
			p.each[d.column(asks[k], d.having(asks[k]))] += missing[k]
		}
	}
	d.add(p)
}

func (d *division) column(f *field, units bits) int {
	for k, of := range d.columns {
		if f != nil && d.asks[k] != nil {
			d.meter.pay(2 + 8*len(f.consumed))
		}
		d.meter.pay(2 + len(of)/4)
		if slices.Equal(of, units) && (f == d.asks[k] || f != nil && d.asks[k] != nil && slices.EqualFunc(f.consumed, d.asks[k].consumed, slices.Equal)) {
			return k
		}
	}
	d.columns, d.asks = append(d.columns, units), append(d.asks, f)
	return len(d.columns) - 1
}

// add merges parties on equal terms.
func (d *division) add(p party) {
	at := slices.IndexFunc(d.parties, func(other party) bool {
		d.meter.pay(4 + 2*len(p.each))
		return p.terms != apart && other.terms == p.terms && maps.Equal(other.each, p.each)
	})
	if at < 0 {
		d.parties = append(d.parties, p)
	} else {
		d.parties[at].goal += p.goal
	}
}

// sort puts the candidates into cells, those without a value into the first. It
// reports whether no device has several values.
func (d *division) sort(asks []*field) bool {
	of := make([]int, len(d.board.units))
	var numbers map[value]int32
	for _, f := range asks {
		for k, c := range f.limits {
			if d.problem.constraints[c].attribute != d.attribute {
				continue
			}
			numbers = d.board.valueIDs[c]
			d.meter.pay(2 * f.n)
			for i := range d.now.openTo(f.request).all() {
				v := f.values[k][i]
				if len(v) > 1 || of[i] > 0 && of[i] != int(v[0])+1 {
					return false // a list, or derived in different ways
				}
				of[i] = int(v[0]) + 1
			}
		}
	}
	for i := range of {
		if of[i] == 0 && len(d.board.sets) > 0 {
			of[i] = d.cellOf(i, numbers)
		}
	}
	d.deal(of, d.renumber(of))
	for _, c := range d.cells {
		if d.meter.out() {
			return false
		}
		d.count(c)
	}
	return true
}

// cellOf says where to put a unit that no constraint on the attribute is about. It
// may go anywhere; with others that draw from the same counters it counts best.
func (d *division) cellOf(i int, numbers map[value]int32) int {
	d.meter.pay(valueWork)
	if v := valuesOf(published(d.board.units[i].dev, d.attribute)); len(v) == 1 {
		if n, found := numbers[v[0]]; found {
			return int(n) + 1
		}
	}
	return 0
}

// renumber leaves out numbers that no unit has: an attribute may have many more values
// than there are units that matter here. It returns the highest that is left.
func (d *division) renumber(of []int) int {
	d.meter.pay(4 * len(of))
	numbers := slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(of), 0))))
	for i := range of {
		of[i], _ = slices.BinarySearch(numbers, of[i])
	}
	return len(numbers) - 1
}

// deal makes cells and puts every candidate into that with its number.
func (d *division) deal(of []int, cells int) {
	d.meter.payBytes((cells + 1) * (cellBytes + len(d.board.units)/8))
	d.meter.pay(len(d.board.units) * (1 + len(d.columns)))
	for n := range cells + 1 {
		d.cells = append(d.cells, &cell{valued: n > 0, units: newBits(len(d.board.units)), capacity: map[uint64]int{}})
	}
	for i := range d.board.units {
		var who uint64
		for k, column := range d.columns {
			if column.has(i) {
				who |= 1 << k
			}
		}
		c := d.cells[of[i]]
		switch {
		case who == 0:
			continue
		case d.board.units[i].multi:
			c.capacity[who] += unbounded
		default:
			c.capacity[who]++
		}
		c.units.set(i)
	}
}

// cellBytes is what an empty cell takes.
const cellBytes = 160

// divideShares returns the division of the devices that can be shared: each is a
// cell, and what is left of its capacities has to go round. It is nil where there
// are none.
func (b *bounds) divideShares(asks []*field, missing []int) *division {
	if !b.board.sharing {
		return nil
	}
	d := &division{bounds: b, effort: divisionEffort}
	for k, f := range asks {
		if b.meter.out() {
			return nil
		}
		if missing[k] > 0 && !f.admin {
			d.add(party{terms: freely, goal: missing[k], each: map[int]int{d.column(f, b.having(f)): 1}})
		}
	}
	of := make([]int, len(b.board.units))
	cells := 0
	b.meter.pay(len(b.board.units))
	for i := range b.board.units {
		if b.board.units[i].multi && slices.ContainsFunc(d.columns, func(units bits) bool { return units.has(i) }) {
			cells++
			of[i] = cells
		}
	}
	if cells == 0 || len(d.columns) > maxMatched {
		return nil
	}
	d.parties = d.parties[:min(len(d.parties), maxJoint)]
	d.deal(of, cells)
	for i, n := range of {
		if n > 0 {
			d.share(d.cells[n], i)
		}
	}
	if b.meter.out() {
		return nil
	}
	return d
}

// goal is what the parties need; more than can be added up in a yield is cut.
func (d *division) goal() yield {
	var goal yield
	for n, p := range d.parties {
		goal[n] = uint8(min(p.goal, mostYielded))
	}
	return goal
}

// goesRound reports whether the cells may yield the goal together.
func (d *division) goesRound() bool {
	goal := d.goal()
	d.reached = []yield{{}}
	for n, c := range d.cells {
		if n > 1 && c.like(d.cells[n-1]) {
			c.yields = d.cells[n-1].yields
		} else {
			d.serve(c, 0, yield{}, make([]int, len(d.columns)))
		}
		if d.effort -= len(d.reached) * len(c.yields) / sumsPerMatching; d.effort <= 0 || d.meter.out() {
			return true
		}
		d.reached = d.board.sums(d.reached, c.yields, &goal)
	}
	return slices.Contains(d.reached, goal)
}

// groups returns how many groups of devices that are alike the division is about,
// and how many of them can be had with everything else.
func (d *division) groups() (need, have int) {
	goal := d.goal()
	for _, y := range d.reached {
		alikes, others := 0, true
		for n, p := range d.parties {
			if p.terms == alike {
				alikes += int(y[n])
			} else {
				others = others && y[n] == goal[n]
			}
		}
		if others {
			have = max(have, alikes)
		}
	}
	for _, p := range d.parties {
		if p.terms == alike {
			need += p.goal
		}
	}
	return need, have
}
