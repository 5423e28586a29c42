// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Clock is the time that a service lives in.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f after d has passed, and returns what keeps it from being called.
	AfterFunc(d time.Duration, f func()) (stop func())
}

// realClock is the time of the world.
type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }

func (realClock) AfterFunc(d time.Duration, f func()) func() {
	timer := time.AfterFunc(d, f)
	return func() { timer.Stop() }
}

// ManualClock stands still until it is advanced. What is due then has been done when Advance returns.
type ManualClock struct {
	mu     sync.Mutex
	now    time.Time
	timers []*manualTimer
	// changed is closed when there is another timer.
	changed chan struct{}
}

type manualTimer struct {
	due time.Time
	f   func()
}

// NewManualClock starts at the given time.
func NewManualClock(now time.Time) *ManualClock {
	return &ManualClock{now: now, changed: make(chan struct{})}
}

// Now is the time that the clock stands at.
func (c *ManualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc has Advance call f, in its goroutine.
func (c *ManualClock) AfterFunc(d time.Duration, f func()) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	timer := &manualTimer{due: c.now.Add(d), f: f}
	c.timers = append(c.timers, timer)
	close(c.changed)
	c.changed = make(chan struct{})
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.timers = slices.DeleteFunc(c.timers, func(t *manualTimer) bool { return t == timer })
	}
}

// Advance moves the clock, timer by timer, and calls what is due in the order of time, then of setting. That includes
// what is set meanwhile and is due by then.
func (c *ManualClock) Advance(d time.Duration) {
	c.mu.Lock()
	end := c.now.Add(d)
	for {
		next := c.next(end)
		if next == nil {
			break
		}
		c.now = next.due
		c.mu.Unlock()
		next.f()
		c.mu.Lock()
	}
	c.now = end
	c.mu.Unlock()
}

// next takes the first timer that is due by end.
func (c *ManualClock) next(end time.Time) *manualTimer {
	var first *manualTimer
	for _, t := range c.timers {
		if !t.due.After(end) && (first == nil || t.due.Before(first.due)) {
			first = t
		}
	}
	c.timers = slices.DeleteFunc(c.timers, func(t *manualTimer) bool { return t == first })
	return first
}

// AwaitTimers waits until at least n timers are set, which is how a test knows that as many requests or operations
// wait for the clock.
func (c *ManualClock) AwaitTimers(ctx context.Context, n int) error {
	for {
		c.mu.Lock()
		enough, changed := len(c.timers) >= n, c.changed
		c.mu.Unlock()
		if enough {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
