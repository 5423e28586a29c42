// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/explain"
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
func conditionState(c *resourceapi.ResourceClaim, of *resourceapi.DeviceRequestAllocationResult, name string) string {
	var said *metav1.Condition
	if status := claim.DeviceStatus(c, of); status != nil {
		said = apimeta.FindStatusCondition(status.Conditions, name)
	}
	if said == nil {
		return "not reported yet"
	}
	text := string(said.Status)
	if said.Status == metav1.ConditionTrue && claim.Outdated(c, said) {
		text += " since before the allocation and does not count"
	}
	if said.Reason != "" || said.Message != "" {
		text += fmt.Sprintf(" (%s)", strings.Trim(said.Reason+": "+explain.Cut(said.Message, 120), ": "))
	}
	return text
}
