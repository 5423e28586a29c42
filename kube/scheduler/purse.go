// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
)

// The scheduler works on one pod after the other: what one takes, all others wait
// for. The step budget bounds the work for a node. A purse bounds that of an attempt,
// on all nodes together. Times stand behind both, for what no count of work foresees.
const (
	// attemptWork is what an attempt may take, in units of alloc.Outcome.Work, and
	// attemptNodeWork how much more for each node that there is: about a second of
	// one processor, and a fifth of a millisecond.
	attemptWork     = 100_000_000
	attemptNodeWork = 20_000
	// nodeTime is the longest that one search may take, attemptTime all of them.
	nodeTime    = time.Second
	attemptTime = 2 * time.Second
)

// purse is what one attempt may spend. Preemption has one of its own: its dry runs
// come on top of an attempt that failed.
type purse struct {
	left  atomic.Int64
	until time.Time
	// gaveUp is set when a search did.
	gaveUp atomic.Bool
}

func newPurse(now time.Time, nodes int) *purse {
	p := &purse{until: now.Add(attemptTime)}
	p.left.Store(attemptWork + int64(nodes)*attemptNodeWork)
	return p
}

// allocate solves a problem on a node, as far as the purse allows.
func (p *purse) allocate(ctx context.Context, problem *alloc.Problem, view *inventory.View) (alloc.Outcome, error) {
	now := time.Now()
	work := p.left.Load()
	if work <= 0 || !now.Before(p.until) {
		p.gaveUp.Store(true)
		return alloc.Outcome{GaveUp: &alloc.GaveUp{Before: true}}, nil
	}
	until := now.Add(nodeTime)
	if p.until.Before(until) {
		until = p.until
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	outcome, err := problem.Within(work, ctx).Allocate(view)
	p.left.Add(-outcome.Work)
	if outcome.GaveUp != nil {
		p.gaveUp.Store(true)
		if outcome.GaveUp.Stopped {
			p.left.Store(0) // it takes more than its work says, and does so on other nodes
		}
	}
	return outcome, err
}

// purses are those of an attempt. The second is opened when preemption first needs it.
type purses struct {
	attempt *purse
	dryRuns func() *purse
}

func newPurses(now func() time.Time, nodes int) purses {
	return purses{attempt: newPurse(now(), nodes), dryRuns: sync.OnceValue(func() *purse { return newPurse(now(), nodes) })}
}
