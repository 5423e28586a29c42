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
func (s *search) having(f *field) bits {
	s.meter.payBytes(8 * len(f.open))
	having := s.open[f.request].clone()
	for w, fits := range s.fitting(f) {
		having[w] &= fits
	}
	return having
}

// fitting has the candidates that fit in addition to what was chosen, see [state.fits].
// It is found out once for all asks of a claim that look for the same, until something is
// taken or given back.
func (s *search) fitting(f *field) bits {
	lead := s.leadOf(f)
	known := &lead.fitting
	if known.units != nil && known.at == s.moment {
		return known.units
	}
	if known.units == nil {
		s.meter.payBytes(8 * len(f.open))
		known.units = newBits(len(s.units))
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
func (s *search) leadOf(f *field) *field {
	if f.undecided() {
		return f
	}
	if lead := s.fields[f.firstOfClaim]; slices.Equal(lead.limits, f.limits) {
		return lead
	}
	return f
}

// forAll are the units that each of the asks can have.
func (s *search) forAll(asks []*field) bits {
	var all bits
	for _, f := range asks {
		s.meter.pay(len(f.open) / 2)
		fits, open := s.fitting(f), s.open[f.request]
		if all == nil {
			all = open.clone()
		}
		for w := range all {
			all[w] &= fits[w] & open[w]
		}
	}
	return all
}

// who has for each unit the asks, at most 64, that can have it.
func (s *search) who(asks []*field) []uint64 {
	s.meter.payBytes(8 * len(s.units))
	who := make([]uint64, len(s.units))
	for k, f := range asks {
		fits, n := s.fitting(f), 0
		for w, open := range s.open[f.request] {
			for i := range (bits{open & fits[w]}).all() {
				who[w<<6+i] |= 1 << k
				n++
			}
		}
		if s.meter.pay(len(fits) + n/4); s.meter.out() {
			break
		}
	}
	return who
}
