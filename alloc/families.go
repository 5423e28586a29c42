// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"kerf.dev/kerf/inventory"
)

// counterShort: together the asks need more of some counter, or of all counters
// of one size, than is left in all sets.
func (b *bounds) counterShort(rest []*field) bool {
	if len(b.board.sets) == 0 {
		return false
	}
	families, n := b.board.countFamilies()
	b.meter.pay(4*len(families) + n)
	left := make([]inventory.Amount, n)
	b.addLeft(left, 0, len(families))
	for _, f := range rest {
		if b.meter.pay(n * (1 + f.want)); b.meter.out() {
			return false
		}
		if !spend(left, b.leastDraw(f, b.now.openTo(f.request), families, n), f.want) {
			return true
		}
	}
	return false
}

// addLeft adds what is left of some counters to their families.
func (b *bounds) addLeft(to []inventory.Amount, from, end int) {
	for at := from; at < end; at++ {
		if left := b.now.left(at); left.Sign() > 0 {
			for _, family := range b.board.families[at] {
				to[family] = to[family].Add(left)
			}
		}
	}
}

// spend takes what n devices need of each family, and reports whether there was enough.
func spend(left, each []inventory.Amount, n int) bool {
	for family := range left {
		for range n {
			left[family] = left[family].Sub(each[family])
		}
		if left[family].Sign() < 0 {
			return false
		}
	}
	return true
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
func (b *bounds) leastDraw(f *field, devices bits, families [][2]int, n int) []inventory.Amount {
	least := make([]inventory.Amount, n)
	if !f.occupies {
		return least
	}
	first := true
	one := make([]inventory.Amount, n)
	for i := range devices.all() {
		if !b.now.fits(f, i) {
			continue
		}
		b.meter.pay(n + 4*len(b.board.units[i].draws))
		clear(one)
		if !b.now.paid(i) && !b.board.units[i].multi {
			for _, d := range b.board.units[i].draws {
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
