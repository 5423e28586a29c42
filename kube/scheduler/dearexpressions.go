// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"k8s.io/utils/clock"
)

// dearExpressions are those that took an eighth of a glance or more by themselves. A
// cheap one may have been held up by something else, so each is given another chance:
// after a second, and after twice as long each time it is dear again.
type dearExpressions struct {
	// limit is what a glance may take.
	limit  time.Duration
	clock  clock.PassiveClock
	recent *lru.Cache[string, dearness]
}

type dearness struct {
	times int
	until time.Time
}

const (
	// firstDear is how long an expression is dear the first time, longestDear later.
	firstDear, longestDear = time.Second, time.Hour
	// mostDear is how many expressions are remembered.
	mostDear = 1 << 14
)

func newDearExpressions(clock clock.PassiveClock) *dearExpressions {
	recent, err := lru.New[string, dearness](mostDear)
	if err != nil {
		panic("dear expressions: " + err.Error()) // the size is a constant
	}
	return &dearExpressions{limit: glanceTime, clock: clock, recent: recent}
}

// has reports whether the expression is better not evaluated.
func (d *dearExpressions) has(expression string) bool {
	of, ok := d.recent.Get(expression)
	return ok && d.clock.Now().Before(of.until)
}

// note keeps in mind how long the expression took.
func (d *dearExpressions) note(expression string, took time.Duration) {
	of, known := d.recent.Peek(expression)
	switch {
	case took >= d.limit/8:
		length := min(firstDear<<min(of.times, 16), longestDear)
		d.recent.Add(expression, dearness{times: of.times + 1, until: d.clock.Now().Add(length)})
	case known:
		d.recent.Remove(expression)
	}
}
