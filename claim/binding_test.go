// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package claim_test

import (
	"fmt"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/claim"
)

var allocatedAt = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// fabricClaim has the device gpu.example.com/shelf/f0 with two binding conditions.
func fabricClaim() *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{}
	c.Status.Allocation = &resourceapi.AllocationResult{
		// As written: the API stores seconds.
		AllocationTimestamp: &metav1.Time{Time: allocatedAt.Add(300 * time.Millisecond)},
		Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{
			Request: "r", Driver: "gpu.example.com", Pool: "shelf", Device: "f0",
			BindingConditions: []string{"attached", "powered"}, BindingFailureConditions: []string{"broken"},
		}}},
	}
	return c
}

func said(at time.Time, types ...string) []metav1.Condition {
	var conditions []metav1.Condition
	for _, t := range types {
		conditions = append(conditions, metav1.Condition{Type: t, Status: metav1.ConditionTrue, Reason: "Test", Message: "said so", LastTransitionTime: metav1.NewTime(at)})
	}
	return conditions
}

// TestBindingOf: a device is ready when all of its conditions are true for this
// allocation and this share of it.
func TestBindingOf(t *testing.T) {
	before, after := allocatedAt.Add(-time.Second), allocatedAt.Add(time.Second)
	for _, tc := range []struct {
		name       string
		conditions []metav1.Condition
		want       string
	}{
		{"nothing said", nil, "waits for [attached powered]"},
		{"half of it", said(after, "attached"), "waits for [powered]"},
		{"all", said(allocatedAt, "attached", "powered"), "ready"},
		{"all of an earlier allocation", said(before, "attached", "powered"), "waits for [attached powered]"},
		{"said again of one", append(said(before, "attached"), said(after, "powered")...), "waits for [attached]"},
		{"failed", said(after, "attached", "powered", "broken"), "failed: broken, said so"},
		{"failed before", append(said(before, "broken"), said(after, "attached", "powered")...), "ready"},
		{"not true", []metav1.Condition{{Type: "attached", Status: metav1.ConditionFalse, LastTransitionTime: metav1.NewTime(after)}}, "waits for [attached powered]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := fabricClaim()
			if tc.conditions != nil {
				c.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: "gpu.example.com", Pool: "shelf", Device: "f0", Conditions: tc.conditions}}
			}
			if got := bindingText(c); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func bindingText(c *resourceapi.ResourceClaim) string {
	b := claim.BindingOf(c)
	switch {
	case b.Ready():
		return "ready"
	case len(b.Failed) > 0:
		return fmt.Sprintf("failed: %s, %s", b.Failed[0].Condition.Type, b.Failed[0].Condition.Message)
	}
	return fmt.Sprintf("waits for %v", b.Pending[0].Missing)
}

// TestBindingOfShares: what is said of one share is not said of another.
func TestBindingOfShares(t *testing.T) {
	c := fabricClaim()
	mine, other := "6a1bb0a1-0000-0000-0000-000000000001", "6a1bb0a1-0000-0000-0000-000000000002"
	c.Status.Allocation.Devices.Results[0].ShareID = new(types.UID(mine))
	c.Status.Devices = []resourceapi.AllocatedDeviceStatus{
		{Driver: "gpu.example.com", Pool: "shelf", Device: "f0", Conditions: said(allocatedAt, "attached", "powered")},
		{Driver: "gpu.example.com", Pool: "shelf", Device: "f0", ShareID: &other, Conditions: said(allocatedAt, "attached", "powered")},
	}
	if claim.BindingOf(c).Ready() {
		t.Error("ready for what is said of another share")
	}
	c.Status.Devices[1].ShareID = &mine
	if !claim.BindingOf(c).Ready() {
		t.Error("not ready although its own share is")
	}
}

// TestBindingWithoutAllocation: there is nothing to wait for.
func TestBindingWithoutAllocation(t *testing.T) {
	if c := (&resourceapi.ResourceClaim{}); !claim.BindingOf(c).Ready() || claim.HasBindingConditions(c) {
		t.Error("a claim without devices waits for some")
	}
}
