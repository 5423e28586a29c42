// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// situation is what the predicates of the table look at: one attachment, or one
// device without attachment, at a moment. Predicates only look; what they would
// have to wait for they leave in wake, want and blocked.
type situation struct {
	p   *facts
	now time.Time
	// a is nil in PhaseNone.
	a *entry
	// claim and offer are set in PhaseNone, for an allocated device.
	claim *Claim
	offer *ClaimDevice
	// dev is the device as the inventory has it, nil where it has not.
	dev *Device
	// admitting says that it is the attachment's turn to call the manager.
	admitting bool
	// seen is what arrival found.
	seen *arrival

	// wake is the next time at which a predicate can change, zero for never.
	wake time.Time
	// want asks for an inventory that is read at that time or later.
	want time.Time
	// blocked says that only the limits stand in the way.
	blocked bool
}

// after tells whether a time has come.
func (s *situation) after(t time.Time) bool {
	if !s.now.Before(t) {
		return true
	}
	if s.wake.IsZero() || t.Before(s.wake) {
		s.wake = t
	}
	return false
}

// readSince tells whether the inventory was read at a time or later.
func (s *situation) readSince(t time.Time) bool {
	if !s.p.inventoryAt.IsZero() && !s.p.inventoryAt.Before(t) {
		return true
	}
	if s.after(t) {
		s.want = s.now
	}
	return false
}

// calmSince tells whether the inventory was read at a time or later and shows
// that nothing is being done to the device.
func (s *situation) calmSince(t time.Time) bool {
	if !s.readSince(t) {
		return false
	}
	if s.dev != nil && s.dev.Busy {
		s.want = s.now
		return false
	}
	return true
}

func (s *situation) at(m MachineRef) bool { return s.dev != nil && s.dev.Machine == m }
func (s *situation) free() bool           { return s.at("") }
func (s *situation) here() bool           { return s.at(s.a.machine()) }
func (s *situation) elsewhere() bool      { return s.dev != nil && !s.free() && !s.here() }

// Claim and node.

// offerHeld tells whether the claim still has the allocation that the attachment
// is for.
func (s *situation) offerHeld() bool {
	c := s.p.claimOf(s.a)
	return c != nil && c.device(s.a.Spec.Offer) != nil &&
		(c.AllocatedAt.IsZero() || c.AllocatedAt.Equal(s.a.Spec.AllocatedAt))
}

// claimUses tells whether the claim has the attached device itself.
func (s *situation) claimUses() bool {
	c := s.p.claimOf(s.a)
	if c == nil {
		return false
	}
	for _, name := range s.names() {
		if c.device(name) != nil {
			return true
		}
	}
	return s.p.policy.HandOver == Resolve && s.a.Status.Target != nil && s.offerHeld()
}

// held is the device of the claim that the attachment speaks for, nil if none.
func (s *situation) held() *ClaimDevice {
	c := s.p.claimOf(s.a)
	if c == nil {
		return nil
	}
	if s.offerHeld() {
		return c.device(s.a.Spec.Offer)
	}
	for _, name := range s.names() {
		if d := c.device(name); d != nil {
			return d
		}
	}
	return nil
}

func (s *situation) handedOver() bool {
	if s.p.policy.HandOver != Resolve {
		return s.claimUses()
	}
	d := s.held()
	return d != nil && d.Attached && s.claimReserved()
}

func (s *situation) claimReserved() bool { return s.claimUses() && s.p.claimOf(s.a).Reserved }

// claimElsewhere does not take a claim without allocation for one that let go: a
// hand-over is two writes.
func (s *situation) claimElsewhere() bool {
	c := s.p.claimOf(s.a)
	return c == nil || len(c.Devices) > 0 && s.held() == nil
}

func (s *situation) handOverTimedOut() bool {
	return !s.a.unallocatedSince.IsZero() && s.after(s.a.unallocatedSince.Add(s.p.policy.HandOverTimeout))
}

func (s *situation) nodeGone() bool {
	m, known := s.p.machineOf(s.a.Spec.Node)
	return !known || m != s.a.Spec.Machine
}

func (s *situation) claimedWithoutNode() bool { return s.nodeGone() && s.held() != nil }

// doomed tells whether the claim will not get the device in time.
func (s *situation) doomed() bool {
	return s.offerHeld() && (s.held().Failed || s.nodeGone() || s.after(s.deadline()))
}

func (s *situation) deadline() time.Time { return s.a.Spec.AllocatedAt.Add(s.p.policy.AttachTimeout) }

func (s *situation) doom() Reason {
	switch {
	case s.nodeGone():
		return ReasonNodeGone
	case s.after(s.deadline()):
		return ReasonTimeout
	default:
		return ReasonClaimFailed
	}
}

func (s *situation) doomedUntold() bool { return s.doomed() && !s.held().Failed }

// failureUntold keeps a device that is not what its model promises from the claim, too,
// before the claim looks for another.
func (s *situation) failureUntold() bool {
	return s.untold() && (!s.refusesTarget() || s.guarded())
}

func (s *situation) untold() bool {
	d := s.held()
	return d != nil && !d.Failed
}

func (s *situation) untoldAttached() bool {
	return s.p.policy.HandOver != Reschedule && s.offerHeld() && !s.held().Attached
}

func (s *situation) untoldReschedule() bool {
	return s.p.policy.HandOver == Reschedule && s.offerHeld() && !s.held().Failed
}

// A device without attachment.

func (s *situation) isOffer() bool { return s.offer != nil && !s.p.inventoryAt.IsZero() }

func (s *situation) template() *Model { return s.p.template(s.offer.LocalDevice) }

func (s *situation) offerUnknown() bool {
	return s.isOffer() && s.template() == nil && s.dev == nil
}

func (s *situation) offerNodeGone() bool {
	if !s.isOffer() || s.claim.Node == "" {
		return false
	}
	_, known := s.p.machineOf(s.claim.Node)
	return !known
}

// offerTaken does not look at a device that is on its way back: it is waited for.
func (s *situation) offerTaken() bool {
	if !s.isOffer() || s.template() != nil {
		return false
	}
	if owner := s.p.owner(s.dev.Ref); owner != nil {
		return owner.wanted() && owner.Spec.Claim != nil && owner.Spec.Claim.UID != s.claim.UID
	}
	m, _ := s.p.machineOf(s.claim.Node)
	return s.dev.Reserved || !s.free() && !s.at(m)
}

func (s *situation) offerBroken() bool {
	return s.isOffer() && s.template() == nil && !s.dev.Healthy
}

func (s *situation) offerTimedOut() bool {
	return s.offer != nil && !s.claim.AllocatedAt.IsZero() && s.after(s.claim.AllocatedAt.Add(s.p.policy.AttachTimeout))
}

func (s *situation) offerFree() bool {
	return s.isOffer() && !s.p.barred && s.claim.Node != "" && s.dev != nil && !s.dev.Busy && s.p.owner(s.dev.Ref) == nil
}

// orphaned leaves alone what it does not know: models without a driver, machines
// that are no nodes.
func (s *situation) orphaned() bool {
	if s.offer != nil || s.p.policy.OrphanGrace < 0 || s.p.policy.Ending || s.dev == nil {
		return false
	}
	since, ok := s.p.orphans[s.dev.Ref]
	return ok && s.after(since.Add(s.p.policy.OrphanGrace))
}

// On the way.

func (s *situation) adopted() bool  { return s.a.Spec.Claim == nil }
func (s *situation) rivalled() bool { return s.p.owner(s.a.Spec.Device) != s.a }

// guardWanted is the guard of the phase, empty where what there is stays. A machine
// that is no node needs none.
func (s *situation) guardWanted() Guard {
	want := phaseInfo[s.a.phase()].Guard
	if s.refusesTarget() {
		want = GuardDrain
	}
	if want == GuardDrain && s.p.nodeAt(s.a) == "" {
		return GuardNone
	}
	if !s.p.policy.Guards.Rules && (want == GuardPool || want == GuardDevice) {
		return GuardNone
	}
	return want
}

func (s *situation) unguarded() bool {
	want := s.guardWanted()
	return want != "" && (s.a.guard.Guard != want || !equalDevices(s.a.guard.Device, s.guardDevice()))
}

// guardDevice is what is to be guarded, nil for all that the driver publishes on
// the node.
func (s *situation) guardDevice() *LocalDevice {
	if want := s.guardWanted(); want == GuardDevice || want == GuardDrain {
		return s.target()
	}
	return nil
}

func equalDevices(a, b *LocalDevice) bool {
	return a == b || a != nil && b != nil && *a == *b
}

func (s *situation) guarded() bool {
	return !s.unguarded() && (s.a.guard.Guard == GuardNone || s.a.guard.Acknowledged)
}

// shielded tells whether all guards of the fabric that can keep the device are
// acknowledged.
func (s *situation) shielded() bool {
	g := s.p.policy.Guards
	return s.guarded() &&
		(!s.a.Spec.Tainted || s.a.NodeGuarded) &&
		(!g.Reservation || !s.a.reservable() || s.p.kept[s.a.Spec.Offer] == s.a.Spec.Claim.UID)
}

// reservable tells whether the fabric's pool can say by identity for whom the device
// is kept.
func (a *entry) reservable() bool {
	return a.Spec.Claim != nil && a.Spec.Identity != nil && !a.Spec.Template
}

func (s *situation) unguardable() bool {
	return !s.p.policy.Guards.canKeep(s.a.Spec.Template, s.a.Spec.Identity)
}

func (s *situation) offerUnguardable() bool {
	return s.isOffer() && s.dev != nil && !s.p.policy.Guards.canKeep(s.template() != nil, s.p.policy.published(s.dev))
}

func (s *situation) known() bool  { return !s.p.inventoryAt.IsZero() }
func (s *situation) absent() bool { return s.known() && s.dev == nil }
func (s *situation) isHere() bool { return s.known() && s.here() && !s.dev.Busy }
func (s *situation) broken() bool { return s.known() && !s.dev.Healthy }

// reserved takes a reservation after a first try for this attachment's own.
func (s *situation) reserved() bool {
	return s.known() && s.dev.Reserved && s.a.Status.Attempts == 0
}

func (s *situation) isElsewhere() bool {
	return s.known() && s.elsewhere()
}

func (s *situation) mayAttach() bool {
	return s.known() && !s.p.barred && s.shielded() && s.after(s.a.Status.RetryAt) && s.p.tellsApart(s.a) && s.admitted()
}

func (s *situation) mayDetach() bool {
	return s.known() && s.here() && s.guarded() && s.after(s.a.drainedSince.Add(s.p.policy.DrainGrace)) && s.after(s.a.Status.RetryAt) && s.admitted()
}

// admitted tells whether it is the attachment's turn. Turns are given in order of
// age, see admit.
func (s *situation) admitted() bool {
	s.blocked = !s.admitting
	return s.admitting
}

// A call.

func (s *situation) armed() bool { return s.a.armed }

func (s *situation) refused() bool {
	var refused *RefusedError
	return s.a.reply != nil && errors.As(s.a.reply.err, &refused)
}

func (s *situation) refusedAgain() bool { return s.refused() && s.a.Status.Attempts > 1 }

func (s *situation) busy() bool {
	var busy *BusyError
	return s.a.reply != nil && errors.As(s.a.reply.err, &busy)
}

// replyLost is also an operation that runs and has no name: nobody can ask for it.
func (s *situation) replyLost() bool {
	r := s.a.reply
	return r != nil && (r.err != nil || r.op.State == Running && cmp.Or(r.op.ID, s.a.Status.Operation) == "")
}

func (s *situation) neverCalled() bool {
	return s.a.reply == nil && !s.a.armed && s.a.Status.Operation == ""
}

func (s *situation) ended(state OperationState) bool {
	return s.a.reply != nil && s.a.reply.err == nil && s.a.reply.op.State == state
}

func (s *situation) operationFailed() bool { return s.ended(Failed) }

func (s *situation) operationNew() bool {
	return s.ended(Running) && s.a.reply.op.ID != "" && s.a.reply.op.ID != s.a.Status.Operation
}

func (s *situation) pollDue() bool {
	return (s.a.reply == nil || s.ended(Running)) && s.a.Status.Operation != "" && s.after(s.a.nextPoll)
}

func (s *situation) endedCalm() bool { return s.ended(Done) && s.calmSince(s.a.reply.at) }

func (s *situation) endedElsewhere() bool { return s.endedCalm() && s.elsewhere() }
func (s *situation) endedNowhere() bool   { return s.endedCalm() && !s.here() }
func (s *situation) endedHere() bool      { return s.endedCalm() && s.here() }

// What the inventory proves.

func (s *situation) since() time.Time { return s.a.Status.Since }

// arrived and departed do not ask for an inventory while the manager can tell of
// its operation.
func (s *situation) arrived() bool { return s.mayRead() && s.calmSince(s.since()) && s.here() }

func (s *situation) departed() bool { return s.mayRead() && s.calmSince(s.since()) && !s.here() }

func (s *situation) mayRead() bool {
	return s.a.Status.Operation == "" || s.ended(Done) || !s.p.inventoryAt.Before(s.since())
}

func (s *situation) strayed() bool { return s.calmSince(s.since()) && s.elsewhere() }

func (s *situation) settled() bool {
	return s.calmSince(s.since().Add(s.p.policy.SettleTime))
}

func (s *situation) provenFree() bool { return s.settled() && s.free() }
func (s *situation) provenLost() bool { return s.settled() && s.dev == nil }
func (s *situation) provenHere() bool { return s.settled() && s.here() }

func (s *situation) provenFreeAndUnclaimed() bool { return s.provenFree() && !s.offerHeld() }
func (s *situation) provenFreeTooLate() bool      { return s.provenFree() && s.doomed() }
func (s *situation) provenFreeLastTime() bool {
	return s.provenFree() && s.a.Status.Attempts >= s.p.policy.Attempts
}

// lost looks at the inventory that there is and does not ask for another.
func (s *situation) lost() bool {
	return s.known() && !s.p.inventoryAt.Before(s.since()) && !s.here() && (s.dev == nil || !s.dev.Busy)
}

// caused tells whether the device is where it is because of this attachment.
func (s *situation) caused() bool {
	return s.here() || s.a.Status.Reason == ReasonWrongMachine
}

// leftAttached does not go on while a guard is waited for and the claim is not told.
func (s *situation) leftAttached() bool {
	return s.attachedSomewhere() && (!s.refusesTarget() || !s.untold())
}

func (s *situation) attachedSomewhere() bool {
	return s.calmSince(s.since()) && s.dev != nil && !s.free() && s.caused()
}

func (s *situation) leftNothing() bool {
	return s.calmSince(s.since()) && !s.attachedSomewhere() && !s.claimUses()
}

// Use.

func (s *situation) usedAgain() bool      { return !s.a.Status.IdleSince.IsZero() && s.inUse() }
func (s *situation) newlyIdle() bool      { return s.a.Status.IdleSince.IsZero() && !s.inUse() }
func (s *situation) usedBeforeCall() bool { return s.a.armed && (s.inUse() || s.unguarded()) }

func (s *situation) idleLongEnough() bool {
	if s.a.Status.IdleSince.IsZero() || s.inUse() {
		return false
	}
	idle := s.p.policy.IdleDetachAfter
	return s.a.Deleting || s.p.policy.Ending || idle >= 0 && s.after(s.a.Status.IdleSince.Add(idle))
}

// What is recorded.

func setAttempt(s *situation, st *AttachmentStatus) {
	st.Attempts++
	st.Before, s.a.others = s.p.lookalikes(s.a)
}

func setReply(s *situation, st *AttachmentStatus) {
	if r := s.a.reply; r.err != nil {
		st.Message = r.err.Error()
	} else {
		st.Message = r.op.Message
	}
}

func setRetry(s *situation, st *AttachmentStatus) {
	setReply(s, st)
	wait := s.p.policy.RetryDelay
	var busy *BusyError
	if errors.As(s.a.reply.err, &busy) {
		wait = cmp.Or(busy.RetryAfter, wait)
	}
	st.RetryAt = s.now.Add(wait)
}

// setRetryAttach takes back the try: nothing was done.
func setRetryAttach(s *situation, st *AttachmentStatus) {
	setRetry(s, st)
	st.Attempts--
}

func setMachine(s *situation, st *AttachmentStatus) {
	st.Machine = ""
	if s.dev.Machine != s.a.Spec.Machine {
		st.Machine = s.dev.Machine
		st.Message = cmp.Or(st.Message, fmt.Sprintf("device %s is at machine %s", s.dev.Ref, s.dev.Machine))
	}
}

func setOperation(s *situation, st *AttachmentStatus) { st.Operation = s.a.reply.op.ID }
func setTarget(s *situation, st *AttachmentStatus)    { st.Target = s.target() }
func setIdle(s *situation, st *AttachmentStatus)      { st.IdleSince = s.now }
func clearIdle(_ *situation, st *AttachmentStatus)    { st.IdleSince = time.Time{} }

func setReclaimed(s *situation, st *AttachmentStatus) {
	st.Target, st.IdleSince, st.Reason, st.Message = s.target(), time.Time{}, "", ""
}
