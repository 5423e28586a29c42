// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// DeviceAttachment is the intent to have one device of a fabric at the machine of
// a node, for a claim. It is written before the fabric's manager is called, and
// stays until the device is free again.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=da;attachment,categories={kerf}
// +kubebuilder:selectablefield:JSONPath=`.spec.node`
// +kubebuilder:selectablefield:JSONPath=`.spec.fabric`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.node`
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.claim.namespace`
// +kubebuilder:printcolumn:name="Claim",type=string,JSONPath=`.spec.claim.name`
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.status.target.device`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Fabric",type=string,priority=1,JSONPath=`.spec.fabric`
// +kubebuilder:printcolumn:name="Device",type=string,priority=1,JSONPath=`.spec.device`
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.since`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DeviceAttachment struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the spec of an attachment cannot be changed; delete the attachment to have the device detached once it is unused"
	Spec DeviceAttachmentSpec `json:"spec"`
	// +optional
	Status DeviceAttachmentStatus `json:"status,omitempty"`
}

// DeviceAttachmentList is a list of attachments.
//
// +kubebuilder:object:root=true
type DeviceAttachmentList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []DeviceAttachment `json:"items"`
}

// DetachFinalizer keeps an attachment until its device is free.
const DetachFinalizer = "fabric.kerf.dev/detach"

// DeviceAttachmentSpec is the intent.
//
// +kubebuilder:validation:XValidation:rule="has(self.claim) && has(self.identity) || !has(self.tainted) || !self.tainted",message="tainted needs a claim and an identity"
// +kubebuilder:validation:XValidation:rule="has(self.claim) || !has(self.template) || !self.template",message="template needs a claim"
type DeviceAttachmentSpec struct {
	// Fabric is the name of the Fabric.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Fabric string `json:"fabric"`

	// Device is the manager's reference of the device.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Device string `json:"device"`

	// Node is where the device is to be.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node"`

	// Machine is the manager's reference of the node's machine.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Machine string `json:"machine"`

	// Claim is what the device is attached for. Absent for a device that was found
	// attached.
	//
	// +optional
	Claim *ClaimReference `json:"claim,omitempty"`

	// Offer is the device of the fabric's pool that the claim was allocated.
	//
	// +required
	Offer DeviceReference `json:"offer"`

	// AllocatedAt is when the claim was allocated, or where that is not known, when
	// the intent was made. The attach timeout counts from it.
	//
	// +required
	AllocatedAt metav1.Time `json:"allocatedAt"`

	// Template says that the device was chosen among equals.
	//
	// +optional
	Template bool `json:"template,omitempty"`

	// Identity is what the device is recognised by once its driver publishes it.
	// Absent where there is nothing.
	//
	// +optional
	Identity *IdentityValue `json:"identity,omitempty"`

	// Tainted says that the node is to put the claim's taint on the device before it
	// publishes it, and to say so with the condition NodeGuarded.
	//
	// +optional
	Tainted bool `json:"tainted,omitempty"`
}

// IdentityValue is an attribute of a device, and its value.
type IdentityValue struct {
	// Attribute is the name of the attribute. Without domain it is the driver's.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=96
	Attribute string `json:"attribute"`
	// Value is the attribute's value, except for case.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Value string `json:"value"`
}

// ClaimReference names a ResourceClaim.
type ClaimReference struct {
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// +required
	UID types.UID `json:"uid"`
}

// DeviceReference names a device in a pool of a driver.
type DeviceReference struct {
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Driver string `json:"driver"`
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Pool string `json:"pool"`
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Device string `json:"device"`
}

// Phase is how far an attachment is. fabric/STATES.md describes the phases and the
// ways between them.
//
// +kubebuilder:validation:Enum=Allocated;Guarded;Attaching;AttachUnknown;Attached;Visible;HandedOver;Settled;Failed;Retained;Draining;Detaching;DetachUnknown;Released
type Phase string

// DeviceAttachmentStatus is how far an attachment is. The controller alone writes
// it, except for the condition NodeGuarded, which is its node's; an admission policy in
// deploy/controller sees to that.
type DeviceAttachmentStatus struct {
	// Phase is absent in a new attachment, which means Allocated.
	//
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// Since is when the phase was entered.
	//
	// +optional
	Since *metav1.MicroTime `json:"since,omitempty"`

	// Reason is why it went wrong, for programs.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`

	// Message is for people.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// OperationID is the manager's name of the operation under way.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=512
	OperationID string `json:"operationID,omitempty"`

	// Machine is where the device is, if that is not the machine of the spec.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Machine string `json:"machine,omitempty"`

	// Target is the device as the node's driver publishes it.
	//
	// +optional
	Target *DeviceReference `json:"target,omitempty"`

	// Before are the node's devices that could be taken for this one and were there
	// before, for a device without identity.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=512
	// +listType=atomic
	Before []DeviceReference `json:"before,omitempty"`

	// Attempts counts how often the manager was to be called to attach.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempts int32 `json:"attempts,omitempty"`

	// RetryAt is when the manager may be called again.
	//
	// +optional
	RetryAt *metav1.MicroTime `json:"retryAt,omitempty"`

	// IdleSince is since when no claim uses the device.
	//
	// +optional
	IdleSince *metav1.MicroTime `json:"idleSince,omitempty"`

	// Revision counts the changes of the status, so that the newer of two can be
	// told.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	Revision int64 `json:"revision,omitempty"`

	// Conditions: Attached, Failed, NodeGuarded.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

const (
	// AttachmentAttached is true while the device is at the node's machine.
	AttachmentAttached = "Attached"
	// AttachmentFailed is true when the claim did not get the device, or lost it.
	AttachmentFailed = "Failed"
	// AttachmentNodeGuarded is true once the node's driver, or its gateway, has loaded
	// a taint for the claim, and publishes the device with it from the first time on.
	AttachmentNodeGuarded = "NodeGuarded"

	// ConditionAttached is the binding condition of a claim's device: it is there.
	ConditionAttached = "fabric.kerf.dev/attached"
	// ConditionAttachFailed is its failure condition: it will not come, or is lost.
	ConditionAttachFailed = "fabric.kerf.dev/attach-failed"
	// AttributeTemplate marks devices that are published as templates.
	AttributeTemplate = "kerf.dev/template"
)
