// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inventory says what devices exist and what of them is taken.
//
// An [Inventory] is fed with API objects (ResourceSlices, DeviceTaintRules,
// claims, nodes, classes) in any order and hands out immutable [Snapshot]s. A
// snapshot gives a [View] per node: the pools that the node reaches, the
// devices in them, and what is left in every counter. Views are the input of
// package alloc.
//
// # Invariants
//
//   - Snapshots and everything reachable from them never change. They share
//     whatever did not change with the snapshots before them, so taking one
//     costs work in proportion to what changed since the last.
//   - The unit of completeness and validity is the pool. A node's pool consists of the
//     slices that the node reaches, of the highest generation among them. If these are
//     complete, no slice of another node counts, whatever it says. If they are not, all
//     slices of that generation count; a slice of a higher generation is then the reason
//     why the pool offers nothing. A pool that is incomplete or invalid offers nothing
//     and says why. It never affects another pool.
//   - The name of a device is unique in the cluster: if it is taken, no node gives out
//     another device of that name. Counters belong to the pool as the node has it.
//   - The listed order of devices is pool driver, pool name, slice name, then
//     the position in the slice; pools with binding conditions come after all
//     others. It does not depend on the order in which objects arrived.
//   - Occupancy does not depend on what a slice says today: a taken device that left its
//     pool, or now consumes less, still holds what it held. If that is not known, the
//     counter sets of its pool are closed. A pool that only one node has ignores what
//     claims for other nodes hold.
//   - A slice of a fabric may say that devices which it does not publish are kept for a
//     claim, see [FromFabric]; of other slices that is ignored. Such a change costs work
//     only for the pools with devices that are kept for another claim than before.
//
// The package is pure: no client, no clock, no goroutine, no logger. An
// Inventory must not be used by several goroutines at once; snapshots may.
package inventory
