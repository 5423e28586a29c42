// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"slices"
)

// fitting are the units that fit an ask at a moment of a search.
type fitting struct {
	units bits
	// at is the state.moment for which they are known.
	at int
}

// having is the set of units that an ask can have as things stand; what is not open to
// it is out. Where the end of the budget cuts this short there are too few, so whoever
// proves something asks for that afterwards.
func (b *bounds) having(f *field) bits {
	b.meter.payBytes(8 * len(f.open))
	having := b.now.openTo(f.request).clone()
	having.keep(b.now.fitting(f))
	return having
}

// fitting has the candidates that fit in addition to what was chosen, see [state.fits].
// It is found out once for all asks of a claim that look for the same, until something is
// taken or given back.
func (s *state) fitting(f *field) bits {
	lead := s.leadOf(f)
	known := &lead.fitting
	if known.units != nil && known.at == s.moment {
		return known.units
	}
	if known.units == nil {
		s.meter.payBytes(8 * len(f.open))
		known.units = newBits(len(s.board.units))
	} else {
		clear(known.units)
	}
	known.at = 0
	for i := range lead.open.all() {
		if s.fits(lead, i) {
			known.units.set(i)
		}
		if s.meter.out() {
			return known.units
		}
	}
	known.at = s.moment
	return known.units
}

// leadOf is the first ask of the claim that the same units fit.
func (s *state) leadOf(f *field) *field {
	if f.undecided() {
		return f
	}
	if lead := s.board.fields[f.firstOfClaim]; slices.Equal(lead.limits, f.limits) {
		return lead
	}
	return f
}

// forAll are the units that each of the asks can have.
func (b *bounds) forAll(asks []*field) bits {
	var all bits
	for _, f := range asks {
		b.meter.pay(len(f.open) / 2)
		if all == nil {
			all = b.now.openTo(f.request).clone()
		}
		all.keep(b.now.fitting(f))
		all.keep(b.now.openTo(f.request))
	}
	return all
}

// who has for each unit the asks, at most 64, that can have it.
func (b *bounds) who(asks []*field) []uint64 {
	b.meter.payBytes(8 * len(b.board.units))
	who := make([]uint64, len(b.board.units))
	for k, f := range asks {
		fits, n := b.now.fitting(f), 0
		for w, open := range b.now.openTo(f.request) {
			for i := range (bits{open & fits[w]}).all() {
				who[w<<6+i] |= 1 << k
				n++
			}
		}
		if b.meter.pay(len(fits) + n/4); b.meter.out() {
			break
		}
	}
	return who
}
