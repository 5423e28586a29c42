// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"math"
	"runtime/metrics"
	"time"
)

const (
	// glance is the time between two looks at the process.
	glance = 4 * time.Millisecond
	// quiet is how many times in a row the process has to be found at rest before the
	// state is looked at.
	quiet = 10
	// restless is after how many looks at a process that never rests the state is looked
	// at all the same: something else than the cluster may run in it.
	restless = 250
)

// stillness finds out whether the cluster rests. Nothing of it is outside of this process,
// so while anything goes on, one of the process's goroutines runs, is about to, or is in
// a system call. It counts and does not measure time: on a busy machine the cluster is as
// slow as we are.
type stillness struct {
	samples []metrics.Sample
	// outside is how many goroutines are in a system call when nothing goes on: some
	// wait there for ever.
	outside uint64
	// calm is how many times in a row nothing ran, looks how many times we have looked.
	calm, looks int
}

func newStillness() *stillness {
	return &stillness{samples: []metrics.Sample{
		{Name: "/sched/goroutines/running:goroutines"},
		{Name: "/sched/goroutines/runnable:goroutines"},
		{Name: "/sched/goroutines/not-in-go:goroutines"},
	}, outside: math.MaxUint64}
}

// look looks at the process once, and reports whether it has been at rest for long
// enough to look at the state.
func (s *stillness) look() bool {
	metrics.Read(s.samples)
	running, runnable, outside := s.samples[0].Value.Uint64(), s.samples[1].Value.Uint64(), s.samples[2].Value.Uint64()
	s.looks++
	s.calm++
	if running+runnable > 1 || outside != s.outside { // One runs: this.
		s.calm = 0
	}
	s.outside = min(s.outside, outside)
	return s.calm >= quiet || s.looks >= restless
}

// begin begins to count again.
func (s *stillness) begin() { s.calm, s.looks = 0, 0 }
