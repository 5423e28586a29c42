// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// holders are the devices with each value of a constraint's attribute that some of
// the asks can have.
type holders struct {
	*bounds
	asks []*field
	// of has the holdings of each value.
	of [][]holding
}

// holding is a device with a value, and the set of asks that can have it for that.
type holding struct {
	unit int
	who  uint64
}

func (b *bounds) holders(c int, asks []*field) *holders {
	h := &holders{bounds: b, asks: asks, of: make([][]holding, len(b.board.valueIDs[c]))}
	b.meter.payBytes(24 * len(h.of))
	if values := b.seenByAll(c, asks); values != nil {
		for i, who := range b.who(asks) {
			if b.meter.pay(2 + 2*len(values[i])); b.meter.out() {
				return h
			}
			if who != 0 {
				h.add(values[i], i, who)
			}
		}
		return h
	}
	for k, f := range asks {
		values := f.values[slices.Index(f.limits, c)]
		for i := range b.having(f).all() {
			if b.meter.out() {
				return h
			}
			b.meter.payBytes(16 * len(values[i]))
			h.add(values[i], i, 1<<k)
		}
	}
	return h
}

// seenByAll are the values of a constraint's attribute where all asks see the same, nil
// where they do not.
func (b *bounds) seenByAll(c int, asks []*field) [][]int32 {
	var all [][]int32
	for _, f := range asks {
		b.meter.pay(1 + len(f.limits)/4)
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

// add notes that asks can have a unit with these values. Units come in ascending order
// for each ask.
func (h *holders) add(values []int32, unit int, asks uint64) {
	for _, v := range values {
		of := h.of[v]
		at, found := slices.BinarySearchFunc(of, unit, func(one holding, unit int) int { return one.unit - unit })
		h.meter.pay(4)
		if found {
			of[at].who |= asks
			continue
		}
		h.meter.pay((len(of) - at) / 4)
		h.of[v] = slices.Insert(of, at, holding{unit, asks})
	}
}

// alike counts the devices with one value by the set of asks that can have them.
func (h *holders) alike(v int) map[uint64]int {
	capacity := map[uint64]int{}
	admin := slices.ContainsFunc(h.asks, func(f *field) bool { return f.admin })
	h.meter.pay(4 + 4*len(h.of[v]))
	for _, one := range h.of[v] {
		if h.board.units[one.unit].multi || admin {
			capacity[one.who] += resourceapi.AllocationResultsMaxSize
		} else {
			capacity[one.who]++
		}
	}
	return capacity
}
