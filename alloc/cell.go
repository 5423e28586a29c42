// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"maps"
	"slices"

	"kerf.dev/kerf/inventory"
)

// cell has the devices with one value of the attribute, or those with none; or one
// that is shared.
type cell struct {
	valued bool
	units  bits
	// capacity counts the units by the set of columns that they are in.
	capacity map[uint64]int
	// left is what there is of each family of counters, or of each capacity of
	// a unit that is shared; least is what a unit of each column takes of it.
	left  []inventory.Amount
	least [][]inventory.Amount
	// yields are the ways to serve the parties.
	yields []yield
}

// share notes the capacities of the one unit of the cell.
func (d *division) share(c *cell, i int) {
	d.meter.payBytes(24 * len(d.board.units[i].shares) * (1 + len(d.asks)))
	for _, sh := range d.board.units[i].shares {
		c.left = append(c.left, d.now.left(sh.counter))
	}
	for _, f := range d.asks {
		least := make([]inventory.Amount, len(c.left))
		copy(least, f.consumedOf(i))
		c.least = append(c.least, least)
	}
}

// like reports whether two cells have as much for everybody.
func (c *cell) like(other *cell) bool {
	return maps.Equal(c.capacity, other.capacity) && slices.Equal(c.left, other.left) && slices.EqualFunc(c.least, other.least, slices.Equal)
}

// serve notes what the cell can give to the parties from the n-th on, after it has
// given what is needed of each column to those before.
func (d *division) serve(c *cell, n int, y yield, need []int) {
	if n == len(d.parties) {
		c.yields = keep(c.yields, y)
		return
	}
	p := &d.parties[n]
	given := 0
	for most := d.most(c, n); given < most; given++ {
		p.give(need, 1)
		d.meter.pay(len(c.left) * len(need) * 4)
		if d.effort--; !d.board.matched(need, c.capacity) || !c.hold(need) {
			p.give(need, -1)
			break
		}
	}
	for last := n == len(d.parties)-1; d.effort > 0; given-- {
		y[n] = uint8(given)
		d.serve(c, n+1, y, need)
		if given == 0 || last {
			break // less for the last is never better
		}
		p.give(need, -1)
	}
	p.give(need, -given)
}

// most is how many groups of a party a cell may serve.
func (d *division) most(c *cell, n int) int {
	p := &d.parties[n]
	switch {
	case p.terms != freely && !c.valued:
		return 0
	case p.terms == apart:
		return min(p.goal, 1)
	}
	return min(p.goal, mostYielded)
}

// give adds what some groups take of each column.
func (p *party) give(need []int, groups int) {
	for k, each := range p.each {
		need[k] += groups * each
	}
}

// count sums up the counters that the units of a cell draw from.
func (d *division) count(c *cell) {
	if len(d.board.sets) == 0 {
		return
	}
	families, n := d.board.countFamilies()
	d.meter.payBytes(24 * n * (1 + len(d.columns)))
	d.meter.pay(len(d.board.sets)/8 + 2*len(families))
	c.left = make([]inventory.Amount, n)
	sets := newBits(len(d.board.sets))
	for i := range c.units.all() {
		for _, g := range d.board.units[i].sets {
			sets.set(g.set)
		}
	}
	for set := range sets.all() {
		d.addLeft(c.left, d.board.sets[set].first, min(d.board.sets[set].end, len(families)))
	}
	for k, column := range d.columns {
		least := make([]inventory.Amount, n)
		if f := d.asks[k]; f != nil {
			both := c.units.clone()
			both.keep(column)
			least = d.leastDraw(f, both, families, n)
		}
		c.least = append(c.least, least)
	}
}

// hold reports whether the counters may suffice.
func (c *cell) hold(need []int) bool {
	for family, left := range c.left {
		for k, n := range need {
			for range n {
				left = left.Sub(c.least[k][family])
			}
		}
		if left.Sign() < 0 {
			return false
		}
	}
	return true
}
