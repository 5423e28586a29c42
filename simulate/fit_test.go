// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/dump"
	"kerf.dev/kerf/selector"
	"kerf.dev/kerf/simulate"
)

// Devices serve an extended resource on nodes where no device plugin offers it.
func TestExtendedResourcesOfClasses(t *testing.T) {
	d := dump.New()
	d.Nodes = []*v1.Node{
		{ObjectMeta: metav1.ObjectMeta{Name: "devices"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "plugin"}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{"example.com/gpu": resource.MustParse("1")}}},
	}
	d.DeviceClasses = []*resourceapi.DeviceClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourceapi.DeviceClassSpec{ExtendedResourceName: new("example.com/gpu")}},
	}
	d.ResourceSlices = []*resourceapi.ResourceSlice{{ObjectMeta: metav1.ObjectMeta{Name: "gpus"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: "gpu.example.com", Pool: resourceapi.ResourcePool{Name: "gpus", ResourceSliceCount: 1}, NodeName: new("devices"),
		Devices: []resourceapi.Device{{Name: "gpu-0"}, {Name: "gpu-1"}},
	}}}
	world := simulate.NewWorld(&d.Objects, simulate.Options{Matcher: selector.New()})
	pod := func(name string, asks v1.ResourceName, amount string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: v1.PodSpec{Containers: []v1.Container{
			{Name: "main", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{asks: resource.MustParse(amount)}}},
		}}}
	}
	for _, tc := range []struct {
		resource v1.ResourceName
		amount   string
		fits     [2]bool
	}{
		{"example.com/gpu", "1", [2]bool{true, true}},
		{"example.com/gpu", "2", [2]bool{true, false}},
		{"example.com/gpu", "3", [2]bool{false, false}},
		{"deviceclass.resource.kubernetes.io/gpu", "2", [2]bool{true, false}},
		{"example.com/gpu", "1e999999999", [2]bool{false, false}}, // which resource.Quantity compares with nothing in time
		{"example.com/nic", "1", [2]bool{false, false}},
	} {
		v, err := world.Try(pod("p", tc.resource, tc.amount))
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]bool{v.Nodes[0].Fits(), v.Nodes[1].Fits()}; got != tc.fits {
			t.Errorf("%s of %s: fits %v, want %v", tc.amount, tc.resource, got, tc.fits)
		}
	}

	// What is placed is taken, and the pod has a claim for it.
	first, err := world.Place(pod("first", "deviceclass.resource.kubernetes.io/gpu", "2"))
	if err != nil || first.Best == nil || first.Best.Node.Name != "devices" {
		t.Fatalf("got %v, error %v", first.Best, err)
	}
	if len(first.Claims) != 1 || !first.Claims[0].Special || len(first.Claims[0].Object.Status.Allocation.Devices.Results) != 2 {
		t.Errorf("got claims %v", first.Claims)
	}
	second, err := world.Place(pod("second", "deviceclass.resource.kubernetes.io/gpu", "1"))
	if err != nil || second.Best != nil {
		t.Fatalf("got %v, error %v", second.Best, err)
	}
	bound := world.Objects().Pods[0]
	if status := bound.Status.ExtendedResourceClaimStatus; status == nil || status.ResourceClaimName != first.Claims[0].Object.Name {
		t.Errorf("got status %v", status)
	}
	if claims, _ := world.Claims(bound); len(claims) != 1 || !claims[0].Special {
		t.Errorf("got claims %v", claims)
	}
}
