// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

// Transition is a way from one phase to another, or something to do in a phase.
type Transition struct {
	From Phase
	// When says in words what leads there. No two transitions from a phase say the
	// same.
	When string
	Do   Verb
	// To is the phase afterwards, From where it stays.
	To Phase
	// Reason is given to what failed, empty where the circumstances say which: the
	// timeout or the node.
	Reason Reason

	// holds tells whether it is so.
	holds func(*situation) bool
	// set changes what is recorded beyond the phase.
	set func(*situation, *AttachmentStatus)
}

// Transitions returns the table of all transitions, by phase. Of those that hold
// in a phase the first is taken.
func Transitions() []Transition { return append([]Transition(nil), transitions...) }

// transitions is set in init because predicates reach it through the planner.
var transitions []Transition

var byPhase map[Phase][]*Transition

func init() {
	for _, rows := range [][]Transition{fromNone, arriving, present, leaving} {
		transitions = append(transitions, rows...)
	}
	byPhase = map[Phase][]*Transition{}
	for i := range transitions {
		t := &transitions[i]
		byPhase[t.From] = append(byPhase[t.From], t)
	}
}

// fromNone starts with a claim's allocated device, or with a device that was
// found attached.
var fromNone = []Transition{
	{PhaseNone, "the fabric has no such device", VerbFail, PhaseNone, ReasonNoDevice, offered((*opening).unknown), nil},
	{PhaseNone, "the claim's node is gone, or is no machine of the fabric", VerbFail, PhaseNone, ReasonNodeGone, offered((*opening).nodeGone), nil},
	{PhaseNone, "the device, or each of the template's, is withheld: it was not what its model promises", VerbFail, PhaseNone, ReasonUnlike, offered((*opening).withheld), nil},
	{PhaseNone, "the device is attached, reserved or attached for somebody else", VerbFail, PhaseNone, ReasonDeviceTaken, offered((*opening).taken), nil},
	{PhaseNone, "the device is broken", VerbFail, PhaseNone, ReasonUnhealthy, offered((*opening).broken), nil},
	{PhaseNone, "no guard of the fabric can keep the device", VerbFail, PhaseNone, ReasonUnguardable, offered((*opening).unguardable), nil},
	{PhaseNone, "the time allowed is over before the device was free", VerbFail, PhaseNone, ReasonTimeout, opens((*opening).timedOut), nil},
	{PhaseNone, "a claim is allocated the device", VerbCreate, PhaseAllocated, "", offered((*opening).mayCreate), nil},
	{PhaseNone, "a device is at a node's machine without claim and attachment for the grace time", VerbCreate, PhaseAllocated, "", opens((*opening).orphaned), nil},
}

// arriving is the way to the machine.
var arriving = []Transition{
	{PhaseAllocated, "the device was found attached, for no claim", VerbRecord, PhaseRetained, "", (*situation).adopted, nil},
	{PhaseAllocated, "the claim let go", VerbRecord, PhaseReleased, "", not((*situation).offerHeld), nil},
	{PhaseAllocated, "the time allowed is over, or the node is gone", VerbRecord, PhaseFailed, "", (*situation).doomed, nil},
	{PhaseAllocated, "another attachment has the device", VerbRecord, PhaseFailed, ReasonDeviceTaken, (*situation).rivalled, nil},
	{PhaseAllocated, "no guard of the fabric can keep the device", VerbRecord, PhaseFailed, ReasonUnguardable, (*situation).unguardable, nil},
	{PhaseAllocated, "the guard is not in place", VerbGuard, PhaseAllocated, "", (*situation).unguarded, nil},
	{PhaseAllocated, "the guard is acknowledged", VerbRecord, PhaseGuarded, "", (*situation).guarded, nil},

	{PhaseGuarded, "the claim let go", VerbRecord, PhaseReleased, "", not((*situation).offerHeld), nil},
	{PhaseGuarded, "the time allowed is over, or the node is gone", VerbRecord, PhaseFailed, "", (*situation).doomed, nil},
	{PhaseGuarded, "another attachment has the device", VerbRecord, PhaseFailed, ReasonDeviceTaken, (*situation).rivalled, nil},
	{PhaseGuarded, "the fabric has the device no more", VerbRecord, PhaseFailed, ReasonNoDevice, (*situation).absent, nil},
	{PhaseGuarded, "the device is at the machine already", VerbRecord, PhaseAttached, "", (*situation).isHere, nil},
	{PhaseGuarded, "the device is at another machine", VerbRecord, PhaseFailed, ReasonDeviceTaken, (*situation).isElsewhere, nil},
	{PhaseGuarded, "the device is reserved by somebody else", VerbRecord, PhaseFailed, ReasonDeviceTaken, (*situation).reserved, nil},
	{PhaseGuarded, "the device is withheld: it was not what its model promises", VerbRecord, PhaseFailed, ReasonUnlike, (*situation).withheld, nil},
	{PhaseGuarded, "the device is broken", VerbRecord, PhaseFailed, ReasonUnhealthy, (*situation).broken, nil},
	{PhaseGuarded, "no guard of the fabric can keep the device", VerbRecord, PhaseFailed, ReasonUnguardable, (*situation).unguardable, nil},
	{PhaseGuarded, "the guard is not in place", VerbGuard, PhaseGuarded, "", (*situation).unguarded, nil},
	{PhaseGuarded, "the guard, the node's taint and the reservation are acknowledged where the fabric has them, and the manager's limits have room", VerbRecord, PhaseAttaching, "", (*situation).mayAttach, setAttempt},

	{PhaseAttaching, "the intent was written just now", VerbAttach, PhaseAttaching, "", (*situation).armed, nil},
	{PhaseAttaching, "refused, after a call with an unknown outcome", VerbRecord, PhaseAttachUnknown, "", (*situation).refusedAgain, setReply},
	{PhaseAttaching, "refused", VerbRecord, PhaseFailed, ReasonRefused, (*situation).refused, setReply},
	{PhaseAttaching, "the manager is busy", VerbRecord, PhaseGuarded, "", (*situation).busy, setRetryAttach},
	{PhaseAttaching, "the reply is lost, or gives no handle", VerbRecord, PhaseAttachUnknown, "", (*situation).replyLost, setReply},
	{PhaseAttaching, "whether the manager was called is not known", VerbRecord, PhaseAttachUnknown, "", (*situation).neverCalled, nil},
	{PhaseAttaching, "the operation failed", VerbRecord, PhaseFailed, ReasonAttachFailed, (*situation).operationFailed, setReply},
	{PhaseAttaching, "the inventory shows the device at the machine", VerbRecord, PhaseAttached, "", (*situation).arrived, nil},
	{PhaseAttaching, "the operation has ended with the device at another machine", VerbRecord, PhaseFailed, ReasonWrongMachine, (*situation).endedElsewhere, setMachine},
	{PhaseAttaching, "the operation has ended and the inventory does not show it", VerbRecord, PhaseAttachUnknown, "", (*situation).endedNowhere, nil},
	{PhaseAttaching, "the manager gave the operation a name", VerbRecord, PhaseAttaching, "", (*situation).operationNew, setOperation},
	{PhaseAttaching, "the time allowed is over, or the node is gone", VerbFail, PhaseAttaching, "", (*situation).doomedUntold, nil},
	{PhaseAttaching, "the operation runs", VerbPoll, PhaseAttaching, "", (*situation).pollDue, nil},

	{PhaseAttachUnknown, "the inventory shows the device at the machine", VerbRecord, PhaseAttached, "", (*situation).arrived, nil},
	{PhaseAttachUnknown, "the inventory shows the device at another machine", VerbRecord, PhaseFailed, ReasonWrongMachine, (*situation).strayed, setMachine},
	{PhaseAttachUnknown, "the inventory shows the device no more", VerbRecord, PhaseFailed, ReasonDeviceLost, (*situation).provenLost, nil},
	{PhaseAttachUnknown, "the inventory proves the device free, and the claim let go", VerbRecord, PhaseReleased, "", (*situation).provenFreeAndUnclaimed, nil},
	{PhaseAttachUnknown, "the inventory proves the device free, too late", VerbRecord, PhaseFailed, "", (*situation).provenFreeTooLate, nil},
	{PhaseAttachUnknown, "the inventory proves the device free after the last try", VerbRecord, PhaseFailed, ReasonAttachFailed, (*situation).provenFreeLastTime, nil},
	{PhaseAttachUnknown, "the inventory proves the device free", VerbRecord, PhaseGuarded, "", (*situation).provenFree, nil},
	{PhaseAttachUnknown, "the time allowed is over, or the node is gone", VerbFail, PhaseAttachUnknown, "", (*situation).doomedUntold, nil},
}

// present is the time at the node.
var present = []Transition{
	{PhaseAttached, "the inventory shows the device elsewhere or no more", VerbRecord, PhaseFailed, ReasonDeviceLost, (*situation).lost, nil},
	{PhaseAttached, "the time allowed is over, or the node is gone", VerbRecord, PhaseFailed, "", (*situation).doomed, nil},
	{PhaseAttached, "the node shows the device, which is not what its model promises", VerbWithhold, PhaseAttached, "", (*situation).unlikeUntold, nil},
	{PhaseAttached, "the device is withheld: it is not what its model promises", VerbRecord, PhaseFailed, ReasonUnlike, (*situation).unlikeTold, setUnlike},
	{PhaseAttached, "the node shows the device", VerbRecord, PhaseVisible, "", (*situation).hasArrived, setTarget},
	{PhaseAttached, "the claim let go", VerbRecord, PhaseRetained, "", not((*situation).offerHeld), nil},

	{PhaseVisible, "the inventory shows the device elsewhere or no more", VerbRecord, PhaseFailed, ReasonDeviceLost, (*situation).lost, nil},
	{PhaseVisible, "the claim has the target", VerbRecord, PhaseHandedOver, "", (*situation).handedOver, nil},
	{PhaseVisible, "another claim took the target", VerbRecord, PhaseFailed, ReasonStolen, (*situation).stolen, nil},
	{PhaseVisible, "the claim is gone, or has other devices", VerbRecord, PhaseRetained, "", (*situation).claimElsewhere, nil},
	{PhaseVisible, "the claim is not allocated for the hand-over time", VerbRecord, PhaseRetained, "", (*situation).handOverTimedOut, nil},
	{PhaseVisible, "the node is gone", VerbRecord, PhaseFailed, ReasonNodeGone, (*situation).claimedWithoutNode, nil},
	{PhaseVisible, "the node shows the device by another name", VerbRecord, PhaseVisible, "", (*situation).targetNew, setTarget},
	{PhaseVisible, "the guard is not narrowed to the target", VerbGuard, PhaseVisible, "", (*situation).unguarded, nil},
	{PhaseVisible, "the claim is not told, mode Reschedule", VerbFail, PhaseVisible, ReasonArrived, (*situation).untoldReschedule, nil},
	{PhaseVisible, "the claim is not told", VerbAttached, PhaseVisible, "", (*situation).untoldAttached, nil},

	{PhaseHandedOver, "the inventory shows the device elsewhere or no more", VerbRecord, PhaseFailed, ReasonDeviceLost, (*situation).lost, nil},
	{PhaseHandedOver, "the claim let go", VerbRecord, PhaseRetained, "", not((*situation).claimUses), nil},
	{PhaseHandedOver, "the guard is not lifted", VerbGuard, PhaseHandedOver, "", (*situation).unguarded, nil},
	{PhaseHandedOver, "the claim is reserved for a consumer", VerbRecord, PhaseSettled, "", (*situation).claimReserved, nil},

	{PhaseSettled, "the inventory shows the device elsewhere or no more", VerbRecord, PhaseFailed, ReasonDeviceLost, (*situation).lost, nil},
	{PhaseSettled, "the claim let go", VerbRecord, PhaseRetained, "", not((*situation).claimUses), nil},
	{PhaseSettled, "the guard is not lifted", VerbGuard, PhaseSettled, "", (*situation).unguarded, nil},

	{PhaseFailed, "the device is not what its model promises, and not guarded from everybody", VerbGuard, PhaseFailed, "", (*situation).refusedUnguarded, nil},
	{PhaseFailed, "the claim is not told", VerbFail, PhaseFailed, "", (*situation).failureUntold, nil},
	{PhaseFailed, "the device was attached for the claim, wherever", VerbRecord, PhaseDraining, "", (*situation).leftAttached, setMachine},
	{PhaseFailed, "the device is not attached for the claim, which does not have it any more", VerbRecord, PhaseReleased, "", (*situation).leftNothing, nil},
}

// leaving is the way back.
var leaving = []Transition{
	{PhaseRetained, "the inventory does not show the device there any more", VerbRecord, PhaseReleased, "", (*situation).lost, nil},
	{PhaseRetained, "its claim has the device after all", VerbRecord, PhaseHandedOver, "", (*situation).claimUses, setReclaimed},
	{PhaseRetained, "the node shows the device", VerbRecord, PhaseRetained, "", (*situation).targetNew, setTarget},
	{PhaseRetained, "the guard is not lifted", VerbGuard, PhaseRetained, "", (*situation).unguarded, nil},
	{PhaseRetained, "a claim uses the device", VerbRecord, PhaseRetained, "", (*situation).usedAgain, clearIdle},
	{PhaseRetained, "no claim uses the device any more", VerbRecord, PhaseRetained, "", (*situation).newlyIdle, setIdle},
	{PhaseRetained, "the device is unused for the idle time, or the attachment is to be deleted", VerbRecord, PhaseDraining, "", (*situation).idleLongEnough, nil},

	{PhaseDraining, "the inventory does not show the device there any more", VerbRecord, PhaseReleased, "", (*situation).lost, nil},
	{PhaseDraining, "a claim uses the device", VerbRecord, PhaseRetained, "", (*situation).inUse, clearIdle},
	{PhaseDraining, "the device is not guarded from everybody", VerbGuard, PhaseDraining, "", (*situation).unguarded, nil},
	{PhaseDraining, "the guard is acknowledged, nobody took the device for the drain time, and the manager's limits have room", VerbRecord, PhaseDetaching, "", (*situation).mayDetach, nil},

	{PhaseDetaching, "a claim uses the device, or it is not guarded, and the manager was not called", VerbRecord, PhaseDraining, "", (*situation).usedBeforeCall, nil},
	{PhaseDetaching, "the intent was written just now", VerbDetach, PhaseDetaching, "", (*situation).armed, nil},
	{PhaseDetaching, "refused", VerbRecord, PhaseDraining, "", (*situation).refused, setRetry},
	{PhaseDetaching, "the manager is busy", VerbRecord, PhaseDraining, "", (*situation).busy, setRetry},
	{PhaseDetaching, "the reply is lost, or gives no handle", VerbRecord, PhaseDetachUnknown, "", (*situation).replyLost, setReply},
	{PhaseDetaching, "whether the manager was called is not known", VerbRecord, PhaseDetachUnknown, "", (*situation).neverCalled, nil},
	{PhaseDetaching, "the operation failed", VerbRecord, PhaseDraining, "", (*situation).operationFailed, setRetry},
	{PhaseDetaching, "the inventory does not show the device there any more", VerbRecord, PhaseReleased, "", (*situation).departed, nil},
	{PhaseDetaching, "the operation has ended and the inventory shows the device there", VerbRecord, PhaseDetachUnknown, "", (*situation).endedHere, nil},
	{PhaseDetaching, "the manager gave the operation a name", VerbRecord, PhaseDetaching, "", (*situation).operationNew, setOperation},
	{PhaseDetaching, "the operation runs", VerbPoll, PhaseDetaching, "", (*situation).pollDue, nil},

	{PhaseDetachUnknown, "the inventory does not show the device there any more", VerbRecord, PhaseReleased, "", (*situation).departed, nil},
	{PhaseDetachUnknown, "the inventory proves the device still there", VerbRecord, PhaseDraining, "", (*situation).provenHere, nil},

	{PhaseReleased, "the guard is not lifted", VerbGuard, PhaseReleased, "", (*situation).unguarded, nil},
	{PhaseReleased, "the guard is lifted", VerbDelete, PhaseNone, "", (*situation).guarded, nil},
}

func not(holds func(*situation) bool) func(*situation) bool {
	return func(s *situation) bool { return !holds(s) }
}
