// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Plan returns the steps to take at a time, and when to ask again. It looks only
// at what was touched by what was observed since the last plan, and at what the
// time has come for.
func (p *Planner) Plan(now time.Time) Plan {
	var plan Plan
	if p.ready {
		p.queue.due(now)
		for _, k := range p.queue.take() {
			if step, ok := p.look(k, now, false); ok {
				plan.Steps = append(plan.Steps, step)
			}
		}
		plan.Steps = append(plan.Steps, p.admit(now)...)
		plan.Wake = p.queue.next()
	}
	if step, ok := p.inventoryStep(now); ok {
		plan.Steps = append(plan.Steps, step)
	}
	if p.reading == 0 && (plan.Wake.IsZero() || p.nextRead().Before(plan.Wake)) {
		plan.Wake = p.nextRead()
	}
	return plan
}

// nextRead is when the inventory is to be read next.
func (p *Planner) nextRead() time.Time {
	if len(p.wanting) > 0 {
		return p.readAt.Add(p.policy.PollInterval)
	}
	return p.readAt.Add(p.policy.InventoryInterval)
}

func (p *Planner) inventoryStep(now time.Time) (Step, bool) {
	if p.reading != 0 || !p.readAt.IsZero() && now.Before(p.nextRead()) {
		return Step{}, false
	}
	p.readAt = now
	step := p.newStep(key{kind: keyInventory}, nil, ReadInventory{}, now)
	p.reading = step.id
	return step, true
}

// admit gives those that wait for the manager their turn, the oldest first, while
// its limits have room.
func (p *Planner) admit(now time.Time) []Step {
	if len(p.waiting) == 0 || p.slots.total >= p.policy.Limits.Concurrent {
		return nil
	}
	var steps []Step
	queue := make([]*entry, 0, len(p.waiting))
	for a := range p.waiting {
		queue = append(queue, a)
	}
	slices.SortFunc(queue, older)
	for _, a := range queue {
		if !p.slots.room(p.policy.Limits, a.machine()) {
			continue
		}
		if step, ok := p.look(a.key(), now, true); ok {
			steps = append(steps, step)
		}
	}
	return steps
}

// look decides what is to be done for one key. There is nothing to do while a
// step is under way, or when no transition holds.
func (p *Planner) look(k key, now time.Time, admitting bool) (Step, bool) {
	if _, busy := p.underWay[k]; busy {
		return Step{}, false
	}
	s, ok := p.situation(k, now)
	if !ok {
		return Step{}, false
	}
	s.admitting = admitting
	p.evaluations++
	delete(p.wanting, k)
	delete(p.hoping, k)
	if s.entry != nil {
		delete(p.waiting, s.entry)
	}
	for _, t := range byPhase[s.phase()] {
		if t.holds(s) {
			return p.newStep(k, t, p.act(s, t), now), true
		}
	}
	p.postpone(k, s)
	return Step{}, false
}

// postpone remembers what could make a difference later.
func (p *Planner) postpone(k key, s *situation) {
	p.queue.wake(k, s.wake)
	if !s.want.IsZero() {
		p.wanting[k] = true
	}
	if s.blocked {
		p.waiting[s.entry] = struct{}{}
	}
	if s.opening != nil && s.opening.template != nil {
		p.hoping[k] = true
	}
}

// situation puts together what the predicates look at. There is none where nobody
// needs the planner.
func (p *Planner) situation(k key, now time.Time) (*situation, bool) {
	s := &situation{moment: moment{p: &p.facts, now: now}}
	switch k.kind {
	case keyAttachment:
		a := p.attachments[k.name]
		if a == nil || a.deleted || a.creating {
			return nil, false
		}
		s.entry, s.claim, s.dev = a, p.claimOf(a), p.devices[a.Spec.Device]
		if now.Before(a.retry) {
			p.queue.wake(k, a.retry)
			return nil, false
		}
		s.remember()
		return s, true
	case keyOffer:
		s.opening = &opening{moment: &s.moment}
		return s, s.opening.find(k)
	default:
		s.opening = &opening{moment: &s.moment}
		s.dev = p.devices[DeviceRef(k.name)]
		return s, p.isOrphan(DeviceRef(k.name), now)
	}
}

// remember keeps since when it has been as it is.
func (s *situation) remember() {
	mark(&s.unallocatedSince, s.claim != nil && len(s.claim.Devices) == 0, s.now)
	mark(&s.drainedSince, s.phase() == PhaseDraining && s.guarded(), s.now)
	mark(&s.unlikeSince, s.phase() == PhaseAttached && s.arrival().difference != "", s.now)
}

func mark(since *time.Time, holds bool, now time.Time) {
	switch {
	case !holds:
		*since = time.Time{}
	case since.IsZero():
		*since = now
	}
}

// isOrphan tells whether a device is attached to a node for nobody, and keeps
// since when.
func (p *Planner) isOrphan(ref DeviceRef, now time.Time) bool {
	dev := p.devices[ref]
	orphan := dev != nil && dev.Machine != "" && p.nodeOf[dev.Machine] != "" && p.owner(ref) == nil &&
		len(p.foreignOf[ref]) == 0 && !p.barred
	if orphan {
		m := p.policy.model(dev)
		orphan = m != nil && len(p.offers[p.offerName(m, ref)]) == 0
	}
	if !orphan {
		delete(p.orphans, ref)
	} else if _, known := p.orphans[ref]; !known {
		p.orphans[ref] = now
	}
	return orphan
}

func (p *Planner) newStep(k key, because *Transition, action Action, now time.Time) Step {
	p.lastStep++
	p.underWay[k] = p.lastStep
	return Step{Because: because, Action: action, id: p.lastStep, key: k, at: now}
}

// act turns a transition into an action.
func (p *Planner) act(s *situation, t *Transition) Action {
	switch t.Do {
	case VerbCreate:
		return p.create(s.opening)
	case VerbRecord:
		return p.record(s, t)
	case VerbDelete:
		return DeleteAttachment{s.Name}
	case VerbGuard:
		return SetGuard{s.Attachment, s.guardWanted(), p.nodeAt(s.entry), p.driver(s.entry), s.guardDevice()}
	case VerbAttach:
		s.entry.armed = false
		return CallAttach{s.Name, s.Spec.Device, s.Spec.Machine}
	case VerbDetach:
		s.entry.armed = false
		return CallDetach{s.Name, s.Spec.Device, s.machine()}
	case VerbPoll:
		return PollOperation{s.Name, s.Status.Operation}
	case VerbWithhold:
		return s.withhold()
	case VerbFail:
		if s.opening != nil {
			return s.opening.failure(t)
		}
	}
	return s.condition(t)
}

// create makes the intent, and keeps the device for it from this moment on.
func (p *Planner) create(o *opening) Action {
	name, spec := o.spec()
	a := &entry{Attachment: Attachment{Name: name, Spec: spec}, creating: true, guard: GuardStatus{Guard: GuardNone}}
	p.attachments[name] = a
	p.enter(a)
	return CreateAttachment{a.Attachment}
}

// record makes the status that follows.
func (p *Planner) record(s *situation, t *Transition) Action {
	st := s.Status
	st.Before = slices.Clone(st.Before)
	if t.To != t.From {
		st.Since, st.Operation, st.RetryAt, st.Message = s.now, "", time.Time{}, ""
	}
	st.Phase = t.To
	if t.To == PhaseFailed {
		st.Reason = cmp.Or(t.Reason, s.doom())
	}
	if t.set != nil {
		t.set(s, &st)
	}
	if t.To == PhaseFailed && st.Message == "" {
		st.Message = t.When
		if t.Reason == "" {
			st.Message = s.doomText()
		}
	}
	st.Revision++
	s.next = t.To
	p.slots.occupy(s.entry)
	return RecordStatus{s.Name, st}
}

// Report tells how a step went, at a time. What came after the step was planned
// and made it irrelevant is noticed.
func (p *Planner) Report(step Step, outcome Outcome, now time.Time) {
	if p.underWay[step.key] != step.id {
		return
	}
	delete(p.underWay, step.key)
	switch action := step.Action.(type) {
	case ReadInventory:
		p.reading = 0
		if outcome.Err != nil {
			p.readAt = now
			return
		}
		p.ObserveInventory(outcome.Inventory, step.at)
		return
	case CreateAttachment:
		p.created(action.Attachment.Name, step, outcome, now)
		return
	case SetCondition:
		if outcome.Err == nil {
			p.conditionSet(action)
		}
	}
	p.queue.touch(step.key)
	a := p.attachments[step.key.name]
	if step.key.kind != keyAttachment || a == nil {
		if outcome.Err != nil {
			p.retryLater(step.key, now)
		}
		return
	}
	p.reported(a, step, outcome, now)
}

func (p *Planner) created(name string, step Step, outcome Outcome, now time.Time) {
	a := p.attachments[name]
	if a == nil {
		return
	}
	if outcome.Err == nil {
		a.creating = false
		p.queue.touch(a.key())
		return
	}
	if a.creating {
		p.dropAttachment(a)
		delete(p.attachments, name)
	}
	p.retryLater(step.key, now)
}

func (p *Planner) reported(a *entry, step Step, outcome Outcome, now time.Time) {
	switch action := step.Action.(type) {
	case CallAttach, CallDetach:
		if a.phase() == step.Because.From {
			a.reply = &reply{outcome.Operation, outcome.Err, now}
			a.nextPoll = now.Add(p.policy.PollInterval)
		}
		return
	case PollOperation:
		p.polled(a, step, outcome, now)
		return
	case RecordStatus:
		p.recorded(a, action, outcome)
	case Withhold:
		if outcome.Err == nil {
			p.ObserveWithheld(action.Model, action.Device)
		}
	case DeleteAttachment:
		if outcome.Err == nil {
			p.dropAttachment(a)
			a.deleted = true
		}
	case SetGuard:
		if outcome.Err == nil && (a.guard.Guard != action.Guard || !equalDevices(a.guard.Device, action.Device)) {
			a.guard = GuardStatus{Guard: action.Guard, Device: action.Device}
		}
	}
	if outcome.Err != nil {
		a.retry = now.Add(p.policy.RetryDelay)
	}
}

// polled keeps what the manager said of an operation. That it could not be asked
// says nothing.
func (p *Planner) polled(a *entry, step Step, outcome Outcome, now time.Time) {
	a.nextPoll = now.Add(p.policy.PollInterval)
	if a.phase() != step.Because.From {
		return
	}
	if outcome.Err == nil || errors.Is(outcome.Err, ErrUnknownOperation) {
		a.reply = &reply{outcome.Operation, outcome.Err, now}
	}
}

// recorded goes on from a status that was written. One that was not written may
// have been written all the same: then it is observed.
func (p *Planner) recorded(a *entry, action RecordStatus, outcome Outcome) {
	echo := a.echo
	switch {
	case outcome.Err == nil:
		before := a.phase()
		p.install(a, action.Status)
		if a.phase() != before {
			a.armed = a.phase() == PhaseAttaching || a.phase() == PhaseDetaching
		}
	case echo != nil:
		p.install(a, echo.Status)
	default:
		a.next = ""
		p.slots.occupy(a)
	}
}

// conditionSet has the claim show the condition before it is observed.
func (p *Planner) conditionSet(action SetCondition) {
	c := p.claims[action.Claim.UID]
	if c == nil || !c.AllocatedAt.Equal(action.AllocatedAt) {
		return
	}
	if d := c.device(action.Device); d != nil {
		d.Failed = d.Failed || action.Failed
		d.Attached = d.Attached || !action.Failed
		p.touchClaim(c)
	}
}

func (p *Planner) retryLater(k key, now time.Time) {
	delete(p.queue.now, k)
	p.queue.wake(k, now.Add(p.policy.RetryDelay))
}

// String names the action and the transition, for logs.
func (s Step) String() string {
	if s.Because == nil {
		return string(s.Action.verb())
	}
	return fmt.Sprintf("%s %s: %s -> %s, because %s", s.key.name, s.Action.verb(), s.Because.From, s.Because.To, s.Because.When)
}
