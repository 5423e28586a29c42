// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/fabric"
)

// claimOf is a ResourceClaim as the planner reads it.
func claimOf(o *resourceapi.ResourceClaim) fabric.Claim {
	planned := fabric.Claim{UID: o.UID, Namespace: o.Namespace, Name: o.Name, Reserved: len(o.Status.ReservedFor) > 0}
	allocation := o.Status.Allocation
	if allocation == nil {
		return planned
	}
	planned.Node = nodeOf(allocation.NodeSelector)
	if at := allocation.AllocationTimestamp; at != nil {
		planned.AllocatedAt = at.Time
	}
	for _, result := range claim.Results(o) {
		d := fabric.ClaimDevice{
			LocalDevice: localResult(result),
			AdminAccess: ptr.Deref(result.AdminAccess, false),
		}
		conditions := claim.Conditions(o, result)
		d.Attached = apimeta.IsStatusConditionTrue(conditions, v1alpha1.ConditionAttached)
		// Beside the controller's own, what the device was published with fails it.
		for _, failure := range append([]string{v1alpha1.ConditionAttachFailed}, result.BindingFailureConditions...) {
			d.Failed = d.Failed || apimeta.IsStatusConditionTrue(conditions, failure)
		}
		planned.Devices = append(planned.Devices, d)
	}
	return planned
}

func localResult(r *claim.Result) fabric.LocalDevice {
	return fabric.LocalDevice{Driver: r.Driver, Pool: r.Pool, Device: r.Device}
}

// nodeOf is the one node that a selector names, empty where it names none or many.
func nodeOf(s *corev1.NodeSelector) string {
	if s == nil || len(s.NodeSelectorTerms) != 1 {
		return ""
	}
	for _, r := range s.NodeSelectorTerms[0].MatchFields {
		if r.Key == metav1.ObjectNameField && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1 {
			return r.Values[0]
		}
	}
	return ""
}
