// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// LocalDevice is a device as a driver publishes it in a pool: of a node, or of
// the fabric.
type LocalDevice struct {
	Driver, Pool, Device string
}

// Claim is what the planner needs to know of a ResourceClaim.
type Claim struct {
	UID             types.UID
	Namespace, Name string
	// Node is the node that the allocation is bound to, empty where it is not
	// allocated or bound to none.
	Node string
	// AllocatedAt is the time of the allocation, zero where it is not known.
	AllocatedAt time.Time
	// Reserved says that the claim is reserved for a consumer.
	Reserved bool
	// Devices are the allocated devices of all drivers; none: not allocated.
	Devices []ClaimDevice
}

// device is the claim's allocated device of that name, nil if it has none, or is nil.
func (c *Claim) device(name LocalDevice) *ClaimDevice {
	if c == nil {
		return nil
	}
	for i := range c.Devices {
		if c.Devices[i].LocalDevice == name {
			return &c.Devices[i]
		}
	}
	return nil
}

// allocatedAs tells whether the claim's allocation is that which an attachment is for.
func (c *Claim) allocatedAs(a *entry) bool {
	return c.AllocatedAt.IsZero() || c.AllocatedAt.Equal(a.Spec.AllocatedAt)
}

// ClaimDevice is an allocated device of a claim.
type ClaimDevice struct {
	LocalDevice
	// Attached and Failed say that the binding condition, or the failure
	// condition, is true, for this allocation.
	Attached, Failed bool
	// AdminAccess leaves the device free for others. It counts as use.
	AdminAccess bool
}

// Node is a node of the cluster that the fabric reaches.
type Node struct {
	Name    string
	Machine MachineRef
}

// NodePool is what a driver publishes for a node. Pools that are not complete
// yet are not told.
type NodePool struct {
	Node, Driver, Pool string
	Devices            []NodeDevice
}

// NodeDevice is a device in a node's pool.
type NodeDevice struct {
	Name string
	// Identity is the value of the identity attribute, empty where it has none.
	Identity string
	// ClaimTaint is the UID of the claim that the device's taint reserves it for.
	ClaimTaint types.UID
	// Attributes by qualified name, as a Model has them.
	Attributes map[string]string
	// Capacity by qualified name.
	Capacity map[string]resource.Quantity
	// Flaw says why nobody can be allocated the device, whatever he asks for, empty
	// where there is no reason.
	Flaw string
}

// Guard is how an arriving or leaving device is kept from others.
type Guard string

const (
	// GuardNone is no guard.
	GuardNone Guard = "None"
	// GuardPool keeps everybody from what is not allocated of a driver's pool on the
	// node: one of its devices is about to arrive for the claim.
	GuardPool Guard = "Pool"
	// GuardDevice keeps one device for the claim.
	GuardDevice Guard = "Device"
	// GuardDrain keeps a device, or the pool where it is not known which device,
	// from everybody.
	GuardDrain Guard = "Drain"
)

// GuardStatus is the guard that is in place for an attachment.
type GuardStatus struct {
	Guard Guard
	// Device is what it guards, nil for the driver's pool on the node.
	Device *LocalDevice
	// Acknowledged says that every scheduler which honours guards has seen it.
	Acknowledged bool
}

// Attachment is the durable intent for one device: a DeviceAttachment.
type Attachment struct {
	Name string
	Spec AttachmentSpec
	// Status is written by the planner alone. Of two statuses the one with the
	// higher revision is newer.
	Status AttachmentStatus
	// Deleting says that somebody wants the attachment to end. A device in use is
	// not detached for that.
	Deleting bool
	// NodeGuarded says that the node will put a taint for the claim on the device
	// before it publishes it. Once said it holds.
	NodeGuarded bool
}

// AttachmentSpec never changes.
type AttachmentSpec struct {
	Fabric  string
	Device  DeviceRef
	Node    string
	Machine MachineRef
	// Claim is whom the device is attached for, nil for a device that was found
	// attached.
	Claim *ClaimRef
	// Offer is the fabric's device that was allocated to the claim.
	Offer LocalDevice
	// AllocatedAt is the time of the allocation, or that of the intent where it is
	// not known. The attach timeout counts from it.
	AllocatedAt time.Time
	// Template says that Device was chosen among equals.
	Template bool
	// Identity is what the device is recognised by on the node, nil where there is
	// nothing.
	Identity *Identity
	// Tainted says that the node is to put the claim's taint on the device before it
	// publishes it: the guard Taint.
	Tainted bool
}

// ClaimRef names a claim.
type ClaimRef struct {
	Namespace, Name string
	UID             types.UID
}

// AttachmentStatus is how far an attachment is.
type AttachmentStatus struct {
	// Phase is empty in an object that was just created, which means Allocated.
	Phase Phase
	// Reason says why, where it went wrong.
	Reason Reason
	// Message is for people.
	Message string
	// Since is when the phase was entered.
	Since time.Time
	// Operation is the manager's operation of phases Attaching and Detaching.
	Operation OperationID
	// Machine is where the device was attached when that is not the machine of the
	// spec.
	Machine MachineRef
	// Target is the device as the node's driver publishes it.
	Target *LocalDevice
	// Before are the node's devices that look like the awaited one and were there
	// before, for devices without identity.
	Before []LocalDevice
	// Attempts counts how often the manager was to be called to attach.
	Attempts int
	// RetryAt is when the manager may be called again.
	RetryAt time.Time
	// IdleSince is since when the device is known to be unused.
	IdleSince time.Time
	// Revision counts the changes of the status.
	Revision int64
}

// Reason is why an attachment failed, for programs.
type Reason string

const (
	ReasonTimeout      Reason = "Timeout"
	ReasonUnguardable  Reason = "Unguardable"
	ReasonNodeGone     Reason = "NodeGone"
	ReasonNoDevice     Reason = "NoDevice"
	ReasonDeviceTaken  Reason = "DeviceTaken"
	ReasonUnhealthy    Reason = "DeviceUnhealthy"
	ReasonRefused      Reason = "Refused"
	ReasonAttachFailed Reason = "AttachFailed"
	ReasonWrongMachine Reason = "WrongMachine"
	ReasonDeviceLost   Reason = "DeviceLost"
	ReasonStolen       Reason = "Stolen"
	// ReasonUnlike is that of a device that arrived and is not what its model promises.
	ReasonUnlike Reason = "NotAsPromised"
	// ReasonClaimFailed is somebody else's failure condition.
	ReasonClaimFailed Reason = "ClaimFailed"
	// ReasonArrived fails a claim in mode Reschedule so that its pod is scheduled
	// again, now that the device is there.
	ReasonArrived Reason = "Arrived"
)
