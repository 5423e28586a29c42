// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package claim_test

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/claim"
)

// TestRefs: entries that need no claim are left out, those whose claim is not made yet
// are not.
func TestRefs(t *testing.T) {
	pod := &v1.Pod{
		Spec: v1.PodSpec{ResourceClaims: []v1.PodResourceClaim{
			{Name: "shared", ResourceClaimName: new("c")},
			{Name: "own", ResourceClaimTemplateName: new("t")},
			{Name: "needless", ResourceClaimTemplateName: new("t")},
			{Name: "later", ResourceClaimTemplateName: new("t")},
			{Name: "neither"},
		}},
		Status: v1.PodStatus{
			ResourceClaimStatuses:       []v1.PodResourceClaimStatus{{Name: "needless"}, {Name: "own", ResourceClaimName: new("p-own")}},
			ExtendedResourceClaimStatus: &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "p-special"},
		},
	}
	var got []string
	for ref := range claim.Refs(pod) {
		got = append(got, fmt.Sprintf("%s=%s %t", ref.Name(), ref.Claim, ref.Special()))
	}
	want := []string{"shared=c false", "own=p-own false", "later= false", "neither= false", "=p-special true"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for range claim.Refs(pod) {
		break // whoever has enough may stop
	}
}

// TestReservedFor: pods are known by UID, those of manifests by name, and groups by name.
func TestReservedFor(t *testing.T) {
	pod := func(name, uid string) claim.Consumer {
		return claim.Consumer{Resource: "pods", Name: name, UID: types.UID("uid-of-" + uid)}
	}
	group := claim.Consumer{APIGroup: "scheduling.k8s.io", Resource: "podgroups", Name: "g", UID: "g1"}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "uid-of-1"}}
	member := p.DeepCopy()
	member.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: new("g")}
	manifest := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	for _, tc := range []struct {
		name             string
		pod              *v1.Pod
		users            []claim.Consumer
		reserved, others bool
	}{
		{"nobody", p, nil, false, false},
		{"itself", p, []claim.Consumer{pod("p", "1")}, true, false},
		{"a former pod of its name", p, []claim.Consumer{pod("p", "0")}, false, true},
		{"itself and another", p, []claim.Consumer{pod("q", "2"), pod("p", "1")}, true, true},
		{"its group", member, []claim.Consumer{group}, true, true},
		{"a group that is not its own", p, []claim.Consumer{group}, false, true},
		{"a pod of a manifest", manifest, []claim.Consumer{pod("p", "1")}, true, false},
		{"another pod than that of the manifest", manifest, []claim.Consumer{pod("q", "1")}, false, true},
	} {
		c := &resourceapi.ResourceClaim{Status: resourceapi.ResourceClaimStatus{ReservedFor: tc.users}}
		if got := claim.ReservedFor(c, tc.pod); got != tc.reserved {
			t.Errorf("%s: reserved for the pod: %t, want %t", tc.name, got, tc.reserved)
		}
		if got := claim.UsedByOthers(c, tc.pod); got != tc.others {
			t.Errorf("%s: used by others: %t, want %t", tc.name, got, tc.others)
		}
	}
}

// TestAsks: alternatives stand beside requests, under the names that constraints use.
func TestAsks(t *testing.T) {
	devices := &resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{
		{Name: "nic", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "nic", AdminAccess: new(true), AllocationMode: resourceapi.DeviceAllocationModeAll}},
		{Name: "gpu", FirstAvailable: []resourceapi.DeviceSubRequest{{Name: "big", DeviceClassName: "a100"}, {Name: "small", DeviceClassName: "a30"}}},
	}}
	var got []string
	for a := range claim.Asks(devices) {
		got = append(got, fmt.Sprintf("%s %s %s all=%t admin=%t", a.Request, a.Path(), a.DeviceClassName, a.All(), a.AdminAccess))
	}
	want := []string{
		"nic requests[0].exactly nic all=true admin=true",
		"gpu/big requests[1].firstAvailable[0] a100 all=false admin=false",
		"gpu/small requests[1].firstAvailable[1] a30 all=false admin=false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if a, ok := claim.AskOf(devices, "gpu/small"); !ok || a.DeviceClassName != "a30" {
		t.Errorf("gpu/small: got %v, %t", a, ok)
	}
	if _, ok := claim.AskOf(devices, "gpu"); ok {
		t.Error("a prioritized list asks for nothing but its alternatives")
	}
	if got, want := claim.RequestNames(devices), []string{"nic", "gpu", "gpu/big", "gpu/small"}; !slices.Equal(got, want) {
		t.Errorf("names: got %q, want %q", got, want)
	}
}
