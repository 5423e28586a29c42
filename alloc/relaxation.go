// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"slices"

	"kerf.dev/kerf/inventory"
)

// relaxation stands for a request whose alternative is not chosen yet: whatever
// is possible with one of the alternatives is possible with it. Bounds take it
// into account; it is never filled.
func (b *board) relaxation(r *request) *field {
	var of []*field
	for _, a := range r.asks {
		if f := b.fields[a.id]; !f.impossible {
			of = append(of, f)
		}
	}
	if len(of) == 0 {
		return nil
	}
	b.meter.payBytes(fieldBytes + 8*len(of[0].open)*len(of) + 24*len(of[0].limits))
	relaxed := &field{ask: &ask{id: -1 - of[0].request, request: of[0].request, claim: r.claim, occupies: true}, want: of[0].want, sight: &sight{open: newBits(len(b.units))}}
	for _, f := range of {
		relaxed.want = min(relaxed.want, f.want)
		relaxed.open.add(f.open)
		b.meter.pay(valueWork * len(f.consumed))
		for i, amounts := range f.consumed {
			if amounts == nil {
				continue
			}
			relaxed.consumeLeast(i, amounts)
		}
	}
	if len(of[0].derived) == 0 && !slices.ContainsFunc(of, func(f *field) bool { return f.sight != of[0].sight || !slices.Equal(f.limits, of[0].limits) }) {
		relaxed.limits, relaxed.values = of[0].limits, of[0].values
		return relaxed
	}
	for _, c := range of[0].limits {
		b.addLimit(relaxed, c, b.problem.constraints[c], of)
	}
	return relaxed
}

// undecided reports whether the ask is a relaxation.
func (f *field) undecided() bool { return f.id < 0 }

func (f *field) consumeLeast(i int, amounts []inventory.Amount) {
	if f.consumed == nil {
		f.consumed = make([][]inventory.Amount, 64*len(f.open))
	}
	known := f.consumed[i]
	if known == nil {
		f.consumed[i] = slices.Clone(amounts)
		return
	}
	for k, amount := range amounts {
		if amount.Cmp(known[k]) < 0 {
			known[k] = amount
		}
	}
}

// addLimit adds a constraint that applies to all alternatives and sees the same
// values for all.
func (b *board) addLimit(f *field, c int, of *constraint, alternatives []*field) {
	var values [][]int32
	b.meter.pay(len(alternatives) * len(alternatives[0].limits))
	for _, a := range alternatives {
		k := slices.Index(a.limits, c)
		if _, derived := a.derived[of.attribute]; derived || k < 0 {
			return
		}
		values = a.values[k] // all see what is published
	}
	f.limits, f.values = append(f.limits, c), append(f.values, values)
}
