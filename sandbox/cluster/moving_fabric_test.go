// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strings"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	decisive "kerf.dev/kerf/cluster"
)

var target = v1alpha1.DeviceReference{Driver: "gpu.example.com", Pool: "n1", Device: "gpu-0"}

// claimWith is a claim that is allocated a device. The fabric's has to be attached.
func claimWith(pool, device string) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default", UID: "c"}}
	result := resourceapi.DeviceRequestAllocationResult{Driver: target.Driver, Pool: pool, Device: device}
	if pool != target.Pool {
		result.BindingConditions = []string{v1alpha1.ConditionAttached}
	}
	claim.Status.Allocation = &resourceapi.AllocationResult{
		Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{result}},
	}
	return claim
}

func reserved(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "p"}}
	return claim
}

func stateOf(claims ...*resourceapi.ResourceClaim) *State {
	return New(&decisive.Objects{ResourceClaims: claims}, Workloads{})
}

func TestFabricMotions(t *testing.T) {
	now := metav1.NowMicro()
	for name, tc := range map[string]struct {
		claims []*resourceapi.ResourceClaim
		status v1alpha1.DeviceAttachmentStatus
		idle   time.Duration
		want   string // part of the motion, "" for none
	}{
		"on its way":      {[]*resourceapi.ResourceClaim{claimWith("fabric.kerf.dev/shelf", "x")}, v1alpha1.DeviceAttachmentStatus{Phase: "Attaching"}, 0, "is Attaching"},
		"new":             {[]*resourceapi.ResourceClaim{claimWith("fabric.kerf.dev/shelf", "x")}, v1alpha1.DeviceAttachmentStatus{}, 0, "is Allocated"},
		"settled":         {[]*resourceapi.ResourceClaim{claimWith("n1", "gpu-0")}, v1alpha1.DeviceAttachmentStatus{Phase: "Settled", Target: &target}, 0, ""},
		"handed over":     {[]*resourceapi.ResourceClaim{claimWith("n1", "gpu-0")}, v1alpha1.DeviceAttachmentStatus{Phase: "HandedOver", Target: &target}, 0, ""},
		"and reserved":    {[]*resourceapi.ResourceClaim{reserved(claimWith("n1", "gpu-0"))}, v1alpha1.DeviceAttachmentStatus{Phase: "HandedOver", Target: &target}, 0, "is HandedOver"},
		"claim has other": {[]*resourceapi.ResourceClaim{claimWith("n1", "gpu-1")}, v1alpha1.DeviceAttachmentStatus{Phase: "Settled", Target: &target}, 0, "is Settled"},
		"claim is gone":   {nil, v1alpha1.DeviceAttachmentStatus{Phase: "Settled", Target: &target}, 0, "is Settled"},
		"idle":            {nil, v1alpha1.DeviceAttachmentStatus{Phase: "Retained", Target: &target, IdleSince: &now}, time.Minute, ""},
		"idle for short":  {nil, v1alpha1.DeviceAttachmentStatus{Phase: "Retained", Target: &target, IdleSince: &now}, time.Second, "is Retained"},
		"used by another": {nil, v1alpha1.DeviceAttachmentStatus{Phase: "Retained", Target: &target}, time.Second, ""},
		"to be detached":  {nil, v1alpha1.DeviceAttachmentStatus{Phase: "Draining", Target: &target}, time.Minute, "is Draining"},
	} {
		f := v1alpha1.Fabric{ObjectMeta: metav1.ObjectMeta{Name: "shelf"}}
		f.Spec.IdleDetachAfter = &metav1.Duration{Duration: tc.idle}
		f.Status.Conditions = []metav1.Condition{{Type: v1alpha1.FabricReady, Status: metav1.ConditionTrue}}
		a := v1alpha1.DeviceAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: tc.status}
		a.Spec.Fabric, a.Spec.Claim = "shelf", &v1alpha1.ClaimReference{UID: "c"}
		got := FindFabricMotions(stateOf(tc.claims...), &Fabrics{Fabrics: []v1alpha1.Fabric{f}, Attachments: []v1alpha1.DeviceAttachment{a}})
		expectMotion(t, name, got, tc.want)
	}
}

func expectMotion(t *testing.T, name string, got []Motion, want string) {
	t.Helper()
	switch {
	case want == "" && len(got) > 0:
		t.Errorf("%s: %v, want nothing", name, got)
	case want != "" && (len(got) != 1 || !strings.Contains(got[0].String(), want) || !got[0].Timed):
		t.Errorf("%s: %v, want %q in time", name, got, want)
	}
}

// TestFabricWithoutAttachment: what is allocated is attached, and a fabric is offered.
func TestFabricWithoutAttachment(t *testing.T) {
	f := v1alpha1.Fabric{ObjectMeta: metav1.ObjectMeta{Name: "shelf"}}
	fabrics := &Fabrics{Fabrics: []v1alpha1.Fabric{f}}
	expectMotion(t, "new fabric", FindFabricMotions(&State{}, fabrics), "is not offered yet")
	fabrics.Fabrics[0].Status.Conditions = []metav1.Condition{{Type: v1alpha1.FabricReady, Status: metav1.ConditionTrue}}
	state := stateOf(claimWith("fabric.kerf.dev/shelf", "x"))
	expectMotion(t, "allocated", FindFabricMotions(state, fabrics), "no attachment yet")
	state.ResourceClaims[0].Status.Devices = []resourceapi.AllocatedDeviceStatus{{
		Driver: target.Driver, Pool: "fabric.kerf.dev/shelf", Device: "x",
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionAttachFailed, Status: metav1.ConditionTrue}},
	}}
	expectMotion(t, "failed", FindFabricMotions(state, fabrics), "")
	expectMotion(t, "no such fabric", FindFabricMotions(stateOf(claimWith("fabric.kerf.dev/other", "x")), fabrics), "")
}
