// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"kerf.dev/kerf/sandbox/cluster"
)

const (
	// retriedAfter is how long nothing may have changed before the scheduler has
	// tried again what it keeps trying, to the same result.
	retriedAfter = 3 * time.Second
	// stuckAfter is how long nothing may have changed before an expected change
	// is no longer waited for.
	stuckAfter = 10 * time.Second
)

// Settlement is a state of the cluster in which nothing moves.
type Settlement struct {
	State *cluster.State
	// Pending are the pods without a node, and why.
	Pending []cluster.Pending
	// Stuck are changes that should have come and did not, for example pods
	// that a controller cannot create. When Settle failed with NotSettledError,
	// they are what was still moving.
	Stuck []cluster.Motion
}

// NotSettledError says that there was still something moving when time was up.
type NotSettledError struct {
	Limit  time.Duration
	Moving []cluster.Motion
}

// Error lists what was moving.
func (e *NotSettledError) Error() string {
	lines := make([]string, len(e.Moving))
	for i, motion := range e.Moving {
		lines[i] = motion.String()
	}
	return fmt.Sprintf("not settled after %s: %s", e.Limit, strings.Join(lines, "; "))
}

// Settle waits until nothing moves: all controllers have done what follows from
// the state, and the scheduler, which has seen all of it, has a verdict on
// every pod without a node. Pods that are to run for a limited time have ended.
//
// It watches, so it returns soon after the last change. A change that should
// come but does not, while everything else is quiet, ends up in Stuck; while the
// scheduler computes, which it may do quietly for long, nothing does. What is
// waited for so long is told to Options.Progress. After the limit, Settle returns
// the state as it is together with a NotSettledError.
func (s *Sandbox) Settle(ctx context.Context, limit time.Duration) (*Settlement, error) {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	told, still := false, newStillness()
	for {
		last, changed := s.observer.lastChange()
		if still.look() {
			still.begin()
			settlement, moving, err := s.look(ctx)
			if err != nil {
				return nil, err
			}
			if now, _ := s.observer.lastChange(); now.Equal(last) && settled(moving, time.Since(last)) {
				settlement.Stuck = withoutRetries(moving)
				return settlement, nil
			}
			if slow := timed(moving); slow != nil && !told && time.Since(last) >= stuckAfter {
				s.progress("waiting up to " + limit.String() + " for " + slow.String())
				told = true
			}
		}
		select {
		case <-changed:
			still.begin()
		case <-time.After(glance):
		case <-timeout.C:
			return s.notSettled(ctx, limit)
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.done:
			return nil, errors.Join(errors.New("the sandbox has stopped"), s.err)
		}
	}
}

// settled decides whether to stop waiting for what moves.
func settled(moving []cluster.Motion, quietFor time.Duration) bool {
	for _, motion := range moving {
		switch {
		case motion.Timed:
			return false
		case motion.Retry && quietFor < retriedAfter, !motion.Retry && quietFor < stuckAfter:
			return false
		}
	}
	return true
}

// timed is a motion that may be quiet for long, nil if there is none.
func timed(moving []cluster.Motion) *cluster.Motion {
	for i := range moving {
		if moving[i].Timed {
			return &moving[i]
		}
	}
	return nil
}

// withoutRetries are the motions that say more than that a verdict stands.
func withoutRetries(moving []cluster.Motion) []cluster.Motion {
	return slices.DeleteFunc(moving, func(motion cluster.Motion) bool { return motion.Retry })
}

// Pending explains every pod without a node at this moment, whatever moves.
func (s *Sandbox) Pending(ctx context.Context) ([]cluster.Pending, error) {
	state, err := s.State(ctx)
	if err != nil {
		return nil, err
	}
	return cluster.FindPending(state, s.scheduler.queue()), nil
}

// look reads the state and finds what moves in it.
func (s *Sandbox) look(ctx context.Context) (*Settlement, []cluster.Motion, error) {
	fabrics, err := s.rack.Fabrics(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("settle: %w", err)
	}
	state, err := s.State(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("settle: %w", err)
	}
	unseen := s.scheduler.behind(state, everything)
	queue := s.scheduler.queue() // It is after what the scheduler has seen.
	moving := append(cluster.FindMotions(state, queue), s.fabricMotions(fabrics, state)...)
	if kind := s.observer.behind(state); kind != "" {
		moving = append(moving, cluster.Motion{Object: kind, What: "changed just now"})
	}
	if unseen != "" {
		moving = append(moving, cluster.Motion{Object: unseen, What: "changed and the scheduler has not seen it"})
	}
	return &Settlement{State: state, Pending: cluster.FindPending(state, queue)}, moving, nil
}

// notSettled is the result when time is up.
func (s *Sandbox) notSettled(ctx context.Context, limit time.Duration) (*Settlement, error) {
	settlement, moving, err := s.look(ctx)
	if err != nil {
		return nil, err
	}
	settlement.Stuck = moving
	return settlement, &NotSettledError{Limit: limit, Moving: moving}
}

// behind returns a kind of which the observer has not seen the latest change.
func (o *observer) behind(state *cluster.State) string {
	for _, kind := range cluster.Kinds {
		informer := o.factory.ForResource(kind.Resource).Informer()
		if !informer.HasSynced() || !sameVersions(informer.GetStore(), kind.Objects(state)) {
			return kind.Resource.Resource
		}
	}
	return ""
}
