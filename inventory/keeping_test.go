// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// offer is a slice of a fabric's pool with one device, attached for a claim if
// there is one.
func offer(name string, generation int64, uuid, claim string) *resourceapi.ResourceSlice {
	text := func(v string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{StringValue: &v} }
	d := resourceapi.Device{Name: "f0", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		"uuid": text(uuid), IdentityAttribute: text("uuid"),
	}}
	if claim != "" {
		d.Attributes[ClaimAttribute] = text(claim)
	}
	all := true
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.example.com", Pool: resourceapi.ResourcePool{Name: "fabric", Generation: generation, ResourceSliceCount: 1},
			AllNodes: &all, Devices: []resourceapi.Device{d},
		},
	}
}

// local is what the node's driver publishes, under another spelling.
func local(driver, attribute, uuid string) *resourceapi.ResourceSlice {
	node := "n1"
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "n1-" + driver},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, Pool: resourceapi.ResourcePool{Name: node, ResourceSliceCount: 1}, NodeName: &node,
			Devices: []resourceapi.Device{{Name: "gpu-0", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				resourceapi.QualifiedName(attribute): {StringValue: &uuid},
			}}},
		},
	}
}

func TestKeptByIdentity(t *testing.T) {
	keptFor := func(inv *Inventory, driver string) []string {
		pool, _ := inv.Snapshot().Pool(PoolID{Driver: driver, Pool: "n1"})
		var uids []string
		for _, taint := range pool.Devices[0].Taints {
			if taint.Key == ClaimTaint && taint.Effect == resourceapi.DeviceTaintEffectNoSchedule {
				uids = append(uids, taint.Value)
				if want := (DeviceID{Driver: driver, Pool: "fabric", Device: "f0"}); taint.Offer != want {
					t.Errorf("the taint is said to come from %s, want %s", taint.Offer, want)
				}
			}
		}
		return uids
	}
	for name, arrivesFirst := range map[string]bool{"arrives first": true, "arrives last": false} {
		t.Run(name, func(t *testing.T) {
			inv := New()
			expect := func(when string, want ...string) {
				t.Helper()
				if got := keptFor(inv, "gpu.example.com"); !slices.Equal(got, want) {
					t.Errorf("%s: kept for %v, want %v", when, got, want)
				}
			}
			if arrivesFirst {
				inv.SetSlice(local("gpu.example.com", "gpu.example.com/uuid", " GPU-ABC "))
				expect("before")
			}
			inv.SetSlice(offer("fab", 1, "gpu-abc", "uid-a"))
			inv.SetSlice(local("gpu.example.com", "gpu.example.com/uuid", " GPU-ABC "))
			inv.SetSlice(local("other.example.com", "uuid", "gpu-abc"))
			expect("attached", "uid-a")
			if got := keptFor(inv, "other.example.com"); got != nil {
				t.Errorf("a device of another driver is kept for %v", got)
			}
			// The next generation is not complete, or says something else: both count.
			inv.SetSlice(offer("fab2", 2, "gpu-abc", "uid-b"))
			expect("two generations", "uid-a", "uid-b")
			inv.DeleteSlice("fab2")
			inv.SetSlice(offer("fab", 1, "gpu-xyz", "uid-a"))
			expect("another device")
			inv.SetSlice(offer("fab", 1, "gpu-abc", "uid-a"))
			expect("again", "uid-a")
			inv.SetSlice(offer("fab", 1, "gpu-abc", ""))
			expect("handed over")
			inv.SetSlice(offer("fab", 1, "gpu-abc", "uid-a"))
			inv.DeleteSlice("fab")
			expect("gone")
		})
	}
}
