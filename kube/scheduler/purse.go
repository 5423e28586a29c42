// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/inventory"
)

// The scheduler works on one pod after the other: what one takes, all others wait
// for. The step budget bounds the work for a node. A purse bounds that of an attempt,
// on all nodes together. Times stand behind both, for what no count of work foresees.
const (
	// attemptWork is what an attempt may take, in units of alloc.Outcome.Work: about a
	// second of one processor. Each node that there is adds alloc.NodeWork.
	attemptWork = 100_000_000
	// nodeTime is the longest that one search may take, attemptTime all of them.
	nodeTime    = 750 * time.Millisecond
	attemptTime = 2 * time.Second
	// strainedPart is the part of all this that the pods of a namespace get while it
	// strains the scheduler: many pods at once, each of which gives up for the first
	// time, would take the whole of it one after the other.
	strainedPart = 20
	// noFunds is what is left where no more is to be spent, whatever comes in.
	noFunds = math.MinInt64 / 2
)

// funds are what is left to spend, in units of alloc.Outcome.Work. The pods of a group
// share them: they are tried in one turn.
type funds struct{ left atomic.Int64 }

func newFunds() *funds {
	f := &funds{}
	f.left.Store(attemptWork)
	return f
}

// purse is what one attempt may spend. Preemption has one of its own: its dry runs
// come on top of an attempt that failed.
type purse struct {
	*funds
	until time.Time
	// most is what one search may take.
	most int64
	// gaveUp says why the first search did that gave up, nil if none did.
	gaveUp atomic.Pointer[string]
}

func newPurse(now time.Time, f *funds, nodes int, strained bool) *purse {
	f.left.Add(int64(nodes) * alloc.NodeWork)
	if strained {
		return &purse{funds: f, until: now.Add(attemptTime / strainedPart), most: attemptWork / strainedPart}
	}
	return &purse{funds: f, until: now.Add(attemptTime), most: attemptWork}
}

// allocate solves a problem on a node, as far as the purse allows.
func (p *purse) allocate(ctx context.Context, problem *alloc.Problem, view *inventory.View) (alloc.Outcome, error) {
	now := time.Now()
	if !now.Before(p.until) {
		p.left.Store(noFunds)
	}
	work := min(p.left.Load(), p.most)
	if work <= 0 {
		gaveUp := &alloc.GaveUp{Before: true}
		p.note(gaveUp)
		return alloc.Outcome{GaveUp: gaveUp}, nil
	}
	until := now.Add(nodeTime)
	if p.until.Before(until) {
		until = p.until
	}
	limited, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	outcome, err := problem.Within(work, limited).Allocate(view)
	p.settle(outcome, ctx.Err() != nil)
	return outcome, err
}

// settle takes what a search cost. One that the caller stopped did not give up: nobody
// wants to know any more.
func (p *purse) settle(outcome alloc.Outcome, unwanted bool) {
	p.left.Add(-outcome.Work)
	if outcome.GaveUp == nil || outcome.GaveUp.Stopped && unwanted {
		return
	}
	p.note(outcome.GaveUp)
	if outcome.GaveUp.Stopped {
		p.left.Store(noFunds) // it takes more than its work says, and does so on other nodes
	}
}

// note keeps the reason of the first search that gave up, and counts them all.
func (p *purse) note(gaveUp *alloc.GaveUp) {
	countGaveUp(gaveUp)
	if p.gaveUp.Load() == nil {
		why := explain.GaveUp(gaveUp)
		p.gaveUp.CompareAndSwap(nil, &why)
	}
}

// purses are those of an attempt. The second is opened when preemption first needs it.
type purses struct {
	attempt *purse
	dryRuns func() *purse
}

// allFunds are those of an attempt, or of all attempts for the pods of a group.
type allFunds struct{ attempts, dryRuns *funds }

func newAllFunds() allFunds { return allFunds{attempts: newFunds(), dryRuns: newFunds()} }

// fundsOf returns the funds for a pod, alone or in a group.
func fundsOf(group *groupState) allFunds {
	if group != nil {
		return group.funds
	}
	return newAllFunds()
}

func newPurses(now func() time.Time, f allFunds, nodes int, strained bool) purses {
	return purses{
		attempt: newPurse(now(), f.attempts, nodes, strained),
		dryRuns: sync.OnceValue(func() *purse { return newPurse(now(), f.dryRuns, nodes, strained) }),
	}
}
