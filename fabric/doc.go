// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fabric decides what is to be done so that devices of a fabric end up
// on the nodes of the claims that they are allocated to, and are given back.
//
// The caller tells a [Planner] what is wanted and what it sees: claims with their
// allocations, nodes and the devices on them, the fabric manager's inventory,
// guards, and the [Attachment]s, the durable intents. [Planner.Plan] answers
// with the next steps at a given time. The caller carries them out, in any order and
// at any speed, and tells the outcome of each with [Planner.Report]. [Manager] is the
// interface of the fabric's manager, which the caller talks to.
//
// The states of an attachment and all ways between them are one table,
// [Transitions]; STATES.md is that table as text.
//
// # Invariants
//
//   - An intent is written before the manager is called, so a crash at any
//     moment loses no device: what an interrupted call did, the inventory tells.
//     An unknown outcome stays unknown until an inventory that was read later
//     says otherwise. It is never retried blindly.
//   - The manager is asked to attach a device only when all guards of the fabric that
//     can keep it from others are acknowledged. What none can keep is not offered.
//   - There is at most one attachment for a device, so no device is attached for
//     two claims.
//   - A device that arrived and is not what its model promises is not attached for that
//     model again, under this policy. Its own claim does not get it either. The fabric's
//     status says so before the attachment ends, and a new planner learns it from there:
//     see [Planner.ObserveWithheld].
//   - A device in use is never detached. What is not known to be unused counts as
//     used, so a planner without knowledge detaches nothing: see [Planner.Ready].
//     This relies on three things: schedulers honour the guard that they acknowledged;
//     while a device is drained, its driver does not rename it; and its machine does not
//     become a node.
//   - A device that another fabric has an attachment for is never taken for one that
//     was forgotten: see [Planner.ObserveForeign].
//   - The manager never sees more operations at once than its [Limits] allow, and
//     outcomes that are unknown count as under way.
//   - A planner that starts with the attachments alone goes on where the last one
//     was. Deadlines count from times that are kept in the API.
//   - Work is bounded by what an event concerns: attachments, claims and devices
//     are looked up by name, claim, device and node, never searched for.
//
// The package is pure: no client, no clock, no goroutine, no logger. Time is an
// argument. A Planner must not be used by several goroutines at once.
package fabric
