// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"cmp"
	"errors"
	"strings"
	"time"
)

// entry is an attachment with what is known of it in this planner's life only.
type entry struct {
	Attachment
	// creating says that the object is being written for the first time; deleted,
	// that it is gone and that this was not observed yet.
	creating, deleted bool
	// armed says that this planner wrote the intent to call the manager and has not
	// done so.
	armed bool
	reply *reply
	// next is the phase of a status that is being written.
	next Phase
	// echo is a status that was observed while the same revision was being written.
	echo *Attachment
	// candidate is a device on the node that may be the target, since when.
	candidate   *LocalDevice
	candidateAt time.Time
	// others are the node's devices that could not be taken for the awaited one and were
	// there when the manager was called, nil where the driver had published nothing, or
	// another planner called the manager.
	others   map[LocalDevice]bool
	guard    GuardStatus
	retry    time.Time
	nextPoll time.Time
	slot     MachineRef
	// unallocatedSince and drainedSince are since when the claim was seen without
	// an allocation, and since when nobody can take the device; unlikeSince is since when
	// the node shows it otherwise than its model promises.
	unallocatedSince, drainedSince, unlikeSince time.Time
}

// reply is the manager's last word on a call.
type reply struct {
	op  Operation
	err error
	at  time.Time
}

func (a *entry) key() key { return key{kind: keyAttachment, name: a.Name} }

// phase is that of no attachment for nil.
func (a *entry) phase() Phase {
	if a == nil {
		return PhaseNone
	}
	return cmp.Or(a.Status.Phase, PhaseAllocated)
}

// machine is where the device is, or is to be.
func (a *entry) machine() MachineRef { return cmp.Or(a.Status.Machine, a.Spec.Machine) }

// started tells whether the manager may have been called.
func (a *entry) started() bool {
	return a.phase() != PhaseAllocated && a.phase() != PhaseGuarded || a.Status.Attempts > 0
}

// waits tells whether the manager was not called yet, or is to be called again.
func (a *entry) waits() bool { return a.phase() == PhaseGuarded || a.phase() == PhaseAllocated }

// wanted tells whether the device is on its way to the claim, or with it.
func (a *entry) wanted() bool {
	switch a.phase() {
	case PhaseFailed, PhaseRetained, PhaseDraining, PhaseDetaching, PhaseDetachUnknown, PhaseReleased:
		return false
	default:
		return true
	}
}

// older orders attachments by the age of what they are for.
func older(a, b *entry) int {
	return cmp.Or(a.Spec.AllocatedAt.Compare(b.Spec.AllocatedAt), strings.Compare(a.Name, b.Name))
}

func (a *entry) refused() bool {
	var refused *RefusedError
	return a.reply != nil && errors.As(a.reply.err, &refused)
}

func (a *entry) refusedAgain() bool { return a.refused() && a.Status.Attempts > 1 }

func (a *entry) busy() bool {
	var busy *BusyError
	return a.reply != nil && errors.As(a.reply.err, &busy)
}

// replyLost is also an operation that runs and has no name: nobody can ask for it.
func (a *entry) replyLost() bool {
	r := a.reply
	return r != nil && (r.err != nil || r.op.State == Running && cmp.Or(r.op.ID, a.Status.Operation) == "")
}

func (a *entry) neverCalled() bool {
	return a.reply == nil && !a.armed && a.Status.Operation == ""
}

func (a *entry) ended(state OperationState) bool {
	return a.reply != nil && a.reply.err == nil && a.reply.op.State == state
}

func (a *entry) operationFailed() bool { return a.ended(Failed) }

func (a *entry) operationNew() bool {
	return a.ended(Running) && a.reply.op.ID != "" && a.reply.op.ID != a.Status.Operation
}
