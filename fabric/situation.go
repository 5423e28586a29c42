// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// situation is what the predicates of the table look at: an attachment at a moment.
//
// It stays wide: a predicate asks for the guard, the claim, the manager's reply and the
// inventory at once, and what is asked in one phase is asked in others. What has nothing
// to do with an attachment is in [moment] and [opening], what needs nothing but the
// manager's word in [entry], what is known of the fabric in [facts].
type situation struct {
	moment
	// entry is nil in PhaseNone, opening in all others.
	*entry
	opening *opening
	// admitting says that it is the attachment's turn to call the manager.
	admitting bool
	// seen is what arrival found.
	seen *arrival
	// blocked says that only the limits stand in the way.
	blocked bool
}

func (s *situation) here() bool      { return s.at(s.machine()) }
func (s *situation) elsewhere() bool { return s.dev != nil && !s.free() && !s.here() }

// Claim and node.

// offerHeld tells whether the claim still has the allocation that the attachment
// is for.
func (s *situation) offerHeld() bool {
	return s.claim.device(s.Spec.Offer) != nil && s.claim.allocatedAs(s.entry)
}

// claimUses tells whether the claim has the attached device itself.
func (s *situation) claimUses() bool {
	return s.heldTarget() != nil || s.p.policy.HandOver == Resolve && s.Status.Target != nil && s.offerHeld()
}

// heldTarget is the claim's device that is the attached one, nil if none is.
func (s *situation) heldTarget() *ClaimDevice {
	for _, name := range s.names() {
		if d := s.claim.device(name); d != nil {
			return d
		}
	}
	return nil
}

// held is the device of the claim that the attachment speaks for, nil if none.
func (s *situation) held() *ClaimDevice {
	if s.offerHeld() {
		return s.claim.device(s.Spec.Offer)
	}
	return s.heldTarget()
}

func (s *situation) handedOver() bool {
	if s.p.policy.HandOver != Resolve {
		return s.claimUses()
	}
	d := s.held()
	return d != nil && d.Attached && s.claimReserved()
}

func (s *situation) claimReserved() bool { return s.claimUses() && s.claim.Reserved }

// claimElsewhere does not take a claim without allocation for one that let go: a
// hand-over is two writes.
func (s *situation) claimElsewhere() bool {
	return s.claim == nil || len(s.claim.Devices) > 0 && s.held() == nil
}

func (s *situation) handOverTimedOut() bool {
	return !s.unallocatedSince.IsZero() && s.after(s.unallocatedSince.Add(s.p.policy.HandOverTimeout))
}

func (s *situation) nodeGone() bool {
	m, known := s.p.machineOf(s.Spec.Node)
	return !known || m != s.Spec.Machine
}

func (s *situation) claimedWithoutNode() bool { return s.nodeGone() && s.held() != nil }

// doomed tells whether the claim will not get the device in time.
func (s *situation) doomed() bool {
	return s.offerHeld() && (s.held().Failed || s.nodeGone() || s.after(s.deadline()))
}

func (s *situation) deadline() time.Time { return s.Spec.AllocatedAt.Add(s.p.policy.AttachTimeout) }

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

// On the way.

func (s *situation) adopted() bool  { return s.Spec.Claim == nil }
func (s *situation) rivalled() bool { return s.p.owner(s.Spec.Device) != s.entry }

// guardWanted is the guard of the phase, empty where what there is stays. A machine
// that is no node needs none.
func (s *situation) guardWanted() Guard {
	want := phaseInfo[s.phase()].Guard
	if s.refusesTarget() {
		want = GuardDrain
	}
	if want == GuardDrain && s.p.nodeAt(s.entry) == "" {
		return GuardNone
	}
	if !s.p.policy.Guards.Rules && (want == GuardPool || want == GuardDevice) {
		return GuardNone
	}
	return want
}

func (s *situation) unguarded() bool {
	want := s.guardWanted()
	return want != "" && (s.guard.Guard != want || !equalDevices(s.guard.Device, s.guardDevice()))
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
	return !s.unguarded() && (s.guard.Guard == GuardNone || s.guard.Acknowledged)
}

// shielded tells whether all guards of the fabric that can keep the device are
// acknowledged.
func (s *situation) shielded() bool {
	g := s.p.policy.Guards
	return s.guarded() &&
		(!s.Spec.Tainted || s.NodeGuarded) &&
		(!g.Reservation || !s.reservable() || s.p.kept[s.Spec.Offer] == s.Spec.Claim.UID)
}

// reservable tells whether the fabric's pool can say by identity for whom the device
// is kept.
func (a *entry) reservable() bool {
	return a.Spec.Claim != nil && a.Spec.Identity != nil && !a.Spec.Template
}

func (s *situation) unguardable() bool {
	return !s.p.policy.Guards.canKeep(s.Spec.Template, s.Spec.Identity)
}

func (s *situation) absent() bool { return s.known() && s.dev == nil }
func (s *situation) isHere() bool { return s.known() && s.here() && !s.dev.Busy }
func (s *situation) broken() bool { return s.known() && !s.dev.Healthy }

// reserved takes a reservation after a first try for this attachment's own.
func (s *situation) reserved() bool {
	return s.known() && s.dev.Reserved && s.Status.Attempts == 0
}

func (s *situation) isElsewhere() bool {
	return s.known() && s.elsewhere()
}

func (s *situation) mayAttach() bool {
	return s.known() && !s.p.barred && s.shielded() && s.after(s.Status.RetryAt) && s.p.tellsApart(s.entry) && s.admitted()
}

func (s *situation) mayDetach() bool {
	return s.known() && s.here() && s.guarded() && s.after(s.drainedSince.Add(s.p.policy.DrainGrace)) && s.after(s.Status.RetryAt) && s.admitted()
}

// admitted tells whether it is the attachment's turn. Turns are given in order of
// age, see admit.
func (s *situation) admitted() bool {
	s.blocked = !s.admitting
	return s.admitting
}

// A call.

func (s *situation) armed() bool { return s.entry.armed }

func (s *situation) pollDue() bool {
	return (s.reply == nil || s.ended(Running)) && s.Status.Operation != "" && s.after(s.nextPoll)
}

func (s *situation) endedCalm() bool { return s.ended(Done) && s.calmSince(s.reply.at) }

func (s *situation) endedElsewhere() bool { return s.endedCalm() && s.elsewhere() }
func (s *situation) endedNowhere() bool   { return s.endedCalm() && !s.here() }
func (s *situation) endedHere() bool      { return s.endedCalm() && s.here() }

// What the inventory proves.

func (s *situation) calm() bool { return s.calmSince(s.Status.Since) }

// arrived and departed do not ask for an inventory while the manager can tell of
// its operation.
func (s *situation) arrived() bool { return s.mayRead() && s.calm() && s.here() }

func (s *situation) departed() bool { return s.mayRead() && s.calm() && !s.here() }

func (s *situation) mayRead() bool {
	return s.Status.Operation == "" || s.ended(Done) || !s.p.inventoryAt.Before(s.Status.Since)
}

func (s *situation) strayed() bool { return s.calm() && s.elsewhere() }

func (s *situation) settled() bool {
	return s.calmSince(s.Status.Since.Add(s.p.policy.SettleTime))
}

func (s *situation) provenFree() bool { return s.settled() && s.free() }
func (s *situation) provenLost() bool { return s.settled() && s.dev == nil }
func (s *situation) provenHere() bool { return s.settled() && s.here() }

func (s *situation) provenFreeAndUnclaimed() bool { return s.provenFree() && !s.offerHeld() }
func (s *situation) provenFreeTooLate() bool      { return s.provenFree() && s.doomed() }
func (s *situation) provenFreeLastTime() bool {
	return s.provenFree() && s.Status.Attempts >= s.p.policy.Attempts
}

// lost looks at the inventory that there is and does not ask for another.
func (s *situation) lost() bool {
	return s.known() && !s.p.inventoryAt.Before(s.Status.Since) && !s.here() && (s.dev == nil || !s.dev.Busy)
}

// caused tells whether the device is where it is because of this attachment.
func (s *situation) caused() bool {
	return s.here() || s.Status.Reason == ReasonWrongMachine
}

// leftAttached does not go on while a guard is waited for and the claim is not told.
func (s *situation) leftAttached() bool {
	return s.attachedSomewhere() && (!s.refusesTarget() || !s.untold())
}

func (s *situation) attachedSomewhere() bool {
	return s.calm() && s.dev != nil && !s.free() && s.caused()
}

func (s *situation) leftNothing() bool {
	return s.calm() && !s.attachedSomewhere() && !s.claimUses()
}

// Use.

func (s *situation) usedAgain() bool      { return !s.Status.IdleSince.IsZero() && s.inUse() }
func (s *situation) newlyIdle() bool      { return s.Status.IdleSince.IsZero() && !s.inUse() }
func (s *situation) usedBeforeCall() bool { return s.armed() && (s.inUse() || s.unguarded()) }

func (s *situation) idleLongEnough() bool {
	if s.Status.IdleSince.IsZero() || s.inUse() {
		return false
	}
	idle := s.p.policy.IdleDetachAfter
	return s.Deleting || s.p.policy.Ending || idle >= 0 && s.after(s.Status.IdleSince.Add(idle))
}

// What is told and recorded.

// condition makes the condition that tells the claim.
func (s *situation) condition(t *Transition) Action {
	c := SetCondition{
		Claim: *s.Spec.Claim, AllocatedAt: s.claim.AllocatedAt, Device: s.held().LocalDevice,
		Failed: t.Do == VerbFail, Reason: t.Reason, Message: t.When,
	}
	switch {
	case s.phase() == PhaseFailed:
		c.Reason, c.Message = s.Status.Reason, s.Status.Message
	case c.Failed && c.Reason == "":
		c.Reason, c.Message = s.doom(), s.doomText()
	default:
		c.Target = s.Status.Target
	}
	return c
}

func setAttempt(s *situation, st *AttachmentStatus) {
	st.Attempts++
	st.Before, s.others = s.p.lookalikes(s.entry)
}

func setReply(s *situation, st *AttachmentStatus) {
	if r := s.reply; r.err != nil {
		st.Message = r.err.Error()
	} else {
		st.Message = r.op.Message
	}
}

func setRetry(s *situation, st *AttachmentStatus) {
	setReply(s, st)
	wait := s.p.policy.RetryDelay
	var busy *BusyError
	if errors.As(s.reply.err, &busy) {
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
	if s.dev.Machine != s.Spec.Machine {
		st.Machine = s.dev.Machine
		st.Message = cmp.Or(st.Message, fmt.Sprintf("device %s is at machine %s", s.dev.Ref, s.dev.Machine))
	}
}

func setOperation(s *situation, st *AttachmentStatus) { st.Operation = s.reply.op.ID }
func setTarget(s *situation, st *AttachmentStatus)    { st.Target = s.target() }
func setIdle(s *situation, st *AttachmentStatus)      { st.IdleSince = s.now }
func clearIdle(_ *situation, st *AttachmentStatus)    { st.IdleSince = time.Time{} }

func setReclaimed(s *situation, st *AttachmentStatus) {
	st.Target, st.IdleSince, st.Reason, st.Message = s.target(), time.Time{}, "", ""
}
