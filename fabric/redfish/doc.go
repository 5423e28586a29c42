// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redfish is a fabric.Manager over DMTF Redfish: a fabric manager that offers a CompositionService, with a
// ResourceBlock for each device and a ComputerSystem for each machine.
//
// A DeviceRef is the @odata.id of a ResourceBlock, a MachineRef that of a ComputerSystem, an OperationID the path of a
// task monitor. A device's identity (UUID, SerialNumber, ...) is that of the one Processor or PCIeDevice of its block.
// A block of several has none, because nobody could tell which of them arrived; a block that contains a ComputerSystem
// stands for a machine and is no device.
//
// # How a device is attached
//
// The block is read, reserved (CompositionStatus.Reserved, with If-Match), and added to the system: with the action
// ComputerSystem.AddResourceBlock where the system offers it, else with a PATCH of Links.ResourceBlocks. It stays
// reserved while it is attached, and is given back after it was detached.
//
// # What an error means
//
// A fabric.RefusedError or fabric.BusyError is returned only where nothing was done, or what was done (the
// reservation) has been undone. Any other error of Attach or Detach leaves the outcome unknown. A request that changes
// something is never sent twice, with one exception: an answer of 401 proves that nothing was done, so it is sent again
// after a login.
//
// # Reservations
//
// Redfish does not tell whose a reservation is. One that this Manager made, or that Options.Ours says is ours, is ours;
// all others are somebody else's. After an interruption a free block may be left reserved by us. Inventory gives such a
// block back, and reports it as busy as long as that fails; that is the one thing that Inventory changes.
//
// # Cost
//
// With $expand an inventory is three requests, and one per page more. Without, it is one conditional request (If-None-Match)
// per block, system and zone; the devices below a block are read again only when its ETag has changed. No more than
// Options.Requests are going on at once.
//
// # A service in the wrong hands
//
// Nothing is sent to another host than Options.Endpoint, whatever a redirect or a link says. What we log in with is taken
// out of errors and messages, should the service say it back. What is read is limited, by a fabric.LimitError that names
// the limit: 16 MiB of one answer (64 KiB of one that says no), 64 MiB of all answers of a call, 16,384 entries of a list
// or members of a collection, 1,024 pages, 1,048,576 places in zones, 1,024 bytes of a name or property, and
// Options.Timeout for a call as a whole. A collection that is too large for one answer with $expand is read without. What
// is kept to be asked for with If-None-Match is limited by 64 MiB as well.
package redfish
