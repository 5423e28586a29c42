// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bindingConditions are the conditions that a device has to fulfil before its pod is
// bound (KEP-5007), then those that would end that, each with its state.
func bindingConditions(claim *resourceapi.ResourceClaim, of *resourceapi.DeviceRequestAllocationResult) []string {
	var texts []string
	for _, name := range of.BindingConditions {
		texts = append(texts, "waits for "+name+": "+conditionState(claim, of, name))
	}
	for _, name := range of.BindingFailureConditions {
		texts = append(texts, "fails with "+name+": "+conditionState(claim, of, name))
	}
	return texts
}

// conditionState is what the driver reported in status.devices[].conditions. What was
// true already when the device was allocated is about an earlier allocation of it: the
// scheduler waits until the driver says it again.
func conditionState(claim *resourceapi.ResourceClaim, of *resourceapi.DeviceRequestAllocationResult, name string) string {
	c := reported(claim, of, name)
	if c == nil {
		return "not reported yet"
	}
	text := string(c.Status)
	if c.Status == metav1.ConditionTrue && outdated(claim, c) {
		text += " since before the allocation and does not count"
	}
	if c.Reason != "" || c.Message != "" {
		text += fmt.Sprintf(" (%s)", strings.Trim(c.Reason+": "+cut(c.Message, 120), ": "))
	}
	return text
}

// reported finds a condition of an allocated device, nil where there is none.
func reported(claim *resourceapi.ResourceClaim, of *resourceapi.DeviceRequestAllocationResult, name string) *metav1.Condition {
	for i := range claim.Status.Devices {
		d := &claim.Status.Devices[i]
		if d.Driver != of.Driver || d.Pool != of.Pool || d.Device != of.Device || !sameShare(d, of) {
			continue
		}
		for k := range d.Conditions {
			if d.Conditions[k].Type == name {
				return &d.Conditions[k]
			}
		}
	}
	return nil
}

func sameShare(status *resourceapi.AllocatedDeviceStatus, of *resourceapi.DeviceRequestAllocationResult) bool {
	if status.ShareID == nil || of.ShareID == nil {
		return status.ShareID == nil && of.ShareID == nil
	}
	return *status.ShareID == string(*of.ShareID)
}

// outdated compares in the seconds that the API stores.
func outdated(claim *resourceapi.ResourceClaim, c *metav1.Condition) bool {
	a := claim.Status.Allocation
	return a != nil && a.AllocationTimestamp != nil && c.LastTransitionTime.Unix() < a.AllocationTimestamp.Unix()
}
