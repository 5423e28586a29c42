// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"kerf.dev/kerf/inventory"
)

// position is the state of a search as those see it who only work something out about it:
// bounds, scales and the memory. There is no method here that leaves a change behind, and
// sets that are returned belong to the state.
type position interface {
	// openTo are the candidates that are still worth trying for a request.
	openTo(request int) bits
	// askOf is the chosen alternative of a request, or what stands for all of them.
	askOf(request int) *field
	// limitOf are the values that a constraint still admits or, where they must differ,
	// those spent; nil before the first device.
	limitOf(constraint int) bits
	// left is what is left of a counter.
	left(counter int) inventory.Amount
	// groupsOf are the groups in common of the devices taken of a counter set, nil for
	// everything.
	groupsOf(set int) []int32
	// inUse: the unit cannot be given out again; pickedFor: not to the claim, which has it.
	inUse(i int) bool
	pickedFor(claim, i int) bool
	// paid reports whether the counters of the unit have been charged.
	paid(i int) bool
	// devicesOf counts the devices chosen for a claim; choices lists them for all.
	devicesOf(claim int) int
	choices() []choice

	// fits reports whether the ask can have the unit in addition to what was chosen;
	// fitting are all that do.
	fits(f *field, i int) bool
	fitting(f *field) bits
	// admits reports whether counters and groups have room for an unpaid unit.
	admits(u *unit) bool
	// with gives the unit, which must fit, to the ask while it looks, and takes it back.
	with(f *field, i int, look func())
}

func (s *state) openTo(request int) bits           { return s.open[request] }
func (s *state) askOf(request int) *field          { return s.asks[request] }
func (s *state) limitOf(constraint int) bits       { return s.limits[constraint] }
func (s *state) left(counter int) inventory.Amount { return s.free[counter] }
func (s *state) groupsOf(set int) []int32          { return s.groups[set] }
func (s *state) inUse(i int) bool                  { return s.used.has(i) }
func (s *state) pickedFor(claim, i int) bool       { return s.picked[claim].has(i) }
func (s *state) devicesOf(claim int) int           { return s.devices[claim] }
func (s *state) choices() []choice                 { return s.chosen }

func (s *state) with(f *field, i int, look func()) {
	m := s.mark()
	s.take(f, i)
	look()
	s.undo(m)
}
