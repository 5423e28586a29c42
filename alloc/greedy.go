// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	resourceapi "k8s.io/api/resource/v1"
)

// greedy fills the requests in order with the first devices that fit, looking at
// no more devices than that takes. Where it succeeds it has found the first
// solution in listed order; where it fails the state is as before and nothing
// is known.
func (s *search) greedy() (done bool, err error) {
	for _, r := range s.requests {
		done, err := s.greedyAsk(s.fields[r.asks[0].id])
		if !done || err != nil {
			s.undo(0)
			return false, err
		}
	}
	s.solution = s.chosen
	return true, nil
}

// greedyAsk fills the first alternative of a request. Whether a later one may be
// used instead is for the search to find out.
func (s *search) greedyAsk(f *field) (done bool, err error) {
	if f.all {
		if err := s.complete(f); err != nil {
			return false, err
		}
		if f.impossible {
			return false, nil
		}
	}
	if s.devices[f.claim]+f.want > resourceapi.AllocationResultsMaxSize {
		return false, nil
	}
	s.choose(f)
	missing := f.want
	for i := 0; i < len(s.units) && missing > 0; i++ {
		if u := &s.units[i]; !u.multi && !f.admin && (s.used.has(i) || u.occupied()) {
			continue // cheap to find out, so that selectors need not be asked
		}
		if err := s.judge(f, i); err != nil && s.options.Stock {
			return false, err
		}
		switch {
		case !f.open.has(i):
		case s.steps >= s.budget:
			return false, nil
		case s.fits(f, i):
			s.steps++
			s.take(f, i)
			missing--
		case f.all:
			return false, s.keptOut(f, i)
		}
	}
	return missing == 0, nil
}
