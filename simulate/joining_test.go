// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/dump"
	"kerf.dev/kerf/selector"
	"kerf.dev/kerf/simulate"
)

// worn is a node with the devices gpu-0, tainted, and gpu-1.
func worn() *dump.Dump {
	d, _ := nodes(1)
	slice := d.ResourceSlices[0]
	slice.Spec.Devices = []resourceapi.Device{
		{Name: "gpu-0", Taints: []resourceapi.DeviceTaint{{Key: "worn", Effect: resourceapi.DeviceTaintEffectNoSchedule}}}, {Name: "gpu-1"},
	}
	d.ResourceClaims = nil
	return d
}

// having gives a claim gpu-0, for its users.
func having(claim *resourceapi.ResourceClaim, users ...string) *resourceapi.ResourceClaim {
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{
		Request: claim.Spec.Devices.Requests[0].Name, Driver: "gpu.example.com", Pool: "n0", Device: "gpu-0",
	}}}}
	for _, user := range users {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: user})
	}
	return claim
}

func asksForOne(name string) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: resourceapi.ResourceClaimSpec{
		Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", Count: 1}}}},
	}}
}

// TestTaintedClaims: a claim with a tainted device is not joined, and is allocated anew
// where nobody else uses it, both as often as the pod names it.
func TestTaintedClaims(t *testing.T) {
	for _, tc := range []struct {
		name  string
		users []string
		waits bool
	}{
		{"nobody uses it", nil, false},
		{"the pod itself", []string{"p"}, false},
		{"another pod", []string{"q"}, true},
		{"both", []string{"p", "q"}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := worn()
			d.ResourceClaims = []*resourceapi.ResourceClaim{having(asksForOne("c"), tc.users...)}
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: v1.PodSpec{ResourceClaims: []v1.PodResourceClaim{
				{Name: "once", ResourceClaimName: new("c")}, {Name: "twice", ResourceClaimName: new("c")},
			}}}
			world := simulate.NewWorld(&d.Objects, simulate.Options{Matcher: selector.New()})
			v, err := world.Place(pod)
			switch {
			case err != nil:
				t.Fatal(err)
			case tc.waits:
				if v.Obstacle == nil || v.Obstacle.Kind != simulate.NotJoinable || len(v.Obstacle.Tainted) != 1 {
					t.Errorf("got %+v, want that the claim cannot be joined", v.Obstacle)
				}
			case v.Best == nil:
				t.Error("the pod does not fit")
			}
			want := "gpu-1"
			if tc.waits {
				want = "gpu-0"
			}
			claim := world.Claim("ns", "c")
			if got := claim.Status.Allocation.Devices.Results[0].Device; got != want {
				t.Errorf("the claim has %s, want %s", got, want)
			}
			if claim := d.ResourceClaims[0]; claim.Status.Allocation.Devices.Results[0].Device != "gpu-0" {
				t.Error("the dump has changed")
			}
		})
	}
}

// TestTaintedSpecialClaim gives way to another.
func TestTaintedSpecialClaim(t *testing.T) {
	d := worn()
	d.DeviceClasses[0].Spec.ExtendedResourceName = new("example.com/gpu")
	d.Nodes[0].Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
	pod := gpuUser()
	special := having(claim.NewSpecial(pod, []claim.Demand{claim.DemandFor(pod, "example.com/gpu", "gpu")}))
	special.Name, special.GenerateName = "p-extended-resources-abcde", "p-extended-resources-"
	d.ResourceClaims = []*resourceapi.ResourceClaim{special}
	d.Pods = []*v1.Pod{pod}
	world := simulate.NewWorld(&d.Objects, simulate.Options{Matcher: selector.New()})
	v, err := world.Place(pod)
	if err != nil {
		t.Fatal(err)
	}
	if v.Best == nil {
		t.Fatalf("the pod does not fit: %+v, %+v", v.Obstacle, v.Nodes[0].Misfits)
	}
	claims := world.Objects().ResourceClaims
	if len(claims) != 1 || claims[0].Status.Allocation.Devices.Results[0].Device != "gpu-1" {
		t.Errorf("got claims %v, want one with gpu-1", claims)
	}
}
