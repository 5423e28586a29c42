// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Step is an action for the caller to carry out. One step at a time is under way
// for an attachment; the next comes after [Planner.Report], which every step must
// come to.
type Step struct {
	// Because is the transition that the step carries out, nil for ReadInventory.
	Because *Transition
	Action  Action

	id  uint64
	key key
	at  time.Time
}

// Action is one of the types below.
type Action interface{ verb() Verb }

// CreateAttachment writes an intent, with a finalizer that keeps the object until
// DeleteAttachment. An object of that name that exists already must be observed
// before success is reported.
type CreateAttachment struct{ Attachment Attachment }

// RecordStatus writes the status of an attachment, on top of the revision before
// it: when somebody else wrote it meanwhile, it fails.
type RecordStatus struct {
	Name   string
	Status AttachmentStatus
}

// DeleteAttachment deletes an attachment that has ended, its finalizer first. One that does not exist
// is a success.
type DeleteAttachment struct{ Name string }

// SetGuard puts a guard in place, in exchange for the attachment's last one, or
// lifts it. That it is seen is told with [Planner.ObserveGuard].
type SetGuard struct {
	Attachment Attachment
	Guard      Guard
	// Node is where the device is, or arrives.
	Node   string
	Driver string
	// Device is the device to guard, nil where it is not known: then the guard is
	// for the driver's pool on the node.
	Device *LocalDevice
}

// CallAttach calls Manager.Attach.
type CallAttach struct {
	Name    string
	Device  DeviceRef
	Machine MachineRef
}

// CallDetach calls Manager.Detach.
type CallDetach struct {
	Name    string
	Device  DeviceRef
	Machine MachineRef
}

// PollOperation calls Manager.Operation.
type PollOperation struct {
	Name string
	ID   OperationID
}

// Withhold has the fabric's status say that a device is not offered any more, before its
// attachment ends. One of which it says so already is a success.
type Withhold struct {
	// Attachment is the name of the attachment that the device arrived by.
	Attachment string
	Withheld
}

// SetCondition writes a condition of a claim's device, if the claim still has
// the allocation of that time; otherwise there is nothing to do.
type SetCondition struct {
	Claim ClaimRef
	// AllocatedAt is zero where the time of the allocation is not known.
	AllocatedAt time.Time
	Device      LocalDevice
	// Failed says which of the two: the failure condition or the binding condition.
	Failed  bool
	Reason  Reason
	Message string
	// Target is the device that arrived, of the binding condition.
	Target *LocalDevice
}

// ReadInventory calls Manager.Inventory.
type ReadInventory struct{}

// Verb names an action in the table of transitions.
type Verb string

const (
	VerbCreate    Verb = "create attachment"
	VerbRecord    Verb = "record"
	VerbDelete    Verb = "delete attachment"
	VerbGuard     Verb = "set guard"
	VerbAttach    Verb = "call Attach"
	VerbDetach    Verb = "call Detach"
	VerbPoll      Verb = "poll operation"
	VerbWithhold  Verb = "withhold device"
	VerbAttached  Verb = "set condition: attached"
	VerbFail      Verb = "set condition: failed"
	VerbInventory Verb = "read inventory"
)

func (CreateAttachment) verb() Verb { return VerbCreate }
func (RecordStatus) verb() Verb     { return VerbRecord }
func (DeleteAttachment) verb() Verb { return VerbDelete }
func (SetGuard) verb() Verb         { return VerbGuard }
func (CallAttach) verb() Verb       { return VerbAttach }
func (CallDetach) verb() Verb       { return VerbDetach }
func (PollOperation) verb() Verb    { return VerbPoll }
func (Withhold) verb() Verb         { return VerbWithhold }
func (ReadInventory) verb() Verb    { return VerbInventory }
func (c SetCondition) verb() Verb {
	if c.Failed {
		return VerbFail
	}
	return VerbAttached
}

// Outcome is how a step went.
type Outcome struct {
	// Err is what the API or the manager said. What it means for a call of the
	// manager, see [Manager].
	Err error
	// Operation is the reply to CallAttach, CallDetach and PollOperation.
	Operation Operation
	// Inventory is the reply to ReadInventory.
	Inventory Inventory
}

// Plan is what to do now.
type Plan struct {
	Steps []Step
	// Wake is when to plan again if nothing happens before, zero for never.
	Wake time.Time
}

// kind is what a key names.
type kind int

const (
	keyDevice     kind = iota // a device that has no attachment
	keyOffer                  // a device that was allocated to a claim
	keyAttachment             // an attachment
	keyInventory              // the inventory
)

// key names what is planned for. There is one step under way for a key.
type key struct {
	kind  kind
	name  string // of an attachment, or reference of a device
	claim types.UID
	offer LocalDevice
}
