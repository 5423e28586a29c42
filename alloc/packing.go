// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

// packEffort bounds the work of packing one component exactly.
const packEffort = 512

// packed returns how many devices the ask could have at most if it were alone:
// for each component the largest number that its counters hold together.
func (b *bounds) packed(f *field) int {
	var loose int
	of := make([][]int, len(b.board.members))
	for i := range b.now.openTo(f.request).all() {
		switch c := b.board.units[i].component; {
		case !b.now.fits(f, i):
		case c < 0 || !f.occupies || b.board.units[i].multi:
			loose++
		default:
			of[c] = append(of[c], i)
		}
	}
	known := map[fingerprint]int{}
	b.meter.payBytes(24*len(of) + 8*f.n)
	for c, units := range of {
		if b.meter.out() {
			return f.want // for all that is known
		}
		if len(units) == 0 {
			continue
		}
		if loose >= f.want {
			return loose
		}
		key := b.memory.component(c, f.request)
		most, found := known[key]
		if !found {
			most = b.packing(f, units)
			known[key] = most
		}
		loose += most
	}
	return loose
}

// packing returns how many of the units the ask could have together at most.
func (b *bounds) packing(f *field, units []int) int {
	p := packer{bounds: b, field: f, effort: packEffort}
	p.look = func() { p.pack(p.rest, p.taken) }
	p.pack(units, 0)
	if p.effort < 0 {
		return len(units)
	}
	return p.most
}

// packer finds the largest subset of units that fit together.
type packer struct {
	*bounds
	field        *field
	most, effort int
	// look packs the rest once a unit was taken; it is made once, for there are many units.
	look  func()
	rest  []int
	taken int
}

func (p *packer) pack(units []int, taken int) {
	p.most = max(p.most, taken)
	for n, i := range units {
		if taken+len(units)-n <= p.most || p.effort < 0 {
			return
		}
		p.effort--
		if !p.now.fits(p.field, i) {
			continue
		}
		p.rest, p.taken = units[n+1:], taken+1
		p.now.with(p.field, i, p.look)
	}
}
