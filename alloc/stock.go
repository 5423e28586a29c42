// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"errors"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kerf.dev/kerf/inventory"
)

// stock is the stock allocator's reading of the API, where it is not this package's
// own:
//
//   - A selector, a derived attribute or a capacity that cannot be evaluated on a
//     device is an error of Allocate, but only if the stock allocator, which tries
//     one device after the other, would come across it before it has a solution.
//   - So is a request for all devices one of which a constraint keeps out, and a
//     claim that needs more devices than it may have whatever is chosen.
//   - Admin access needs what everybody needs, except that the device may be taken.
//   - Selectors are not asked about a device that a claim has as a whole. They are
//     about one that cannot be shared and of which there are shares.
//   - Capacity is checked for devices that cannot be shared, too.
type stock struct{ rules StockRules }

// StockRules say how the stock allocator behaves with some of its features
// switched off. The zero value has them all on.
type StockRules struct {
	// Scalars: constraints compare scalars alone. A list is accepted of the first
	// device and of no other; with a matched attribute it stays alone.
	Scalars bool
	// Unshared: no device can be shared, and capacities do not matter.
	Unshared bool
	// Admit, where set, is asked about devices that the selectors match.
	Admit func(*inventory.Device) (Admission, error)
	// Consumption, where set, says what a request consumes of a capacity; nil
	// is a request that does not mention it. ok is false where the capacity's
	// policy refuses the request.
	Consumption func(requested *resource.Quantity, c *resourceapi.DeviceCapacity) (q resource.Quantity, ok bool, err error)
}

// Admission is whether a device may be had that the selectors match.
type Admission int

const (
	// Admitted: it may.
	Admitted Admission = iota
	// Barred: it may not; a request for all devices fails for it.
	Barred
	// Foreign: it counts as not selected.
	Foreign
)

// AllError says that a constraint keeps a device out of a request for all.
type AllError struct {
	RequestRef
	Device inventory.DeviceID
}

// Error names the claim, the request and the device.
func (e *AllError) Error() string {
	return fmt.Sprintf("claim %s, request %s: cannot add device %s because a claim constraint would not be satisfied", e.Claim, e.Request, e.Device)
}

// LimitError says that a claim needs too many devices, whatever is chosen.
type LimitError struct {
	RequestRef
	// Adding devices to those that the requests Before it need is more than
	// Limit.
	Adding, Before, Limit int
}

// Error names the claim, the request and the numbers.
func (e *LimitError) Error() string {
	return fmt.Sprintf("claim %s, request %s: adding %d devices exceeds the claim limit of %d, with %d already accounted for",
		e.Claim, e.Request, e.Adding, e.Limit, e.Before)
}

// DeviceError says that a capacity or a derived attribute of a device cannot be
// worked out.
type DeviceError struct {
	RequestRef
	// All: the request is for all devices.
	All    bool
	Device inventory.DeviceID
	// Attribute is the derived attribute, Capacity the capacity at fault; both
	// are empty where the device cannot be admitted.
	Attribute resourceapi.FullyQualifiedName
	Capacity  resourceapi.QualifiedName
	Err       error
}

// Error names the claim, the request, the device and what is at fault.
func (e *DeviceError) Error() string {
	what := "node selection"
	switch {
	case e.Attribute != "":
		what = "derived attribute " + string(e.Attribute)
	case e.Capacity != "":
		what = "capacity " + string(e.Capacity)
	}
	return fmt.Sprintf("claim %s, request %s: device %s: %s: %v", e.Claim, e.Request, e.Device, what, e.Err)
}

// Unwrap returns the underlying error.
func (e *DeviceError) Unwrap() error { return e.Err }

// fault is an error that a field has in store for whoever comes across a device.
type fault struct {
	err error
	// limit is the position in ask.limits of the derived attribute at fault, -1
	// where the device itself cannot be judged.
	limit int
}

// patience is how many choices the walk that looks for errors may take back. In
// problems that need more, the search decides, and an error that is left over is
// taken for one that the stock allocator would have come across.
const patience = 1_000_000

// allocate tries first fit, and searches where that would have to take much back.
func (*stock) allocate(p *Problem, view *inventory.View) (Outcome, error) {
	b := newBoard(p, view)
	s := newSearch(b, p.options.StepBudget)
	v, err := unknown, b.checkLimits()
	if err == nil {
		v, err = s.walk(0)
	}
	if v == unknown && err == nil {
		if b.judgeAll(); b.faulty() {
			v, err = s.walk(patience)
		}
	}
	if v == unknown && err == nil {
		v, err = s.solveStock()
	}
	if err != nil && !errors.Is(err, errSpent) {
		return Outcome{}, err
	}
	if err != nil || s.meter.stopped {
		v = unknown
	}
	return s.outcome(v), nil
}

// solveStock searches; a refusal comes with the error that is left over.
func (s *search) solveStock() (verdict, error) {
	if err := s.board.completeAll(); err != nil {
		return no, err
	}
	s.hard = true
	v := s.solve()
	if v == no {
		return v, s.board.leftOver()
	}
	return v, nil
}

// leftOver returns the first fault of the first request that has one.
func (b *board) leftOver() error {
	for _, f := range b.fields {
		for i := range b.units {
			if fault, found := f.faults[i]; found {
				return fault.err
			}
		}
	}
	return nil
}

// checkLimits finds out what requests for all devices need, and whether claims
// can have what they need at least.
func (b *board) checkLimits() error {
	for r, before := 0, 0; r < len(b.problem.requests); r++ {
		if r > 0 && b.problem.requests[r].claim != b.problem.requests[r-1].claim {
			before = 0
		}
		adding := -1
		for _, a := range b.problem.requests[r].asks {
			f := b.fields[a.id]
			if f.all {
				if err := b.complete(f); err != nil {
					return err
				}
			}
			if adding < 0 || f.told() < adding {
				adding = f.told()
			}
		}
		if adding > resourceapi.AllocationResultsMaxSize-before { // a sum could overflow
			ref := RequestRef{Claim: claimName(b.problem.claims[b.problem.requests[r].claim]), Request: b.problem.requests[r].name}
			return &LimitError{RequestRef: ref, Adding: adding, Before: before, Limit: resourceapi.AllocationResultsMaxSize}
		}
		before += adding
	}
	return nil
}

func (b *board) judgeAll() {
	for _, f := range b.fields {
		for i := range b.units {
			if b.judge(f, i); b.meter.out() {
				return
			}
		}
	}
}

// faulty reports whether the stock allocator might end with an error.
func (b *board) faulty() bool {
	for _, f := range b.fields {
		if len(f.faults) > 0 || f.all && len(f.limits) > 0 {
			return true
		}
	}
	return false
}

// admission is that of a device which the selectors match.
func (s *stock) admission(f *field, u *unit) (Admission, error) {
	if s.rules.Admit == nil {
		return Admitted, nil
	}
	a, err := s.rules.Admit(u.dev)
	if err != nil {
		return Foreign, &DeviceError{RequestRef: f.ref, All: f.all, Device: u.dev.ID, Err: err}
	}
	return a, nil
}

// fold: the order matters where devices are taken that should not be together. Those for
// the node come first, and what has no groups and what has do not change each other.
func (*stock) fold(b *board, pv *inventory.PoolView, sets int, groupIDs map[string]int32) {
	fold := func(all, more []int32) []int32 {
		if all != nil && (more[0] == noGroups[0] || len(all) > 0 && all[0] == noGroups[0]) {
			return all
		}
		return common(all, more)
	}
	near := newBits(len(pv.Pool.Devices))
	for _, d := range pv.Devices {
		near.set(d.Index)
		if pv.Use.Taken[d.Index] != nil {
			b.foldDevice(d, sets, groupIDs, fold)
		}
	}
	for i, d := range pv.Pool.Devices {
		if pv.Use.Taken[i] != nil && !near.has(i) {
			b.foldDevice(d, sets, groupIDs, fold)
		}
	}
}

func (*stock) object(*InputError) error { return nil }

// ask: errors are about asks, so none looks for the same as another. Nothing is kept for
// a claim.
func (*stock) ask(_ *Problem, a *ask) {
	a.occupies, a.first, a.firstOfClaim = true, a.id, a.id
}

func (*stock) least() int { return 0 }

func (s *stock) occupy(u *unit) {
	u.multi = u.dev.MultiAlloc() && !s.rules.Unshared
	if u.taken != nil {
		u.dismissed, u.held = u.taken.Dedicated, u.taken.Dedicated || !u.multi
		u.charged = u.multi && u.taken.Shares > 0
	}
}

func (*stock) measure(*board) {} // nobody compares costs

func (s *stock) judge(b *board, f *field, i int) Stage {
	if b.units[i].dismissed && !f.admin && !f.all {
		return StageFree // nobody asks whether the selectors match
	}
	stage, selectorErr := b.selects(f, &b.units[i])
	var err error
	if selectorErr != nil {
		err = selectorErr
	} else if stage == StageFree {
		stage, err = s.available(b, f, i)
	}
	if err != nil && stage != StageDevices {
		s.fail(b, f, i, fault{err, -1})
	}
	if stage == StageCapacity && f.all {
		b.readValues(f, i) // constraints come first, see walker.all
	}
	return stage
}

// available is the stock allocator's order of what [board.available] checks.
func (s *stock) available(b *board, f *field, i int) (Stage, error) {
	u := &b.units[i]
	admission, err := s.admission(f, u)
	if admission == Foreign {
		return StageSelector, err
	}
	enough, err := b.consume(f, i)
	switch {
	case err != nil:
		return StageCapacity, err
	case !f.admin && u.held:
		return StageFree, nil
	case admission == Barred || !b.tolerates(f.ask, u):
		return StageTaints, nil
	case !b.payable(u):
		return StageCounters, nil
	case !enough || !u.multi && s.exceeds(f, u):
		return StageCapacity, nil
	}
	return StageConstraints, nil
}

// exceeds reports whether an ask takes more of a unit than shares of it have left, which
// are from when it could be shared.
func (s *stock) exceeds(f *field, u *unit) bool {
	if u.taken == nil || s.rules.Unshared {
		return false
	}
	for name, c := range u.dev.Spec.Capacity {
		q, _, _ := s.consumption(f.requested(u.dev.ID.Driver, name), &c) // consume told of errors
		if u.taken.ConsumedOf(u.dev.ID.Driver, name).Add(inventory.AmountOf(q)).Cmp(inventory.AmountOf(c.Value)) > 0 {
			return true
		}
	}
	return false
}

// fail keeps the first fault of a unit.
func (*stock) fail(_ *board, f *field, i int, found fault) {
	if f.faults == nil {
		f.faults = map[int]fault{}
	}
	if _, known := f.faults[i]; !known {
		f.faults[i] = found
	}
}

func (s *stock) weighs(*ask) bool { return !s.rules.Unshared }

func (s *stock) consumption(requested *resource.Quantity, c *resourceapi.DeviceCapacity) (resource.Quantity, bool, error) {
	if s.rules.Consumption != nil {
		return s.rules.Consumption(requested, c)
	}
	return own{}.consumption(requested, c)
}

func (s *stock) values(attribute *resourceapi.DeviceAttribute, unit int) []value {
	if s.rules.Scalars {
		return scalarOf(attribute, unit)
	}
	return valuesOf(attribute)
}

func (*stock) keptOut(f *field, d *inventory.Device) error {
	return &AllError{RequestRef: f.ref, Device: d.ID}
}
