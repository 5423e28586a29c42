// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package attach carries out in a cluster what package kerf.dev/kerf/fabric
// decides: it is the controllers of kerf-controller.
//
// [Fabrics] runs one loop for each Fabric. The loop owns the fabric's planner. Watches of
// claims, slices, nodes, attachments and guards put what they see in the loop's inbox.
// Other goroutines carry out the steps that the planner decides, a bounded number at
// once, and put the outcome in the inbox as well. So nothing slow holds up what is
// seen, and one goroutine alone uses the planner.
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
//   - Credentials are sent only to an endpoint that their Secret names. When the Secret
//     no longer names it, the loop ends.
//   - What is read of a manager's answer is limited. While a loop waits for its manager
//     it holds no lock, and no other Fabric waits.
//   - The slices of a Fabric are owned by it and end with it. A loop that ends for
//     another reason leaves them.
//   - The loop alone writes the status of attachments, and the Fabric's slices: the
//     admission policies of deploy/controller keep others from it. Only the condition
//     NodeGuarded is written by the attachment's node.
//   - The planner learns that a device is kept for a claim only when the slices that say
//     so are written. One publication follows the other: the next is worked out when the
//     last has ended, however much happens meanwhile.
//   - What a Fabric's status says of its models holds for the generation of the spec that
//     its condition names. It is written on top of what is there, and read from the watch.
//   - A Fabric with an amount that nobody can compute with is not ready, reason Invalid.
//     It stops no other Fabric.
//   - A deleted Fabric has its loop until its attachments have ended. While there are
//     any, no other service is taken for its manager.
//   - Of two Fabrics of one service the younger offers and attaches nothing.
//   - The controller must be able to report on a device in the status of its claim. A
//     device for which it lacks that permission is not offered.
//   - When the manager of AddTo has stopped, nothing runs.
package attach
