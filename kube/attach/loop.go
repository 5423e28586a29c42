// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
)

// apiSteps and managerSteps are how many steps a loop carries out at once. Those
// of the manager have their own number, so that a manager that hangs does not hold
// up the API. Calls that start operations are limited by the planner as well.
const (
	apiSteps     = 8
	managerSteps = 8
)

// loop has one fabric's planner. Only its goroutine uses what is not marked
// otherwise.
type loop struct {
	fabric  *v1alpha1.Fabric // never written
	planner *fabric.Planner
	pools   *pools
	nodes   *nodes
	guards  *guards
	begun   *begun // for several goroutines
	inbox   *inbox // for several goroutines
	carry   *carrier
	publish *publisher
	metrics *metrics
	log     logr.Logger
	now     func() time.Time

	api, manager chan struct{}
	steps        sync.WaitGroup
	phases       map[string]v1alpha1.Phase
	// stale says that what is published may not be what is to be. It is made to be once
	// the last publication has ended, and not before publishAt: what happens meanwhile
	// costs no more.
	stale, publishing bool
	publishAt         time.Time
	inventoryErr      error
	inventoryAt       time.Time // zero before the first
	service           string    // of the last inventory
	neighbours        *neighbours
	// denied are the drivers of which no device is offered: the controller may not
	// write the status of their claims.
	denied map[string]bool
}

// run works until the context ends, and returns when all that it started has
// ended. What the watches deliver first must be in the inbox by then.
func (l *loop) run(ctx context.Context) {
	defer l.metrics.forget(l.fabric.Name)
	defer l.steps.Wait()
	published := make(chan struct{})
	go func() {
		defer close(published)
		l.publish.run(ctx, func(s *snapshot, slices, status error) {
			l.inbox.put(func() { l.published(s, slices, status) })
		})
	}()
	defer func() { <-published }()
	l.metrics.start(l.fabric.Name)
	l.hear()
	l.planner.Ready()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		wake := l.plan(ctx)
		timer.Reset(wake)
		select {
		case <-ctx.Done():
			return
		case <-l.inbox.ready:
		case <-timer.C:
		}
		l.hear()
	}
}

func (l *loop) hear() {
	all := l.inbox.take()
	for _, news := range all {
		news()
	}
	l.pools.tell(l.planner)
	l.metrics.events.WithLabelValues(l.fabric.Name).Add(float64(len(all)))
}

// forever is the wait where nothing is to come by itself.
const forever = time.Hour

// plan starts the next steps and returns how long to wait for the time to bring
// others.
func (l *loop) plan(ctx context.Context) time.Duration {
	now := l.now()
	l.guards.acknowledge(l.planner, now)
	before := l.planner.Effort()
	plan := l.planner.Plan(now)
	l.metrics.effort.WithLabelValues(l.fabric.Name).Add(float64(l.planner.Effort() - before))
	for _, step := range plan.Steps {
		l.start(ctx, step)
	}
	l.offer(now)
	wait := forever
	for _, at := range []time.Time{plan.Wake, l.guards.wake(), l.publishAt} {
		if !at.IsZero() {
			wait = min(wait, at.Sub(l.now()))
		}
	}
	return max(wait, time.Millisecond)
}

// start carries a step out beside the loop.
func (l *loop) start(ctx context.Context, step fabric.Step) {
	room := l.api
	if manages(step.Action) {
		room = l.manager
	}
	var pools []string
	if g, ok := step.Action.(fabric.SetGuard); ok {
		// What the loop knows is looked up here.
		pools = l.pools.on(g.Node, g.Driver)
	}
	l.steps.Go(func() { l.finish(ctx, room, step, pools) })
}

// done is how a step went, and what was seen with it: an object that is to be
// observed before the outcome is reported, and which service gave an inventory.
type done struct {
	outcome fabric.Outcome
	seen    *v1alpha1.DeviceAttachment
	service string
}

func (l *loop) finish(ctx context.Context, room chan struct{}, step fabric.Step, pools []string) {
	select {
	case room <- struct{}{}:
	case <-ctx.Done():
		return
	}
	began := time.Now()
	result := l.carry.out(ctx, step.Action, pools)
	<-room
	l.metrics.step(l.fabric.Name, step.Action, result.outcome.Err, time.Since(began))
	l.inbox.put(func() { l.report(step, result) })
}

func (l *loop) report(step fabric.Step, result done) {
	if result.outcome.Err != nil {
		l.log.Info("Step failed", "step", step.String(), "err", result.outcome.Err)
	} else {
		l.log.V(2).Info("Step done", "step", step.String())
	}
	if result.seen != nil {
		l.attachment(result.seen)
	}
	if _, ok := step.Action.(fabric.ReadInventory); ok {
		l.inventoryErr = result.outcome.Err
		if result.outcome.Err == nil {
			l.inventoryAt, l.service = l.now(), result.service
			l.nodes.inventoried(l.planner, result.outcome.Inventory.Machines)
			l.neighbours.answered(l.planner, l.service)
		}
	}
	if _, ok := step.Action.(fabric.PollOperation); !ok {
		l.stale = true
	}
	l.planner.Report(step, result.outcome, l.now())
}

// attachment takes in an attachment that exists.
func (l *loop) attachment(o *v1alpha1.DeviceAttachment) {
	if o.Spec.Fabric != l.fabric.Name {
		l.neighbours.attached(l.planner, o)
		return
	}
	a := attachmentOf(o)
	l.begun.set(&a)
	l.nodes.assume(l.planner, &a)
	l.metrics.phase(l.fabric.Name, l.phases[o.Name], phaseOf(o))
	l.phases[o.Name], l.stale = phaseOf(o), true
	l.planner.ObserveAttachment(a)
	l.guards.observe(l.planner, a.Name)
}

func (l *loop) attachmentGone(o *v1alpha1.DeviceAttachment) {
	if o.Spec.Fabric != l.fabric.Name {
		l.neighbours.detached(l.planner, o.Name)
		return
	}
	l.begun.forget(o.Name)
	l.metrics.phase(l.fabric.Name, l.phases[o.Name], "")
	delete(l.phases, o.Name)
	l.stale = true
	l.planner.ForgetAttachment(o.Name)
}

// neighbour takes in another Fabric, or what is known of this one's devices.
func (l *loop) neighbour(o *v1alpha1.Fabric) {
	if o.Name == l.fabric.Name {
		l.own(o)
		return
	}
	before := l.neighbours.elder()
	l.neighbours.set(l.planner, o)
	l.stale = l.stale || l.neighbours.elder() != before
}

func (l *loop) neighbourGone(o *v1alpha1.Fabric) {
	if o.Name != l.fabric.Name {
		l.neighbours.forget(l.planner, o.Name)
		l.stale = true
	}
}

// deny has no devices of some drivers offered any more, and those of others again.
func (l *loop) deny(drivers map[string]bool) {
	l.denied, l.stale = drivers, true
}

// phaseOf is the phase of an attachment that exists.
func phaseOf(o *v1alpha1.DeviceAttachment) v1alpha1.Phase {
	return cmp.Or(o.Status.Phase, v1alpha1.Phase(fabric.PhaseAllocated))
}

// begun has the devices of attachments whose operation may have been interrupted.
// The manager asks for them while it reads its inventory.
type begun struct {
	mu      sync.Mutex
	devices map[string]fabric.DeviceRef // by attachment
	count   map[fabric.DeviceRef]int
}

func newBegun() *begun {
	return &begun{devices: map[string]fabric.DeviceRef{}, count: map[fabric.DeviceRef]int{}}
}

func (b *begun) set(a *fabric.Attachment) {
	b.forget(a.Name)
	switch a.Status.Phase {
	case fabric.PhaseAttaching, fabric.PhaseAttachUnknown, fabric.PhaseDetaching, fabric.PhaseDetachUnknown:
		b.mu.Lock()
		defer b.mu.Unlock()
		b.devices[a.Name] = a.Spec.Device
		b.count[a.Spec.Device]++
	}
}

func (b *begun) forget(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ref, ok := b.devices[name]
	if !ok {
		return
	}
	delete(b.devices, name)
	if b.count[ref]--; b.count[ref] == 0 {
		delete(b.count, ref)
	}
}

// has tells whether an attach or detach of a device was begun whose end is not
// known.
func (b *begun) has(ref fabric.DeviceRef) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count[ref] > 0
}
