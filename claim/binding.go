// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/inventory"
)

// Result is an allocated device of a claim.
type Result = resourceapi.DeviceRequestAllocationResult

// Binding is how far the devices of an allocated claim are (KEP-5007). Devices without
// binding conditions are ready at once and not in it.
type Binding struct {
	Pending []Unready
	Failed  []Failure
}

// Unready is a device that its driver is still preparing.
type Unready struct {
	Device inventory.DeviceID
	// Missing are the binding conditions that are not true.
	Missing []string
}

// Failure is a device that will not become ready.
type Failure struct {
	Device inventory.DeviceID
	// Condition is the binding failure condition that is true.
	Condition metav1.Condition
}

// Ready reports whether the pod can be bound.
func (b Binding) Ready() bool { return len(b.Pending) == 0 && len(b.Failed) == 0 }

// BindingOf looks at the devices of a claim. One without an allocation has none.
func BindingOf(c *resourceapi.ResourceClaim) Binding {
	var b Binding
	for _, r := range Results(c) {
		if len(r.BindingConditions) == 0 {
			continue
		}
		id := inventory.IDOf(r)
		conditions := Conditions(c, r)
		if failure := firstTrue(conditions, r.BindingFailureConditions); failure != nil {
			b.Failed = append(b.Failed, Failure{id, *failure})
			continue
		}
		missing := slices.DeleteFunc(slices.Clone(r.BindingConditions), func(condition string) bool {
			return apimeta.IsStatusConditionTrue(conditions, condition)
		})
		if len(missing) > 0 {
			b.Pending = append(b.Pending, Unready{id, missing})
		}
	}
	return b
}

// HasBindingConditions reports whether some device of the claim has to become ready
// before its pod can be bound.
func HasBindingConditions(c *resourceapi.ResourceClaim) bool {
	return slices.ContainsFunc(Results(c), func(r *Result) bool { return len(r.BindingConditions) > 0 })
}

// Results are the allocated devices of a claim, none where it has no allocation.
func Results(c *resourceapi.ResourceClaim) []*Result {
	if c.Status.Allocation == nil {
		return nil
	}
	all := make([]*Result, len(c.Status.Allocation.Devices.Results))
	for i := range all {
		all[i] = &c.Status.Allocation.Devices.Results[i]
	}
	return all
}

// DeviceStatus is what a driver says in the claim's status about an allocated device, of
// a shared one about this share; nil where it says nothing.
func DeviceStatus(c *resourceapi.ResourceClaim, r *Result) *resourceapi.AllocatedDeviceStatus {
	if i := StatusIndex(c, r); i >= 0 {
		return &c.Status.Devices[i]
	}
	return nil
}

// StatusIndex is that of [DeviceStatus] in status.devices, -1 where there is none.
func StatusIndex(c *resourceapi.ResourceClaim, r *Result) int {
	return slices.IndexFunc(c.Status.Devices, func(d resourceapi.AllocatedDeviceStatus) bool {
		return d.Driver == r.Driver && d.Pool == r.Pool && d.Device == r.Device && sameShare(d.ShareID, r)
	})
}

func sameShare(share *string, r *Result) bool {
	if share == nil || r.ShareID == nil {
		return share == nil && r.ShareID == nil
	}
	return *share == string(*r.ShareID)
}

// Conditions are those of an allocated device that are about this allocation. What a
// driver said about an earlier allocation of the same device does not count.
func Conditions(c *resourceapi.ResourceClaim, r *Result) []metav1.Condition {
	status := DeviceStatus(c, r)
	if status == nil {
		return nil
	}
	if !slices.ContainsFunc(status.Conditions, func(condition metav1.Condition) bool { return Outdated(c, &condition) }) {
		return status.Conditions
	}
	return slices.DeleteFunc(slices.Clone(status.Conditions), func(condition metav1.Condition) bool { return Outdated(c, &condition) })
}

// Outdated reports whether a condition of a device is older than the allocation of the
// claim, in the seconds that the API stores.
func Outdated(c *resourceapi.ResourceClaim, condition *metav1.Condition) bool {
	a := c.Status.Allocation
	return a != nil && a.AllocationTimestamp != nil && condition.LastTransitionTime.Unix() < a.AllocationTimestamp.Unix()
}

func firstTrue(conditions []metav1.Condition, types []string) *metav1.Condition {
	for _, t := range types {
		if c := apimeta.FindStatusCondition(conditions, t); c != nil && c.Status == metav1.ConditionTrue {
			return c
		}
	}
	return nil
}
