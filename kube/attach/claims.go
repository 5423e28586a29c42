// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
)

// claimOf is a ResourceClaim as the planner reads it.
func claimOf(o *resourceapi.ResourceClaim) fabric.Claim {
	claim := fabric.Claim{UID: o.UID, Namespace: o.Namespace, Name: o.Name, Reserved: len(o.Status.ReservedFor) > 0}
	allocation := o.Status.Allocation
	if allocation == nil {
		return claim
	}
	claim.Node = nodeOf(allocation.NodeSelector)
	if at := allocation.AllocationTimestamp; at != nil {
		claim.AllocatedAt = at.Time
	}
	for _, result := range allocation.Devices.Results {
		d := fabric.ClaimDevice{
			LocalDevice: fabric.LocalDevice{Driver: result.Driver, Pool: result.Pool, Device: result.Device},
			AdminAccess: ptr.Deref(result.AdminAccess, false),
		}
		if status := deviceStatus(o, d.LocalDevice); status != nil {
			d.Attached = holds(status.Conditions, v1alpha1.ConditionAttached, allocation.AllocationTimestamp)
			for _, failure := range failures(&result) {
				d.Failed = d.Failed || holds(status.Conditions, failure, allocation.AllocationTimestamp)
			}
		}
		claim.Devices = append(claim.Devices, d)
	}
	return claim
}

// failures are the conditions that fail an allocated device: the controller's own
// and what else the device was published with.
func failures(result *resourceapi.DeviceRequestAllocationResult) []string {
	return append([]string{v1alpha1.ConditionAttachFailed}, result.BindingFailureConditions...)
}

// deviceStatus is the claim's status of a device, nil where it has none.
func deviceStatus(o *resourceapi.ResourceClaim, d fabric.LocalDevice) *resourceapi.AllocatedDeviceStatus {
	for i := range o.Status.Devices {
		if s := &o.Status.Devices[i]; s.Driver == d.Driver && s.Pool == d.Pool && s.Device == d.Device {
			return s
		}
	}
	return nil
}

// holds tells whether a condition is true for an allocation. One from before the
// allocation is about another.
func holds(conditions []metav1.Condition, kind string, allocated *metav1.Time) bool {
	for _, c := range conditions {
		if c.Type == kind {
			return c.Status == metav1.ConditionTrue && (allocated == nil || !c.LastTransitionTime.Before(allocated))
		}
	}
	return false
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
