// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"slices"
)

// packEffort bounds the work of packing one component exactly.
const packEffort = 512

// packed returns how many devices the ask could have at most if it were alone:
// for each component the largest number that its counters hold together.
func (s *search) packed(f *field) int {
	var loose int
	of := make([][]int, len(s.members))
	for i := range s.open[f.request].all() {
		switch c := s.units[i].component; {
		case !s.fits(f, i):
		case c < 0 || !s.occupies(f) || s.units[i].multi:
			loose++
		default:
			of[c] = append(of[c], i)
		}
	}
	known := map[fingerprint]int{}
	for c, units := range of {
		if len(units) == 0 {
			continue
		}
		if loose >= f.want {
			return loose
		}
		key := s.component(c, f.request)
		most, found := known[key]
		if !found {
			most = s.packing(f, units)
			known[key] = most
		}
		loose += most
	}
	return loose
}

// packing returns how many of the units the ask could have together at most.
func (s *search) packing(f *field, units []int) int {
	p := packer{search: s, field: f, effort: packEffort}
	p.pack(units, 0)
	if p.effort < 0 {
		return len(units)
	}
	return p.most
}

// packer finds the largest subset of units that fit together.
type packer struct {
	*search
	field        *field
	most, effort int
}

func (p *packer) pack(units []int, taken int) {
	p.most = max(p.most, taken)
	for n, i := range units {
		if taken+len(units)-n <= p.most || p.effort < 0 {
			return
		}
		p.effort--
		if !p.fits(p.field, i) {
			continue
		}
		m := p.mark()
		p.take(p.field, i)
		p.pack(units[n+1:], taken+1)
		p.undo(m)
	}
}

// groupShortage says that groups of asks, each tied together by a constraint on
// one attribute, need more values of it than can be had.
type groupShortage struct {
	constraint int // one of them
	need, have int
}

// groupsMissing: constraints of equal shape, such as several pairs of a GPU and
// a NIC on one PCIe root each, compete for the values of one attribute. That
// holds for constraints on different asks only.
func (s *search) groupsMissing(rest []*field) *groupShortage {
	type shape struct {
		asks   [][]*field // of each constraint
		limits []int
	}
	var shapes []shape
	for c, of := range s.constraints {
		if of.distinct || s.limits[c] != nil {
			continue
		}
		asks := limited(rest, c)
		if len(asks) == 0 {
			continue
		}
		at := slices.IndexFunc(shapes, func(other shape) bool {
			return s.constraints[other.limits[0]].attribute == of.attribute && s.alike(other.asks[0], asks) &&
				!slices.ContainsFunc(other.asks, func(of []*field) bool { return overlap(of, asks) })
		})
		if at < 0 {
			shapes = append(shapes, shape{})
			at = len(shapes) - 1
		}
		shapes[at].asks = append(shapes[at].asks, asks)
		shapes[at].limits = append(shapes[at].limits, c)
	}
	for _, sh := range shapes {
		if len(sh.limits) < 2 {
			continue
		}
		if possible := s.groupsPossible(sh.limits[0], sh.asks[0]); possible < len(sh.limits) {
			return &groupShortage{constraint: sh.limits[0], need: len(sh.limits), have: possible}
		}
	}
	return nil
}

func overlap(a, b []*field) bool {
	return slices.ContainsFunc(a, func(f *field) bool { return slices.Contains(b, f) })
}

// alike reports whether two lists of asks want as much of the same candidates.
func (s *search) alike(a, b []*field) bool {
	return slices.EqualFunc(a, b, func(x, y *field) bool {
		return x.want == y.want && x.admin == y.admin && slices.Equal(s.open[x.request], s.open[y.request])
	})
}

// groupsPossible counts how often the asks could be filled, each time with
// devices of one value.
func (s *search) groupsPossible(c int, asks []*field) int {
	total := 0
	for v := range len(s.valueIDs[c]) {
		possible := -1
		for k, f := range asks {
			if n := s.havingValue(c, f, v) / s.wantOfEqual(asks, k); possible < 0 || n < possible {
				possible = n
			}
		}
		total += possible
	}
	return total
}

// wantOfEqual sums up what all asks want that have the same candidates as ask k.
func (s *search) wantOfEqual(asks []*field, k int) int {
	want := 0
	for _, f := range asks {
		if slices.Equal(s.open[f.request], s.open[asks[k].request]) {
			want += f.want
		}
	}
	return want
}

// unbounded stands for as many devices as anybody may want.
const unbounded = 1 << 20

// havingValue counts the devices with a value that the ask could have.
func (s *search) havingValue(c int, f *field, v int) int {
	k := slices.Index(f.limits, c)
	n := 0
	for i := range s.open[f.request].all() {
		if !slices.Contains(f.values[k][i], int32(v)) || !s.fits(f, i) {
			continue
		}
		if s.units[i].multi || f.admin {
			return unbounded
		}
		n++
	}
	return n
}
