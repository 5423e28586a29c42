// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

// A pod may have thousands of requests. Where the first claims cannot be satisfied, there
// is no need to look at the others.

const (
	// manyRequests is how many there are where the first claims are looked at before
	// all, firstClaims how many of these at most.
	manyRequests, firstClaims = 96, 8
)

// refutedEarly reports whether the requests of the first claims cannot be filled, for a
// reason that shows by counting: those of the first one, else those of twice as many.
// They are the suspects then.
func (s *search) refutedEarly() bool {
	if len(s.requests) < manyRequests {
		return false
	}
	defer s.meter.within(promptWork)()
	sub := newSearch(s.board, 0)
	for claims, end := 1, 0; claims <= firstClaims; claims *= 2 {
		for ; end < len(s.requests) && s.requests[end].claim < claims; end++ {
			if !s.completeRequest(end) {
				return false
			}
		}
		if end == len(s.requests) {
			return false // all are looked at anyway
		}
		if end == 0 {
			continue // claims may be empty
		}
		part := natural(end)
		if !sub.settle(part) {
			return !s.meter.out() // one is impossible by itself
		}
		sub.order = part
		if sub.refutedByCounting(0) && !s.meter.out() {
			s.suspects = part
			return true
		}
		sub.undo(0)
	}
	return false
}

// completeRequest judges all units for all alternatives of a request, if there is work
// enough.
func (s *search) completeRequest(r int) bool {
	for _, a := range s.requests[r].asks {
		if s.complete(s.fields[a.id]) != nil {
			return false
		}
	}
	return true
}
