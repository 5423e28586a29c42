// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Manager is what attaches devices of a fabric to machines: a fabric manager's
// API, whatever its protocol. Calls can be slow, fail, or succeed without the
// caller learning it (the reply is lost); Inventory is the only truth.
//
// A call that did nothing says so with a [RefusedError] or a [BusyError]. After
// any other error of Attach or Detach the outcome is unknown.
type Manager interface {
	// Inventory reads all machines and devices of the fabric.
	Inventory(ctx context.Context) (Inventory, error)
	// Attach starts attaching a free device to a machine. The operation may have
	// ended when it returns.
	Attach(ctx context.Context, device DeviceRef, machine MachineRef) (Operation, error)
	// Detach starts detaching a device from a machine.
	Detach(ctx context.Context, device DeviceRef, machine MachineRef) (Operation, error)
	// Operation asks how an operation is getting on. The error is
	// ErrUnknownOperation where the manager does not know it any more.
	Operation(ctx context.Context, id OperationID) (Operation, error)
	// Limits are what the manager can bear; fixed for its life.
	Limits() Limits
}

// DeviceRef is the manager's name of a device, e.g. the @odata.id of a
// ResourceBlock.
type DeviceRef string

// MachineRef is the manager's name of a machine, e.g. the @odata.id of a
// ComputerSystem.
type MachineRef string

// OperationID is the manager's name of an operation, empty where the manager
// has no handle for it.
type OperationID string

// Machine is a computer that devices can be attached to.
type Machine struct {
	Ref          MachineRef
	Name         string
	UUID         string
	SerialNumber string
	HostName     string
	// Zones are the manager's names of what the machine can be reached from.
	Zones []string
}

// Device is a device of the fabric, free or attached.
type Device struct {
	Ref DeviceRef
	// Kind is the manager's word for it: "Processor", "PCIeDevice", ...
	Kind         string
	Manufacturer string
	Model        string
	PartNumber   string
	SerialNumber string
	UUID         string
	// Zones limit where the device can go: to machines of a zone they share.
	// Without zones it can go to any machine.
	Zones []string
	// Machine is where the device is attached, empty where it is free.
	Machine MachineRef
	// Reserved devices are spoken for by somebody else.
	Reserved bool
	// Busy devices are being attached or detached.
	Busy    bool
	Healthy bool
	// MemoryMiB is the device's own memory in MiB, 0 where it is not known.
	MemoryMiB int64
}

// Inventory is all that a fabric manager knows, at one moment.
type Inventory struct {
	Machines []Machine
	Devices  []Device
}

// OperationState says whether an operation has ended.
type OperationState string

// States of operations.
const (
	Running OperationState = "Running"
	Done    OperationState = "Done"
	// Failed says that the operation ended without success. What it
	// left behind, only the inventory tells.
	Failed OperationState = "Failed"
)

// Operation is an attach or a detach under way, or ended.
type Operation struct {
	ID    OperationID
	State OperationState
	// Message is the manager's own explanation, for people.
	Message string
}

// Limits are the numbers of operations that a manager can bear at once.
type Limits struct {
	// Concurrent operations on the whole fabric; 0 means one.
	Concurrent int
	// PerMachine is the number of operations on one machine; 0 means one.
	PerMachine int
}

// ErrUnknownOperation says that the manager does not know an operation, or does
// not know it any more. How it ended, only the inventory tells.
var ErrUnknownOperation = errors.New("the fabric manager does not know the operation")

// RefusedError says that the manager said no: nothing was done.
type RefusedError struct {
	// Op is "attach" or "detach".
	Op      string
	Device  DeviceRef
	Machine MachineRef
	Reason  string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the fabric manager refuses to %s device %s, machine %s: %s", e.Op, e.Device, e.Machine, e.Reason)
}

// LimitError says that the manager answers more, or later, than is waited for.
type LimitError struct {
	// What is the limit, and what is above it.
	What string
}

func (e *LimitError) Error() string { return "limit exceeded: " + e.What }

// BusyError says that the manager cannot do it now: nothing was done.
type BusyError struct {
	// RetryAfter is how long the manager wants to be left alone, 0 where it does
	// not say.
	RetryAfter time.Duration
	Reason     string
	// LoginRefused says that it is not too busy, but refuses who asks.
	LoginRefused bool
}

func (e *BusyError) Error() string {
	if e.LoginRefused {
		return "the fabric manager refuses the login: " + e.Reason
	}
	return fmt.Sprintf("the fabric manager is busy: %s", e.Reason)
}
