// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"math"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/inventory"
)

// Expense is what the effort of an attempt goes into.
type Expense uint8

const (
	// Selecting: CEL selectors and derived attributes.
	Selecting Expense = iota
	// Judging: what else is found out about each device by itself.
	Judging
	// Counting: bounds, that is what is refuted without trying devices.
	Counting
	// Trying: devices that are tried.
	Trying
	// Remembering: recognising states that were refuted before.
	Remembering
	// Ranking: which of several devices costs least.
	Ranking
	// Explaining: a smallest reason for a refusal.
	Explaining

	expenses
)

var expenseNames = [expenses]string{
	"CEL selectors", "judging devices", "counting", "trying devices", "remembering what was tried", "ranking devices", "explaining the refusal",
}

// String says what the effort goes into.
func (e Expense) String() string { return expenseNames[e] }

// Stop ends an attempt from outside. Every context.Context is one.
type Stop = interface {
	// Done is closed when it is time to stop.
	Done() <-chan struct{}
	// Err says why, and is nil before that.
	Err() error
}

// The unit of work is about what it takes to look at a device again: some ten
// nanoseconds. What follows is what other things take, in units. Memory counts as
// well, so that what bounds time bounds memory, too.
const (
	// stepWork is how much of the budget comes with each step of
	// Options.StepBudget.
	stepWork = 400
	// leastWork is what every attempt may take, however few its steps: a budget of
	// a few steps limits what is tried and not what is looked at.
	leastWork = 10_000 * stepWork
	// promptWork is what most attempts need less than. One that needs more begins
	// with what first fit would choose.
	promptWork = 300_000
	// checkWork bounds the work of compiling the expressions of claims to see whether
	// they are valid.
	checkWork = leastWork / 4
	// Each of the three parts of an explanation may take this part of what the search
	// did, within these bounds: the least is enough to compile a derived attribute or two.
	explainingPart                  = 3
	leastExplaining, mostExplaining = 300_000, leastWork
	// celWork is for one unit of CEL's cost, selectWork for evaluating an
	// expression that costs next to nothing, and compileWork for compiling one.
	// inputWork is for each attribute and capacity that CEL is given.
	celWork, selectWork, inputWork, compileWork, compileByteWork = 25, 250, 30, 120_000, 50
	// bytesPerWork is how many bytes take one unit: to allocate and clear them is
	// faster, but they are there for a while.
	bytesPerWork = 8
	// dearWork is what an evaluation takes at least to be paid for only once.
	dearWork = 100_000
	// lookEvery is the work between two looks at Options.Stop.
	lookEvery = 100_000
)

// NodeWork is what each node adds to what the searches for a pod may take together, in
// units of Outcome.Work: all nodes together may take little more than one by itself. A
// fifth of a millisecond.
const NodeWork = 20_000

// workFor is what an attempt with a budget of steps may take.
func workFor(steps int) int64 {
	if int64(steps) >= math.MaxInt64/stepWork {
		return math.MaxInt64
	}
	return max(int64(steps)*stepWork, leastWork)
}

// meter is what one attempt has to spend, and what it spent. Everything whose
// amount depends on the input pays: whoever pays and finds that nothing is left
// gives the answer that refutes nothing, and the search ends at its next step.
type meter struct {
	used, limit int64
	// on is what the work is for since so much was used; spent is what it was for
	// before.
	on      Expense
	since   int64
	spent   [expenses]int64
	stop    Stop
	look    int64
	stopped bool
	// compiled are the expressions that were paid for, known those that were before:
	// what a problem is compiled with is not compiled again for each node.
	compiled, known map[string]bool
	// compiling is what was paid for that.
	compiling int64
	// dear are evaluations that cost much and were paid for.
	dear map[evaluation]bool
}

func newMeter(limit int64, stop Stop) *meter {
	return &meter{limit: limit, stop: stop, on: Judging}
}

// pay takes units of work.
func (m *meter) pay(units int) { m.used += int64(units) }

// payBytes takes work for memory.
func (m *meter) payBytes(n int) { m.pay(n/bytesPerWork + 1) }

// payCompilation takes work for compiling an expression the first time, if there is
// some left.
func (m *meter) payCompilation(expression string) bool {
	if !m.compiled[expression] && !m.known[expression] {
		if m.out() {
			return false
		}
		if m.compiled == nil {
			m.compiled = map[string]bool{}
		}
		m.compiled[expression] = true
		m.pay(compileWork + compileByteWork*len(expression))
		m.compiling += int64(compileWork + compileByteWork*len(expression))
	}
	return true
}

// payEvaluation takes work for evaluating an expression.
func (m *meter) payEvaluation(expression string, d *inventory.Device, cost uint64) {
	work := selectWork + inputWork*(len(d.Spec.Attributes)+len(d.Spec.Capacity)) + celWork*int(min(cost, resourceapi.CELSelectorExpressionMaxCost))
	if work > dearWork {
		if m.dear[evaluation{expression, d}] {
			work = selectWork // the answer is remembered
		}
		if m.dear == nil {
			m.dear = map[evaluation]bool{}
		}
		m.dear[evaluation{expression, d}] = true
	}
	m.pay(work)
}

// evaluation is that of an expression on a device.
type evaluation struct {
	expression string
	device     *inventory.Device
}

// judging is what went into judging devices by themselves.
func (m *meter) judging() int64 {
	m.turn(m.on)
	return m.spent[Judging] + m.spent[Selecting]
}

// judgement is what judging one device took, to go by so many: without compiling
// expressions, which is done once.
func (m *meter) judgement(of int) int64 { return (m.judging() - m.compiling) / int64(max(of, 1)) }

// turn says what the work is for from now on, and returns what it was for.
func (m *meter) turn(to Expense) (from Expense) {
	m.spent[m.on] += m.used - m.since
	from, m.on, m.since = m.on, to, m.used
	return from
}

// out reports whether nothing is left, or somebody said to stop.
func (m *meter) out() bool {
	if m.used >= m.look && m.stop != nil {
		m.look = m.used + lookEvery
		m.halted()
	}
	return m.used >= m.limit || m.stopped
}

// halted asks whether somebody said to stop. That lasts.
func (m *meter) halted() bool {
	m.stopped = m.stopped || m.stop != nil && m.stop.Err() != nil
	return m.stopped
}

// within lowers the limit for a while: to so much more work than was used up to
// now. The function that it returns lifts it again.
func (m *meter) within(work int64) (lift func()) {
	limit := m.limit
	if work < limit-m.used {
		m.limit = m.used + work
	}
	return func() { m.limit = limit }
}

// beyond raises the limit by so much more work than was used up to now. The function
// that it returns lowers it again.
func (m *meter) beyond(work int64) (lower func()) {
	limit := m.limit
	m.limit = m.used + min(work, math.MaxInt64-m.used)
	return func() { m.limit = limit }
}

// bill lists what was spent, the most first.
func (m *meter) bill() []Spent {
	var bill []Spent
	m.turn(m.on)
	for on, work := range m.spent {
		if work > 0 {
			bill = append(bill, Spent{On: Expense(on), Work: work})
		}
	}
	slices.SortStableFunc(bill, func(a, b Spent) int { return int(min(max(b.Work-a.Work, -1), 1)) })
	return bill
}
