// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"kerf.dev/kerf/inventory"
)

// fingerprint identifies a state, or a part of one, up to symmetry: states that
// differ only in which of several equal devices or counter sets plays which part
// have the same one. 128 bits make accidental equality of different states
// practically impossible.
type fingerprint struct{ a, b uint64 }

// with mixes a number in; the order of calls matters.
func (f fingerprint) with(v uint64) fingerprint {
	return fingerprint{scramble(f.a ^ v), scramble(f.b + v*0x9e3779b97f4a7c15 + 0x7f4a7c15)}
}

func (f fingerprint) withBool(v bool) fingerprint {
	if v {
		return f.with(1)
	}
	return f.with(0)
}

func (f fingerprint) withAll(g fingerprint) fingerprint { return f.with(g.a).with(g.b) }

func (f fingerprint) withText(text string) fingerprint {
	f = f.with(uint64(len(text)))
	for i := range len(text) {
		f = f.with(uint64(text[i]))
	}
	return f
}

func (f fingerprint) withAmount(a inventory.Amount) fingerprint {
	hi, lo := a.Words()
	return f.with(hi).with(lo)
}

// plus adds an element of a multiset; the order of calls does not matter.
func (f fingerprint) plus(g fingerprint) fingerprint {
	g = g.with(1)
	return fingerprint{f.a + g.a, f.b + g.b}
}

// scramble is the finalizer of SplitMix64.
func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
