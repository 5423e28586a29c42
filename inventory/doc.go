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
//   - The unit of completeness and validity is the pool. What decides about a
//     node's pool are the slices that the node reaches, of the highest generation
//     among them. Where they are all that there should be, no slice of another
//     node counts, whatever it says. Where they are not, all slices of that
//     generation count, and a higher one is the reason why there is nothing. A
//     pool that is incomplete or invalid offers nothing and says why; it never
//     affects another pool.
//   - The name of a device is the whole cluster's: where it is taken, no node gives
//     out another device of that name. Counters are the pool's as the node has it.
//   - The listed order of devices is pool driver, pool name, slice name, then
//     the position in the slice; pools with binding conditions come after all
//     others. It does not depend on the order in which objects arrived.
//   - Occupancy does not depend on what a slice says today: a taken device that
//     left its pool, or now consumes less, still holds what it held. Where
//     that is not known, the counter sets of its pool are closed. A pool that is
//     one node's alone does not mind what claims for other nodes hold.
//   - What a slice says of devices that it does not publish is believed where the slice
//     is a fabric's, see [FromFabric]. It costs what it touches: the pools with devices
//     that are kept for somebody else than before.
//
// The package is pure: no client, no clock, no goroutine, no logger. An
// Inventory must not be used by several goroutines at once; snapshots may.
package inventory
