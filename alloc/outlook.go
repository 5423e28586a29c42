// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"slices"

	"kerf.dev/kerf/inventory"
)

// outlook bounds what the chosen asks can still have while the devices of one of
// them are being picked. It is part of the state: what a device changes in it is
// undone with the device. A bound is never below what is possible, and it only
// shrinks on the way down, so it is worked out anew for the component of the
// device alone.
type outlook struct {
	demands []demand
	// of is the demand of each request, -1 for those that are not bounded.
	of []int
}

// demand is one or several asks for the same devices.
type demand struct {
	// lead stands for all of them.
	lead *field
	// most bounds the devices per component; the last entry is for devices
	// that can be had independently of each other. sum adds it up.
	most []int
	sum  int
	// least is what one device takes of each family of counters.
	least []inventory.Amount
}

// outlook is what the requests, which are left to fill, can still have; nil where the budget
// ends before that is known.
func (b *bounds) outlook(order []int) *outlook {
	o := &outlook{of: make([]int, len(b.problem.requests))}
	families, n := b.board.countFamilies()
	for r := range o.of {
		o.of[r] = -1
	}
	for _, f := range b.rest(order) {
		if f.admin || f.all {
			continue
		}
		if b.meter.out() {
			return nil
		}
		at := slices.IndexFunc(o.demands, func(d demand) bool { return sameDemand(d.lead, f) })
		if at < 0 {
			at = len(o.demands)
			b.meter.payBytes(8*len(b.board.members) + 24*n)
			o.demands = append(o.demands, demand{lead: f, most: make([]int, len(b.board.members)+1), least: b.leastDraw(f, f.open, families, n)})
			for c := range o.demands[at].most {
				o.demands[at].set(c, b.mostIn(f, c))
			}
		}
		o.of[f.request] = at
	}
	if b.meter.out() {
		return nil // it is worth nothing
	}
	return o
}

func (d *demand) set(c, most int) {
	d.sum += most - d.most[c]
	d.most[c] = most
}

// sameDemand reports whether two asks can have the same devices on the same
// terms. Asks with constraints stay by themselves, and so do those of different
// claims: what one claim has with admin access is there for another.
func sameDemand(a, b *field) bool {
	return a.claim == b.claim && len(a.limits) == 0 && len(b.limits) == 0 && len(a.consumed) == 0 && len(b.consumed) == 0 && slices.Equal(a.open, b.open)
}

// mostIn bounds how many devices of a component the ask can have at once, or of
// all that stand for themselves. What was set aside for one ask counts: another
// one may have it.
func (b *bounds) mostIn(f *field, c int) int {
	if c == len(b.board.members) {
		n := 0
		for i := range f.open.all() {
			if b.board.alone(i) && b.now.fits(f, i) {
				n++
			}
		}
		return n
	}
	var units []int
	b.meter.pay(1 + len(b.board.members[c])/2)
	for _, i := range b.board.members[c] {
		if !b.board.alone(i) && f.open.has(i) && b.now.fits(f, i) {
			units = append(units, i)
		}
	}
	if len(units) < 2 {
		return len(units)
	}
	if len(f.limits) > 0 {
		return b.packing(f, units)
	}
	key := b.memory.component(c, anyRequest).with(uint64(f.id))
	most, known := b.packs[key]
	if !known {
		most = b.packing(f, units)
		if b.packs == nil {
			b.packs = map[fingerprint]int{}
		}
		b.packs[key] = most
	}
	return most
}

// alone reports whether a unit does not compete for counters with others. Units
// that are shared may have paid for theirs already.
func (b *board) alone(i int) bool { return b.units[i].component < 0 || b.units[i].multi }

// drained reports whether the demands take more of some family of counters than
// is left.
func (b *bounds) drained(o *outlook, need []int) bool {
	counters := len(b.board.families)
	if counters == 0 || len(o.demands) == 0 {
		return false
	}
	left := make([]inventory.Amount, b.board.nFamilies)
	b.meter.pay(4*counters + len(left)*(1+len(need)))
	b.addLeft(left, 0, counters)
	for at, n := range need {
		if !spend(left, o.demands[at].least, n) {
			return true
		}
	}
	return false
}
