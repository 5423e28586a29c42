// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"fmt"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
	"kerf.dev/kerf/inventory"
)

var shelfOf300 = &v1alpha1.Fabric{ObjectMeta: metav1.ObjectMeta{Name: "shelf", UID: "u"}}

// published is a store of slices that a pool is written to.
type published struct {
	slices  map[string]*resourceapi.ResourceSlice
	writes  int
	removed int
}

func (p *published) apply(offers []offer) {
	var all []*resourceapi.ResourceSlice
	for _, s := range p.slices {
		all = append(all, s)
	}
	pool := arrange(shelfOf300, machine, gpuDriver, offers, all)
	p.writes, p.removed = len(pool.write), len(pool.remove)
	for _, s := range pool.write {
		p.slices[s.Name] = s
	}
	for _, s := range pool.remove {
		delete(p.slices, s.Name)
	}
}

// check looks for what the API demands of a pool, and returns its devices.
func (p *published) check(t *testing.T) map[string]bool {
	t.Helper()
	devices := map[string]bool{}
	generations := map[int64]bool{}
	for _, s := range p.slices {
		generations[s.Spec.Pool.Generation] = true
		if len(s.Spec.Devices) == 0 || len(s.Spec.Devices) > 64 {
			t.Errorf("slice %s has %d devices", s.Name, len(s.Spec.Devices))
		}
		if s.Spec.Pool.ResourceSliceCount != int64(len(p.slices)) {
			t.Errorf("slice %s says %d slices, there are %d", s.Name, s.Spec.Pool.ResourceSliceCount, len(p.slices))
		}
		for _, d := range s.Spec.Devices {
			if devices[d.Name] {
				t.Errorf("device %s is published twice", d.Name)
			}
			devices[d.Name] = true
		}
	}
	if len(generations) > 1 {
		t.Errorf("the pool has generations %v", generations)
	}
	return devices
}

func offersNumbered(n int, nodes ...string) []offer {
	var offers []offer
	for i := range n {
		offers = append(offers, offer{driver: gpuDriver, device: resourceapi.Device{Name: fmt.Sprintf("gpu-%03d", i)}, nodes: nodes})
	}
	return offers
}

func TestManyDevicesAreInSeveralSlices(t *testing.T) {
	p := &published{slices: map[string]*resourceapi.ResourceSlice{}}
	offers := offersNumbered(300, "host-a", "host-b")
	p.apply(offers)
	if devices := p.check(t); len(devices) != 300 || p.writes != 5 {
		t.Fatalf("%d devices, %d writes, want 300 and 5", len(devices), p.writes)
	}
	p.apply(offers)
	if p.writes+p.removed != 0 {
		t.Errorf("%d writes without a change, want none", p.writes+p.removed)
	}
	without := slices.Delete(slices.Clone(offers), 10, 11)
	p.apply(without)
	if devices := p.check(t); p.writes != 1 || len(devices) != 299 || devices["gpu-010"] {
		t.Errorf("%d writes, %d devices after one was taken, want 1 and 299", p.writes, len(devices))
	}
	p.apply(offers)
	if devices := p.check(t); p.writes != 1 || len(devices) != 300 {
		t.Errorf("%d writes, %d devices after one was given back, want 1 and 300", p.writes, len(devices))
	}
	p.apply(offersNumbered(100, "host-a", "host-b"))
	if devices := p.check(t); len(devices) != 100 {
		t.Errorf("%d devices, want 100", len(devices))
	}
	p.apply(nil)
	if len(p.slices) != 0 {
		t.Errorf("%d slices without devices, want none", len(p.slices))
	}
}

// TestChangesAreWrittenInPlace has several slices change without a new generation,
// and a device that moves from slice to slice make one.
func TestChangesAreWrittenInPlace(t *testing.T) {
	p := &published{slices: map[string]*resourceapi.ResourceSlice{}}
	generation := func() (newest int64) {
		for _, s := range p.slices {
			newest = max(newest, s.Spec.Pool.Generation)
		}
		return newest
	}
	offers := offersNumbered(150, "host-a")
	offers[149].nodes = []string{"host-b"}
	p.apply(offers)
	first := generation()
	for _, i := range []int{1, 70, 140} {
		offers[i].device.Taints = []resourceapi.DeviceTaint{{Key: inventory.ArrivingTaint, Value: "u", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	}
	p.apply(offers)
	if p.check(t); p.writes != 3 || generation() != first {
		t.Errorf("%d writes, generation %d, want 3 and %d", p.writes, generation(), first)
	}
	offers[0].nodes, offers[1].nodes = []string{"host-b"}, []string{"host-b"}
	p.apply(offers)
	if p.check(t); generation() != first+1 {
		t.Errorf("devices moved from slice to slice in generation %d, want %d", generation(), first+1)
	}
}

func TestDevicesOfOtherZonesAreInOtherSlices(t *testing.T) {
	p := &published{slices: map[string]*resourceapi.ResourceSlice{}}
	offers := offersNumbered(4, "host-a")
	offers[3].nodes = []string{"host-a", "host-b"}
	p.apply(offers)
	p.check(t)
	got := map[string]int{}
	for _, s := range p.slices {
		r := s.Spec.NodeSelector.NodeSelectorTerms[0].MatchExpressions[0]
		got[fmt.Sprint(r.Key, r.Operator, r.Values)] = len(s.Spec.Devices)
	}
	if len(got) != 2 || got[machine+"In[host-a]"] != 3 || got[machine+"In[host-a host-b]"] != 1 {
		t.Errorf("devices by selector: %v", got)
	}
}

func TestDeviceIsPublishedAsTheDriverWill(t *testing.T) {
	m := &v1alpha1.DeviceModel{Name: "a100", Driver: gpuDriver, Attributes: map[string]v1alpha1.AttributeValue{"model": {String: ptr.To("A100")}}}
	o := &fabric.Offer{Device: &fabric.Device{UUID: "ABC"}, Identity: &fabric.Identity{Attribute: "uuid", Value: "GPU-ABC"}}
	o.LocalDevice.Device = "gpu-1"
	d := deviceFor(m, o, true)
	if got := *d.Attributes["uuid"].StringValue; got != "GPU-ABC" {
		t.Errorf("uuid is %q, want GPU-ABC", got)
	}
	if got := *d.Attributes["model"].StringValue; got != "A100" {
		t.Errorf("model is %q, want A100", got)
	}
	if !*d.BindsToNode || !slices.Equal(d.BindingConditions, []string{v1alpha1.ConditionAttached}) ||
		!slices.Equal(d.BindingFailureConditions, []string{v1alpha1.ConditionAttachFailed}) {
		t.Errorf("the device binds by %v, %v, to a node: %v", d.BindingConditions, d.BindingFailureConditions, *d.BindsToNode)
	}
	if got := d.Attributes[inventory.IdentityAttribute].StringValue; got == nil || *got != "uuid" {
		t.Errorf("the identity's attribute is %v, want uuid", got)
	}
	if _, has := d.Attributes[inventory.ClaimAttribute]; has || len(d.Taints) > 0 {
		t.Errorf("a free device is kept: %v", d)
	}
	o.Kept = "u"
	d = deviceFor(m, o, true)
	if got := d.Attributes[inventory.ClaimAttribute].StringValue; got == nil || *got != "u" ||
		len(d.Taints) != 1 || d.Taints[0].Key != inventory.ArrivingTaint || d.Taints[0].Value != "u" {
		t.Errorf("a kept device is published as %v", d)
	}
	m.Template = true
	if d := deviceFor(m, o, false); len(d.Taints) != 1 || d.Attributes[inventory.ClaimAttribute].StringValue != nil {
		t.Errorf("a device that is not reserved: got %+v", d)
	}
	d = deviceFor(m, &fabric.Offer{}, true)
	if !*d.Attributes[v1alpha1.AttributeTemplate].BoolValue {
		t.Error("a template is not marked")
	}
	if _, has := d.Attributes["uuid"]; has {
		t.Error("a template has an identity")
	}
}
