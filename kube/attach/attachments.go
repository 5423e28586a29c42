// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"cmp"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
)

// maxMessage is the longest message that the API takes.
const maxMessage = 1024

// attachmentOf is an attachment of the API as the planner reads it.
func attachmentOf(o *v1alpha1.DeviceAttachment) fabric.Attachment {
	a := fabric.Attachment{
		Name:     o.Name,
		Deleting: o.DeletionTimestamp != nil,
		Spec: fabric.AttachmentSpec{
			Fabric: o.Spec.Fabric, Device: fabric.DeviceRef(o.Spec.Device), Node: o.Spec.Node,
			Machine: fabric.MachineRef(o.Spec.Machine), Offer: localOf(o.Spec.Offer),
			AllocatedAt: o.Spec.AllocatedAt.Time, Template: o.Spec.Template,
		},
		Status: fabric.AttachmentStatus{
			Phase: fabric.Phase(o.Status.Phase), Reason: fabric.Reason(o.Status.Reason), Message: o.Status.Message,
			Since: timeOf(o.Status.Since), Operation: fabric.OperationID(o.Status.OperationID),
			Machine: fabric.MachineRef(o.Status.Machine), Attempts: int(o.Status.Attempts),
			RetryAt: timeOf(o.Status.RetryAt), IdleSince: timeOf(o.Status.IdleSince), Revision: o.Status.Revision,
		},
	}
	if c := o.Spec.Claim; c != nil {
		a.Spec.Claim = &fabric.ClaimRef{Namespace: c.Namespace, Name: c.Name, UID: c.UID}
	}
	if i := o.Spec.Identity; i != nil {
		a.Spec.Identity = &fabric.Identity{Attribute: i.Attribute, Value: i.Value}
	}
	a.Spec.Tainted = o.Spec.Tainted
	a.NodeGuarded = meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.AttachmentNodeGuarded)
	if t := o.Status.Target; t != nil {
		target := localOf(*t)
		a.Status.Target = &target
	}
	for _, b := range o.Status.Before {
		a.Status.Before = append(a.Status.Before, localOf(b))
	}
	return a
}

// specFor is the spec of an attachment for the API.
func specFor(s fabric.AttachmentSpec) v1alpha1.DeviceAttachmentSpec {
	spec := v1alpha1.DeviceAttachmentSpec{
		Fabric: s.Fabric, Device: string(s.Device), Node: s.Node, Machine: string(s.Machine),
		Offer: referenceTo(s.Offer), AllocatedAt: metav1.NewTime(s.AllocatedAt), Template: s.Template, Tainted: s.Tainted,
	}
	if c := s.Claim; c != nil {
		spec.Claim = &v1alpha1.ClaimReference{Namespace: c.Namespace, Name: c.Name, UID: c.UID}
	}
	if i := s.Identity; i != nil {
		spec.Identity = &v1alpha1.IdentityValue{Attribute: i.Attribute, Value: i.Value}
	}
	return spec
}

// statusFor is the status of an attachment for the API, with the conditions that
// follow from it on top of those that it has.
func statusFor(s fabric.AttachmentStatus, conditions []metav1.Condition) v1alpha1.DeviceAttachmentStatus {
	status := v1alpha1.DeviceAttachmentStatus{
		Phase: v1alpha1.Phase(s.Phase), Since: microTime(s.Since), Reason: string(s.Reason), Message: shortened(s.Message),
		OperationID: string(s.Operation), Machine: string(s.Machine), Attempts: int32(s.Attempts),
		RetryAt: microTime(s.RetryAt), IdleSince: microTime(s.IdleSince), Revision: s.Revision,
		Conditions: attachmentConditions(s, conditions),
	}
	if s.Target != nil {
		target := referenceTo(*s.Target)
		status.Target = &target
	}
	for _, b := range s.Before {
		status.Before = append(status.Before, referenceTo(b))
	}
	return status
}

func attachmentConditions(s fabric.AttachmentStatus, old []metav1.Condition) []metav1.Condition {
	conditions := append([]metav1.Condition(nil), old...)
	attached := metav1.ConditionFalse
	switch s.Phase {
	case fabric.PhaseAttached, fabric.PhaseVisible, fabric.PhaseHandedOver, fabric.PhaseSettled, fabric.PhaseRetained, fabric.PhaseDraining:
		attached = metav1.ConditionTrue
	case fabric.PhaseAttachUnknown, fabric.PhaseDetaching, fabric.PhaseDetachUnknown, fabric.PhaseFailed:
		attached = metav1.ConditionUnknown
	}
	failed := metav1.ConditionFalse
	if s.Reason != "" {
		failed = metav1.ConditionTrue
	}
	for _, c := range []metav1.Condition{
		{Type: v1alpha1.AttachmentAttached, Status: attached, Reason: string(cmp.Or(s.Phase, fabric.PhaseAllocated))},
		{Type: v1alpha1.AttachmentFailed, Status: failed, Reason: cmp.Or(string(s.Reason), "NotFailed")},
	} {
		c.Message, c.LastTransitionTime = shortened(s.Message), metav1.NewTime(s.Since)
		meta.SetStatusCondition(&conditions, c)
	}
	return conditions
}

func localOf(r v1alpha1.DeviceReference) fabric.LocalDevice {
	return fabric.LocalDevice{Driver: r.Driver, Pool: r.Pool, Device: r.Device}
}

func referenceTo(d fabric.LocalDevice) v1alpha1.DeviceReference {
	return v1alpha1.DeviceReference{Driver: d.Driver, Pool: d.Pool, Device: d.Device}
}

func timeOf(t *metav1.MicroTime) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

func microTime(t time.Time) *metav1.MicroTime {
	if t.IsZero() {
		return nil
	}
	m := metav1.NewMicroTime(t)
	return &m
}

// shortened makes a message fit into the API.
func shortened(s string) string { return cut(s, maxMessage) }

// cut takes what is too long away, at a rune.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
