// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
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
// so while anything goes on, one of the process's goroutines runs or is about to. It
// counts and does not measure time: on a busy machine the cluster is as slow as we are.
type stillness struct {
	samples []metrics.Sample
	// calm is how many times in a row nothing ran, looks how many times we have looked.
	calm, looks int
}

func newStillness() *stillness {
	return &stillness{samples: []metrics.Sample{
		{Name: "/sched/goroutines/running:goroutines"},
		{Name: "/sched/goroutines/runnable:goroutines"},
	}}
}

// look looks at the process once, and reports whether it has been at rest for long
// enough to look at the state.
func (s *stillness) look() bool {
	metrics.Read(s.samples)
	s.looks++
	s.calm++
	if s.samples[0].Value.Uint64()+s.samples[1].Value.Uint64() > 1 { // We run.
		s.calm = 0
	}
	return s.calm >= quiet || s.looks >= restless
}

// begin begins to count again.
func (s *stillness) begin() { s.calm, s.looks = 0, 0 }
