// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/cluster"
	"kerf.dev/kerf/inventory"
)

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func claimOf(namespace, name, device string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: meta(namespace, name)}
	c.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Request: "r", Driver: "gpu.example.com", Pool: "p", Device: device}},
	}}
	return c
}

// TestSnapshot: names are looked up within their namespace, lists are sorted, and what was
// handed in stays as it was.
func TestSnapshot(t *testing.T) {
	var objects cluster.Objects
	for _, o := range []any{
		claimOf("b", "c", "gpu-1"), claimOf("a", "c", "gpu-0"), &v1.Node{ObjectMeta: meta("", "n2")}, &v1.Node{ObjectMeta: meta("", "n1")},
		&v1.Pod{ObjectMeta: meta("a", "p")}, &resourceapi.DeviceClass{ObjectMeta: meta("", "gpu")},
		&resourceapi.ResourceClaimTemplate{ObjectMeta: meta("a", "t")},
	} {
		if !objects.Add(o) {
			t.Fatalf("%T was not added", o)
		}
	}
	if objects.Add(&v1.Secret{}) {
		t.Error("a Secret decides nothing about devices")
	}
	s := cluster.New(&objects)
	if s.Nodes[0].Name != "n1" || objects.Nodes[0].Name != "n2" {
		t.Errorf("nodes: got %s first, and %s in what was handed in", s.Nodes[0].Name, objects.Nodes[0].Name)
	}
	if c := s.Claim("b", "c"); c == nil || c.Status.Allocation.Devices.Results[0].Device != "gpu-1" {
		t.Errorf("claim b/c: got %v", c)
	}
	if s.Claim("a", "t") != nil || s.Pod("b", "p") != nil || s.Template("b", "t") != nil || s.Class("nic") != nil || s.Node("n3") != nil {
		t.Error("something was found that is not there")
	}
	if s.Pod("a", "p") == nil || s.Template("a", "t") == nil || s.Class("gpu") == nil || s.Node("n2") == nil {
		t.Error("something was not found that is there")
	}
}

// TestSnapshotOfTwins: of objects with one name the first counts, in look-ups.
func TestSnapshotOfTwins(t *testing.T) {
	first, second := claimOf("a", "c", "gpu-0"), claimOf("a", "c", "gpu-1")
	s := cluster.New(&cluster.Objects{ResourceClaims: []*resourceapi.ResourceClaim{first, second}})
	if s.Claim("a", "c") != first {
		t.Error("the second was found")
	}
}

// TestInventory: claims of manifests have no UID, and hold their devices all the same.
func TestInventory(t *testing.T) {
	slice := &resourceapi.ResourceSlice{ObjectMeta: meta("", "s"), Spec: resourceapi.ResourceSliceSpec{
		Driver: "gpu.example.com", Pool: resourceapi.ResourcePool{Name: "p", ResourceSliceCount: 1}, AllNodes: new(true),
		Devices: []resourceapi.Device{{Name: "gpu-0"}, {Name: "gpu-1"}, {Name: "gpu-2"}},
	}}
	s := cluster.New(&cluster.Objects{
		ResourceSlices: []*resourceapi.ResourceSlice{slice},
		ResourceClaims: []*resourceapi.ResourceClaim{claimOf("a", "c", "gpu-0"), claimOf("b", "c", "gpu-2")},
	})
	_, use := s.Inventory().Snapshot().Pool(inventory.PoolID{Driver: "gpu.example.com", Pool: "p"})
	for i, taken := range []bool{true, false, true} {
		if (use.Taken[i] != nil) != taken {
			t.Errorf("gpu-%d: taken is %t, want %t", i, !taken, taken)
		}
	}
}
