// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// offer is a slice of a fabric's pool with one device, attached for a claim if
// there is one.
func offer(name string, generation int64, uuid, claim string) *resourceapi.ResourceSlice {
	text := func(v string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{StringValue: &v} }
	all := true
	d := resourceapi.Device{Name: "f0", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		"uuid": text(uuid), IdentityAttribute: text("uuid"),
	}}
	if claim != "" {
		d.Attributes[ClaimAttribute] = text(claim)
	}
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "fabric.kerf.dev/v1alpha1", Kind: "Fabric", Name: "shelf", UID: "uid-shelf", Controller: &all},
		}},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.example.com", Pool: resourceapi.ResourcePool{Name: FabricPool("shelf"), Generation: generation, ResourceSliceCount: 1},
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
				if want := (DeviceID{Driver: driver, Pool: FabricPool("shelf"), Device: "f0"}); taint.Offer != want {
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

// TestWhoseReservationsCount: a slice says for whom devices of others are kept if it is
// of a fabric's pool, whatever else is in it.
func TestWhoseReservationsCount(t *testing.T) {
	owner := func(change func(*metav1.OwnerReference)) change {
		return func(s *resourceapi.ResourceSlice) { change(&s.OwnerReferences[0]) }
	}
	for name, tc := range map[string]struct {
		change  change
		counts  bool
		offered bool
	}{
		"of the fabric":                {change: func(*resourceapi.ResourceSlice) {}, counts: true, offered: true},
		"of a later version":           {change: owner(func(o *metav1.OwnerReference) { o.APIVersion = "fabric.kerf.dev/v1" }), counts: true, offered: true},
		"of a node":                    {change: onNode("evil")},
		"nobody owns it":               {change: func(s *resourceapi.ResourceSlice) { s.OwnerReferences = nil }},
		"owned by a node":              {change: owner(func(o *metav1.OwnerReference) { o.APIVersion, o.Kind = "v1", "Node" })},
		"owned by another kind":        {change: owner(func(o *metav1.OwnerReference) { o.Kind = "DeviceAttachment" })},
		"owned by another group":       {change: owner(func(o *metav1.OwnerReference) { o.APIVersion = "fabric.example.com/v1" })},
		"not its controller":           {change: owner(func(o *metav1.OwnerReference) { o.Controller = ptr(false) })},
		"controller not said":          {change: owner(func(o *metav1.OwnerReference) { o.Controller = nil })},
		"owned by another fabric":      {change: owner(func(o *metav1.OwnerReference) { o.Name = "other" })},
		"in a pool of another's name":  {change: inPool("shelf")},
		"of another driver, and alone": {change: func(s *resourceapi.ResourceSlice) { s.Spec.Driver = "other.example.com" }, offered: true},
	} {
		t.Run(name, func(t *testing.T) {
			inv := New()
			said := offer("said", 1, "gpu-abc", "uid-a")
			tc.change(said)
			inv.SetSlice(local("gpu.example.com", "uuid", "GPU-ABC"))
			inv.SetSlice(said)
			pool, _ := inv.Snapshot().Pool(PoolID{Driver: "gpu.example.com", Pool: "n1"})
			if got := pool.Devices[0].KeptFor("uid-a"); got != tc.counts {
				t.Errorf("kept: %t, want %t", got, tc.counts)
			}
			pool, _ = inv.Snapshot().Pool(poolOf(said))
			if got := pool.Devices[0].Offered(); got != tc.offered {
				t.Errorf("offered: %t, want %t", got, tc.offered)
			}
		})
	}
}

// TestOwnDeviceIsKept: a node does not get its device out of a fabric's reservation by
// publishing it as if it was the fabric's.
func TestOwnDeviceIsKept(t *testing.T) {
	inv := New()
	mine := local("gpu.example.com", "uuid", "gpu-abc")
	mine.Spec.Devices[0].Attributes[IdentityAttribute] = resourceapi.DeviceAttribute{StringValue: ptr("uuid")}
	inv.SetSlice(mine)
	inv.SetSlice(offer("fab", 1, "gpu-abc", "uid-a"))
	pool, _ := inv.Snapshot().Pool(PoolID{Driver: "gpu.example.com", Pool: "n1"})
	if !pool.Devices[0].KeptFor("uid-a") {
		t.Errorf("got taints %v", pool.Devices[0].Taints)
	}
}

// TestKeepingTouches: what is kept for another claim concerns the pools that have it,
// and a slice that is written anew and says the same concerns nobody but its pool.
func TestKeepingTouches(t *testing.T) {
	inv := New()
	for i := range 10 {
		inv.SetSlice(localOf(fmt.Sprintf("n%d", i), 2))
	}
	inv.SetSlice(offers(8, 4))
	inv.Snapshot()
	touched := func(change func()) []string {
		before := inv.Snapshot()
		change()
		var names []string
		for pool := range inv.Snapshot().Pools {
			if old, _ := before.Pool(pool.ID); old != pool {
				names = append(names, pool.ID.Pool)
			}
		}
		return names
	}
	fab := FabricPool("shelf")
	for _, step := range []struct {
		name   string
		change func()
		want   []string
	}{
		{"one more", func() { inv.SetSlice(offers(8, 5)) }, []string{fab, "n4"}},
		{"the same", func() { inv.SetSlice(offers(8, 5)) }, []string{fab}},
		{"two fewer", func() { inv.SetSlice(offers(8, 3)) }, []string{fab, "n3", "n4"}},
		{"a copy", func() { copied := offers(8, 3); copied.Name = "copy"; inv.SetSlice(copied) }, []string{fab}},
		{"the first goes", func() { inv.DeleteSlice("fab") }, []string{fab}},
		{"both go", func() { inv.DeleteSlice("copy") }, []string{"n0", "n1", "n2"}},
		{"a node", func() { inv.SetSlice(localOf("n7", 1)) }, []string{"n7"}},
	} {
		if got := touched(step.change); !slices.Equal(got, step.want) {
			t.Errorf("%s: touched %v, want %v", step.name, got, step.want)
		}
	}
}

// TestRandomKeepings compares what devices are kept for with a look at all slices.
func TestRandomKeepings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inv, all := New(), map[string]*resourceapi.ResourceSlice{}
		for range rapid.IntRange(1, 30).Draw(t, "changes") {
			name := oneOf(t, "slice", "a", "b", "c", "e")
			if oneOf(t, "what", "set", "set", "delete") == "delete" {
				inv.DeleteSlice(name)
				delete(all, name)
			} else {
				all[name] = randomSlice(t, name)
				inv.SetSlice(all[name])
			}
			if rapid.Bool().Draw(t, "look") {
				compareKept(t, inv.Snapshot(), all)
			}
		}
		compareKept(t, inv.Snapshot(), all)
	})
}

// randomSlice is a fabric's, a node's, or one of a node that says it is a fabric's.
func randomSlice(t *rapid.T, name string) *resourceapi.ResourceSlice {
	claim := oneOf(t, "claim", "", "uid-a", "uid-b")
	s := offer(name, 1, oneOf(t, "identity", "1", "2", "3"), claim)
	s.Spec.Driver = oneOf(t, "driver", "d", "e")
	if oneOf(t, "by", "uuid", "serial") == "serial" {
		d := &s.Spec.Devices[0]
		d.Attributes["serial"], d.Attributes[IdentityAttribute] = d.Attributes["uuid"], resourceapi.DeviceAttribute{StringValue: ptr("serial")}
		delete(d.Attributes, "uuid")
	}
	switch oneOf(t, "whose", "fabric", "fabric", "node", "impostor") {
	case "node":
		s.OwnerReferences, s.Spec.Pool.Name = nil, "n1"
		onNode("n1")(s)
		delete(s.Spec.Devices[0].Attributes, IdentityAttribute)
		delete(s.Spec.Devices[0].Attributes, ClaimAttribute)
	case "impostor":
		s.Spec.Pool.Name = "n2"
		onNode("n2")(s)
	}
	return s
}

func compareKept(t *rapid.T, s *Snapshot, all map[string]*resourceapi.ResourceSlice) {
	value := func(slice *resourceapi.ResourceSlice, name resourceapi.QualifiedName) string {
		if v := slice.Spec.Devices[0].Attributes[name].StringValue; v != nil {
			return *v
		}
		return ""
	}
	for pool := range s.Pools {
		for _, d := range pool.Devices {
			want := map[string]bool{}
			for _, o := range all {
				same := o.Spec.Driver == d.ID.Driver &&
					(value(o, "uuid") != "" && value(o, "uuid") == value(d.Slice, "uuid") || value(o, "serial") != "" && value(o, "serial") == value(d.Slice, "serial"))
				if same && o.Spec.NodeName == nil && d.Slice.Spec.NodeName != nil && value(o, ClaimAttribute) != "" {
					want[value(o, ClaimAttribute)] = true
				}
			}
			got := map[string]bool{}
			for _, taint := range d.Taints {
				got[taint.Value] = true
			}
			if !maps.Equal(got, want) || len(got) != len(d.Taints) {
				t.Fatalf("%s is kept for %v, want %v", d.ID, d.Taints, want)
			}
		}
	}
}
