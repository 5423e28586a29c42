// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

// Phase is how far an attachment is.
type Phase string

// Phases of an attachment, in the order of a device that arrives and leaves.
const (
	// PhaseNone is no attachment, for a device that a claim was allocated or that
	// somebody left attached.
	PhaseNone          Phase = ""
	PhaseAllocated     Phase = "Allocated"
	PhaseGuarded       Phase = "Guarded"
	PhaseAttaching     Phase = "Attaching"
	PhaseAttachUnknown Phase = "AttachUnknown"
	PhaseAttached      Phase = "Attached"
	PhaseVisible       Phase = "Visible"
	PhaseHandedOver    Phase = "HandedOver"
	PhaseSettled       Phase = "Settled"
	PhaseFailed        Phase = "Failed"
	PhaseRetained      Phase = "Retained"
	PhaseDraining      Phase = "Draining"
	PhaseDetaching     Phase = "Detaching"
	PhaseDetachUnknown Phase = "DetachUnknown"
	PhaseReleased      Phase = "Released"
)

// PhaseInfo describes a phase.
type PhaseInfo struct {
	Phase   Phase
	Meaning string
	// Guard is what must be in place in this phase, empty where what there is stays.
	Guard Guard
	// Operation says that the manager may be at work: the phase counts against the
	// limits.
	Operation bool
	// Offered says that the device is still published as free.
	Offered bool
	// Kept says that the device is published as kept for its claim, where it has an
	// identity: who sees a device with that identity on a node knows whose it is.
	Kept bool
}

var phases = []PhaseInfo{
	{PhaseAllocated, "the intent is written, nothing was done", GuardPool, false, true, false},
	{PhaseGuarded, "nobody else can take the device when it arrives; the manager may be called", GuardPool, false, true, true},
	{PhaseAttaching, "the manager is asked to attach the device", GuardPool, true, false, true},
	{PhaseAttachUnknown, "whether the manager attached the device is not known", GuardPool, true, false, true},
	{PhaseAttached, "the inventory shows the device at the machine; the node does not show it yet", GuardPool, false, false, true},
	{PhaseVisible, "the node shows the device, which is the target for the claim", GuardDevice, false, false, true},
	{PhaseHandedOver, "the claim has the target", GuardNone, false, false, false},
	{PhaseSettled, "a consumer of the claim uses the target, guards are lifted", GuardNone, false, false, false},
	{PhaseFailed, "the claim does not get the device, or has lost it; the reason says why", "", false, false, false},
	{PhaseRetained, "the device is attached and its claim has let go: it stays while it is used, and for the idle time", GuardNone, false, false, false},
	{PhaseDraining, "the device is to be detached: nobody may take it any more", GuardDrain, false, false, false},
	{PhaseDetaching, "the manager is asked to detach the device", GuardDrain, true, false, false},
	{PhaseDetachUnknown, "whether the manager detached the device is not known", GuardDrain, true, false, false},
	{PhaseReleased, "the device is where it was before, or lost to the fabric; the intent has ended", GuardNone, false, false, false},
}

// Phases returns all phases that an attachment can be in.
func Phases() []PhaseInfo { return append([]PhaseInfo(nil), phases...) }

var phaseInfo = func() map[Phase]PhaseInfo {
	byName := map[Phase]PhaseInfo{}
	for _, info := range phases {
		byName[info.Phase] = info
	}
	return byName
}()
