// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"slices"
	"strconv"
	"strings"

	"kerf.dev/kerf/inventory"
)

// explainer says why nothing is possible on a board. It knows nothing of the search that
// found out, but for the requests that are suspects, nil where none in particular are.
type explainer struct {
	problem  *Problem
	board    *board
	meter    *meter
	suspects []int
	// part bounds the work of each part of the explanation.
	part int64
}

// refusal explains a proven no. Each of the parts of the explanation has a budget of
// its own, beside that of the search: what there is no time to say is left out.
func (e *explainer) refusal() *Refusal {
	defer e.meter.turn(e.meter.turn(Explaining))
	e.part = min(max(leastExplaining, e.meter.used/explainingPart), mostExplaining)
	r := &Refusal{}
	r.Requests, r.Untold = e.reports()
	for i := range e.board.view.Pools {
		if p := e.board.view.Pools[i].Pool; p.Problem != nil {
			r.Pools = append(r.Pools, p)
		}
	}
	r.Conflict = e.conflict(r)
	return r
}

// reports has the funnels of as many asks as there is time for, and how many there
// are besides. Those of a request that cannot be had by itself come in any case.
func (e *explainer) reports() (reports []RequestReport, untold int) {
	defer e.meter.beyond(e.part)()
	lacking := slices.IndexFunc(e.problem.requests, e.board.impossibleAlone)
	reports = make([]RequestReport, 0, min(len(e.board.fields), fewReports))
	for _, f := range e.board.fields {
		if (e.meter.out() || !f.completed && e.board.dear()) && f.request != lacking || e.board.complete(f) != nil && !f.completed {
			untold++
			continue
		}
		reports = append(reports, e.report(f))
	}
	return reports, untold
}

// fewReports is how many reports most refusals have at most.
const fewReports = 32

// dear reports whether to judge one more device may take more than there is left, to go by
// those that were judged up to now.
func (b *board) dear() bool {
	return b.meter.judgement(b.judgements) > b.meter.limit-b.meter.used
}

// impossibleAlone reports whether a request is known not to be had by itself.
func (b *board) impossibleAlone(r *request) bool {
	return !slices.ContainsFunc(r.asks, func(a *ask) bool { return !b.fields[a.id].completed || !b.fields[a.id].impossible })
}

// report sums up the funnel and notes where the devices went.
func (e *explainer) report(f *field) RequestReport {
	r := RequestReport{RequestRef: f.ref, Wants: f.told(), All: f.all, Failed: NoStage}
	if f.n > 0 {
		r.Candidates = make([]*inventory.Device, 0, f.n)
	}
	e.meter.payBytes(reportBytes + 8*len(e.board.units))
	for i := range e.board.units {
		e.trace(&r, f, i)
	}
	if r.Left[StageSelector] >= max(r.Wants, 1) {
		r.Unselected = nil
	} else {
		r.Unmet = e.unmet(f, r.Unselected)
	}
	for stage := range Stage(Stages) {
		if r.Left[stage] < max(r.Wants, 1) {
			r.Failed = stage
			break
		}
	}
	return r
}

// trace notes how far a unit got.
func (e *explainer) trace(r *RequestReport, f *field, i int) {
	e.meter.pay(4)
	last := f.stages[i]
	if last == StageConstraints {
		r.Candidates = append(r.Candidates, e.board.units[i].dev)
		if f.open.has(i) {
			last++
		} else {
			e.addDerivedErrors(r, f, i)
		}
	}
	for stage := range last {
		r.Left[stage]++
	}
	if last >= StageFree && last <= StageNode {
		e.addDropped(r, f, i)
	}
	if last == StageSelector {
		r.Unselected = append(r.Unselected, e.board.units[i].dev)
	}
	if f.failing != nil && f.failing.has(i) && !e.meter.out() {
		if _, err := e.board.selects(f, &e.board.units[i]); err != nil {
			r.addSelectorError(err)
		}
	}
}

// reportBytes is what a report takes that names no device, with what is said about it.
const reportBytes = 1024

// addDropped notes that a unit fell out at a stage that can change.
func (e *explainer) addDropped(r *RequestReport, f *field, i int) {
	stage, dev := f.stages[i], e.board.units[i].dev
	if r.Dropped == nil {
		r.Dropped = map[Stage][]*inventory.Device{}
	}
	r.Dropped[stage] = append(r.Dropped[stage], dev)
	if stage == StageNode {
		if r.Shortages == nil {
			r.Shortages = map[*inventory.Device]Shortage{}
		}
		r.Shortages[dev] = e.board.shortageOf(f, i)
	}
}

// addSelectorError counts devices and keeps the first, or the first of a driver that
// the expression is about.
func (r *RequestReport) addSelectorError(err *SelectorError) {
	for i := range r.SelectorErrors {
		if known := &r.SelectorErrors[i]; known.Class == err.Class && known.Expression == err.Expression {
			known.Devices++
			if !known.aboutDriver() && err.aboutDriver() {
				known.Device, known.Err = err.Device, err.Err
			}
			return
		}
	}
	r.SelectorErrors = append(r.SelectorErrors, *err)
}

// aboutDriver reports whether the expression names the driver of the device, as
// device.driver == "gpu.example.com" and attributes["gpu.example.com"] do. It then
// fails on devices of other drivers, too, where nobody wonders why.
func (e *SelectorError) aboutDriver() bool {
	return strings.Contains(e.Expression, strconv.Quote(e.Device.Driver)) || strings.Contains(e.Expression, "'"+e.Device.Driver+"'")
}
