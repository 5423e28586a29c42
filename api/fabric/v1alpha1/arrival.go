// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ArrivalKind is the kind of an [Arrival].
const ArrivalKind = "HandOver"

// Arrival is the data of a claim's device that has arrived on its node
// (ResourceClaim.status.devices[].data, beside the true [ConditionAttached]): who
// exchanges the claim's allocation reads it. It is no object of its own.
//
// +kubebuilder:object:generate=false
type Arrival struct {
	metav1.TypeMeta `json:",inline"`

	// Target is the device as the node's driver publishes it. Absent: the device
	// that carries the taint for the claim.
	//
	// +optional
	Target *DeviceReference `json:"target,omitempty"`
}

// GuardLabel is on the DeviceTaintRules that keep arriving and leaving devices from
// being handed out. Its value says which guard it is.
const GuardLabel = "fabric.kerf.dev/guard"

// RuleSeen is the condition of a DeviceTaintRule with the [GuardLabel] that
// kerf-scheduler sets: from that generation on it hands out no device against the
// rule.
const RuleSeen = "fabric.kerf.dev/seen"
