// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import resourceapi "k8s.io/api/resource/v1"

// What a fabric's controller says in slices and DeviceTaintRules of a device that
// is attached for one claim.
const (
	// ClaimTaint keeps a device for the claim whose UID is the taint's value. That
	// claim tolerates it, and with it all ArrivingTaints, without saying so in its
	// spec, and takes such a device before any other.
	ClaimTaint = "fabric.kerf.dev/claim"
	// ArrivingTaint keeps everybody from devices among which one is about to arrive
	// for the claim whose UID is the taint's value: nobody knows yet which one.
	ArrivingTaint = "fabric.kerf.dev/arriving"

	// IdentityAttribute of a device in a fabric's pool names the attribute by whose
	// value the device is recognised when its node's driver publishes it.
	IdentityAttribute resourceapi.QualifiedName = "fabric.kerf.dev/identity"
	// ClaimAttribute of a device in a fabric's pool is the UID of the claim that it
	// is attached for. The device with the same identity on a node is then kept as
	// if it had the ClaimTaint.
	ClaimAttribute resourceapi.QualifiedName = "fabric.kerf.dev/claim"
)
