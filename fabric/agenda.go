// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
	"time"
)

// agenda is what to look at: now, and later.
type agenda struct {
	now    map[key]bool
	later  alarms
	alarms map[key]time.Time
}

func newAgenda() agenda {
	return agenda{now: map[key]bool{}, alarms: map[key]time.Time{}}
}

// touch has something looked at in the next plan.
func (q *agenda) touch(k key) { q.now[k] = true }

// wake has something looked at when the time has come.
func (q *agenda) wake(k key, at time.Time) {
	if set, ok := q.alarms[k]; at.IsZero() || ok && !at.Before(set) {
		return
	}
	q.alarms[k] = at
	heap.Push(&q.later, alarm{at, k})
}

// due moves what the time has come for.
func (q *agenda) due(now time.Time) {
	for len(q.later) > 0 && !q.later[0].at.After(now) {
		a, _ := heap.Pop(&q.later).(alarm)
		if q.alarms[a.key].Equal(a.at) {
			delete(q.alarms, a.key)
			q.touch(a.key)
		}
	}
}

// take returns what is to be looked at now, in an order that does not depend on
// how it came there.
func (q *agenda) take() []key {
	keys := make([]key, 0, len(q.now))
	for k := range q.now {
		keys = append(keys, k)
	}
	clear(q.now)
	slices.SortFunc(keys, compareKeys)
	return keys
}

// next is the time of the first alarm, zero if there is none.
func (q *agenda) next() time.Time {
	for len(q.later) > 0 {
		if first := q.later[0]; q.alarms[first.key].Equal(first.at) {
			return first.at
		}
		heap.Pop(&q.later)
	}
	return time.Time{}
}

func (q *agenda) forget(k key) {
	delete(q.now, k)
	delete(q.alarms, k)
}

func compareKeys(a, b key) int {
	return cmp.Or(
		cmp.Compare(a.kind, b.kind), strings.Compare(a.name, b.name), cmp.Compare(a.claim, b.claim),
		compareDevices(a.offer, b.offer),
	)
}

func compareDevices(a, b LocalDevice) int {
	return cmp.Or(strings.Compare(a.Driver, b.Driver), strings.Compare(a.Pool, b.Pool), strings.Compare(a.Device, b.Device))
}

type alarm struct {
	at  time.Time
	key key
}

// alarms is a heap, the earliest first.
type alarms []alarm

func (h alarms) Len() int           { return len(h) }
func (h alarms) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h alarms) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push is heap's.
func (h *alarms) Push(x any) {
	a, _ := x.(alarm)
	*h = append(*h, a)
}

// Pop is heap's.
func (h *alarms) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
