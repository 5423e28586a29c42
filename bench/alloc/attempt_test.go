// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/metrics"
	"sync/atomic"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/selector"
)

// effort is what some work took. Peak is how much more memory the heap had at
// one moment, garbage included, than before the work.
type effort struct {
	Wall, CPU       time.Duration
	Allocated, Peak uint64
}

// attempt is what became of an attack.
type attempt struct {
	// Intake is that of the inventory, Attempt that for one node up to the reason
	// for the pod, Explained what a person asks for beyond that.
	Intake, Attempt, Explained effort
	Outcome                    outcome
	// Reason of a refusal or an error, or the limit at which the work was stopped.
	Reason string
	Steps  int
	Work   int64
	// Apart: the stock allocator, which does not know what a node has left of its
	// own resources, answers another question.
	Apart bool
}

// stage is a part of an attempt.
type stage struct {
	name string
	*effort
}

func (t *attempt) stages() []stage {
	return []stage{{"inventory", &t.Intake}, {"attempt", &t.Attempt}, {"explanation", &t.Explained}}
}

type outcome string

const (
	fits    outcome = "fits"
	refused outcome = "no"
	gaveUp  outcome = "gave up"
	failed  outcome = "error"
	stopped outcome = "stopped"
)

// meter measures the work of this process.
type meter struct {
	began, cpu time.Duration
	allocated  uint64
	heap       uint64
	peak       atomic.Uint64
	done       chan struct{}
	watched    chan struct{}
}

// epoch is when the process began.
var epoch = time.Now()

// measured runs work and says what it took. Over is told now and then what it
// took so far.
func measured(over func(effort), work func()) effort {
	runtime.GC()
	m := &meter{began: time.Since(epoch), cpu: processTime(), done: make(chan struct{}), watched: make(chan struct{})}
	m.heap, m.allocated = heap()
	m.peak.Store(m.heap)
	go m.watch(over)
	work()
	e := m.read()
	close(m.done)
	<-m.watched
	return e
}

// watch looks at the heap until the work is done.
func (m *meter) watch(over func(effort)) {
	defer close(m.watched)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-m.done:
			return
		case <-tick.C:
			if e := m.read(); over != nil {
				over(e)
			}
		}
	}
}

func (m *meter) read() effort {
	now, allocated := heap()
	for {
		peak := m.peak.Load()
		if now <= peak || m.peak.CompareAndSwap(peak, now) {
			break
		}
	}
	return effort{
		Wall: time.Since(epoch) - m.began, CPU: processTime() - m.cpu,
		Allocated: allocated - m.allocated, Peak: m.peak.Load() - m.heap,
	}
}

// heap is the memory of all objects, and of all that there ever were.
func heap() (objects, ever uint64) {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64(), samples[1].Value.Uint64()
}

// processTime is the time of all processors that the process had.
func processTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(fmt.Sprintf("getrusage: %v", err)) // fails for bad arguments only
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// searchTime is what kerf-scheduler gives a search on a node at most.
const searchTime = 750 * time.Millisecond

// try has kerf solve the problem, as the scheduler does for a pod and a node of
// which it knows nothing yet, and has the outcome explained. Over is called with
// what is known at that moment.
func (a *attack) try(over func(attempt)) (attempt, error) {
	var t attempt
	var snapshot *inventory.Snapshot
	t.Intake = measured(func(e effort) { over(attempt{Intake: e}) }, func() { snapshot = a.inventory().Snapshot() })
	var problem *alloc.Problem
	var view *inventory.View
	var out alloc.Outcome
	var err error
	text := ""
	t.Attempt = measured(func(e effort) { over(attempt{Intake: t.Intake, Attempt: e}) }, func() {
		class := func(name string) *resourceapi.DeviceClass { return a.classes[name] }
		containers := make([]int, len(a.claims))
		for i := range containers {
			containers[i] = 1
		}
		if problem, err = alloc.Compile(a.claims, class, selector.New(), alloc.Options{Containers: containers}); err != nil {
			return
		}
		view = a.view(snapshot)
		ctx, cancel := context.WithTimeout(context.Background(), searchTime)
		defer cancel()
		if out, err = problem.Within(math.MaxInt64, ctx).Allocate(view); err == nil {
			text = explain.Outcome(out, explain.Options{Claims: a.claims, View: view})
		}
	})
	if err != nil {
		return t, err
	}
	t.Steps, t.Work, t.Reason = out.Steps, out.Work, text
	switch {
	case out.Result != nil:
		t.Outcome = fits
	case out.GaveUp != nil:
		t.Outcome = gaveUp
	default:
		t.Outcome = refused
	}
	t.Explained = measured(func(e effort) {
		u := t
		u.Explained = e
		over(u)
	}, func() { err = a.explained(problem, view, snapshot, out) })
	return t, err
}

// explained asks for everything that can be said about a refusal.
func (a *attack) explained(problem *alloc.Problem, view *inventory.View, snapshot *inventory.Snapshot, out alloc.Outcome) error {
	if out.Refusal == nil {
		return nil
	}
	var err error
	left := problem.Work() + alloc.NodeWork // as kerf explain gives to one node
	again := func(view *inventory.View) bool {
		if left <= 0 {
			return false
		}
		out, of := problem.Within(left, nil).Allocate(view)
		left -= out.Work
		err = errors.Join(err, of)
		return out.Result != nil
	}
	o := explain.Options{Claims: a.claims, View: view, Holders: snapshot.Holders, Remedies: explain.Remedies(out.Refusal, view, again)}
	if err == nil && explain.Details(out.Refusal, o) == "" {
		err = errors.New("nothing to say about a refusal")
	}
	return err
}

func (a *attack) inventory() *inventory.Inventory {
	inv := inventory.New()
	inv.SyncSlices(a.slices)
	for _, r := range a.rules {
		inv.SetTaintRule(r)
	}
	for _, c := range a.held {
		inv.SetClaim(c)
	}
	return inv
}

func (a *attack) view(snapshot *inventory.Snapshot) *inventory.View {
	view := snapshot.View(node(0))
	if a.room != nil {
		view.Room = map[v1.ResourceName]inventory.Amount{}
		for name, q := range a.room {
			view.Room[name] = inventory.AmountOf(q)
		}
	}
	return view
}

// tryStock has the stock allocator solve the problem.
func (a *attack) tryStock(limit time.Duration, over func(attempt)) attempt {
	t := attempt{Apart: a.room != nil}
	slices, state := a.patched(), a.state()
	t.Attempt = measured(func(e effort) { over(attempt{Attempt: e}) }, func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		allocator, err := structured.NewAllocator(ctx, a.enabled(), state, a.classes, slices, newCache())
		var results []resourceapi.AllocationResult
		if err == nil {
			results, err = allocator.Allocate(ctx, node(0), a.claims)
		}
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			t.Outcome, t.Reason = stopped, limit.String()
		case err != nil:
			t.Outcome, t.Reason = failed, err.Error()
		case results != nil:
			t.Outcome = fits
		default:
			t.Outcome = refused
		}
	})
	return t
}

func newCache() *cel.Cache {
	return cel.NewCache(100, cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
}

// patched are the slices with the taints of the rules, as a scheduler has them.
func (a *attack) patched() []*resourceapi.ResourceSlice {
	if len(a.rules) == 0 {
		return a.slices
	}
	var all []*resourceapi.ResourceSlice
	for _, s := range a.slices {
		s = s.DeepCopy()
		for _, r := range a.rules {
			for i := range s.Spec.Devices {
				d := &s.Spec.Devices[i]
				if named := r.Spec.DeviceSelector.Device; named == nil || *named == d.Name {
					d.Taints = append(d.Taints, r.Spec.Taint)
				}
			}
		}
		all = append(all, s)
	}
	return all
}

// state is what the claims of others hold, for the stock allocator.
func (a *attack) state() structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, c := range a.held {
		for _, r := range c.Status.Allocation.Devices.Results {
			id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
			state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, r.ShareID))
			state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
		}
	}
	return state
}
