// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package handover gives a pod the devices that arrive for it, and keeps from it those that
// it must not have.
//
// A device of a fabric is attached after the claim was allocated. [Waiter] waits for its binding
// conditions (KEP-5007). Where the controller says in the claim's status what the device is
// called on the node (fabric.kerf.dev/v1alpha1 Arrival), it exchanges the allocation: one write
// clears it, the next sets the new one. What the claim is to have is promised to it in memory
// before the first write. It does not believe everything that a claim's status says: only a
// device that a Fabric's slices offer can arrive, as a device of the same driver, and not as
// one that is, or may be, another claim's. After a crash between the two writes the device
// stays kept for the claim, by its taint or by what the fabric's pool says of it
// (inventory.ClaimTaint), and the next attempt takes it. Other pods that wait for the claim get
// the new device, too. A claim that a running pod uses is left as it is.
//
// [Taints] says which devices DeviceTaintRules and taints keep from a pod. [Rules] acknowledges
// the rules that guard arriving and leaving devices, when no device that they select is reserved
// in memory; what was chosen before is not reserved after that. It also mends slices that have
// not got the taints of the rules that there are.
package handover
