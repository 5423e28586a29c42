// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package attach carries out in a cluster what package kerf.dev/kerf/fabric
// decides: it is the controllers of kerf-controller.
//
// [Fabrics] runs one loop for a Fabric. The loop owns the fabric's planner: what
// the watches of claims, slices, nodes, attachments and guards see is put in its
// inbox, and all that the planner decides is carried out beside it, a bounded
// number of steps at once, with the outcome put in the inbox as well. So nothing
// that is slow holds up what is seen, and one goroutine alone has the planner.
//
// # Contract
//
//   - A loop plans nothing before all its watches have delivered what exists.
//   - Writes are checked against the object as it is, not as a cache has it: the
//     status of an attachment is written on top of the revision before it, a
//     condition only for the allocation that it is about.
//   - A change of a Fabric's spec, or of its credentials, ends the loop, and starts
//     another that knows what the API keeps. Operations under way are not lost by
//     that: their outcome is looked up in the inventory.
//   - Credentials are sent only to an endpoint that their Secret names. A loop that has
//     some which may not be sent there any more is ended.
//   - What a manager answers is limited, and no lock is held, and no other Fabric waits,
//     while a manager is waited for.
//   - The slices of a Fabric are owned by it and end with it. A loop that ends for
//     another reason leaves them.
//   - What the status of an attachment says is the loop's own, and that of its slices:
//     the admission policies of deploy/controller keep others from writing them. The
//     condition NodeGuarded is its node's.
//   - The planner learns that a device is kept for a claim in the slices when they are
//     written. What is to be published is worked out when the last publication has
//     ended, however much happens meanwhile.
//   - What a Fabric's status says of its models holds for the generation of the spec that
//     its condition names. It is written on top of what is there, and read from the watch.
//   - Amounts in a Fabric are read where they are used: a Fabric that nobody can compute
//     with is not ready, reason Invalid, and stops no other.
//   - A deleted Fabric has its loop until its attachments have ended. While there are
//     any, no other service is taken for its manager.
//   - Of two Fabrics of one service the younger offers and attaches nothing.
//   - No device is offered whose claims the controller is known not to be permitted to
//     tell of it.
//   - When the manager of AddTo has stopped, nothing runs.
package attach
