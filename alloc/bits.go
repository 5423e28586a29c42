// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"iter"
	mathbits "math/bits"
	"slices"
)

// bits is a set of small integers. Sets that are combined have equal length.
type bits []uint64

func newBits(n int) bits { return make(bits, (n+63)/64) }

// has is false for everything beyond the length of the set.
func (b bits) has(i int) bool { return i>>6 < len(b) && b[i>>6]&(1<<(i&63)) != 0 }
func (b bits) set(i int)      { b[i>>6] |= 1 << (i & 63) }
func (b bits) clear(i int)    { b[i>>6] &^= 1 << (i & 63) }
func (b bits) clone() bits    { return slices.Clone(b) }

// add puts in the members of another set, keep leaves those of both.
func (b bits) add(other bits) {
	for w, word := range other {
		b[w] |= word
	}
}

func (b bits) keep(other bits) {
	for w, word := range other {
		b[w] &= word
	}
}

// count is the number of members.
func (b bits) count() int {
	n := 0
	for _, w := range b {
		n += mathbits.OnesCount64(w)
	}
	return n
}

// all yields the members in ascending order.
func (b bits) all() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range b {
			for ; w != 0; w &= w - 1 {
				if !yield(i<<6 + mathbits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}
