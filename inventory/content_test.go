// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func ptr[T any](v T) *T { return &v }

// described is a device with an attribute of each kind.
func described() *resourceapi.Device {
	return &resourceapi.Device{
		Name: "gpu-0",
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"model":                           {StringValue: ptr("a100")},
			"driverVersion":                   {VersionValue: ptr("12.4.0")},
			"index":                           {IntValue: ptr(int64(3))},
			"ecc":                             {BoolValue: ptr(true)},
			"links":                           {StringValues: []string{"l0", "l1"}},
			"resource.kubernetes.io/pcieRoot": {StringValue: ptr("pci0000:01")},
		},
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}},
	}
}

// TestContent: what an expression can see makes a difference, nothing else does.
func TestContent(t *testing.T) {
	set := func(a resourceapi.DeviceAttribute) func(*resourceapi.Device) {
		return func(d *resourceapi.Device) { d.Attributes["model"] = a }
	}
	seen := map[Content]string{}
	for name, change := range map[string]func(*resourceapi.Device){
		"nothing":      func(*resourceapi.Device) {},
		"shared":       func(d *resourceapi.Device) { d.AllowMultipleAllocations = ptr(true) },
		"other text":   set(resourceapi.DeviceAttribute{StringValue: ptr("h100")}),
		"version":      set(resourceapi.DeviceAttribute{VersionValue: ptr("a100")}),
		"int":          set(resourceapi.DeviceAttribute{IntValue: ptr(int64(1))}),
		"bool":         set(resourceapi.DeviceAttribute{BoolValue: ptr(true)}),
		"false":        set(resourceapi.DeviceAttribute{BoolValue: ptr(false)}),
		"list of one":  set(resourceapi.DeviceAttribute{StringValues: []string{"a100"}}),
		"list of two":  set(resourceapi.DeviceAttribute{StringValues: []string{"a1", "00"}}),
		"ints":         set(resourceapi.DeviceAttribute{IntValues: []int64{1}}),
		"bools":        set(resourceapi.DeviceAttribute{BoolValues: []bool{true}}),
		"versions":     set(resourceapi.DeviceAttribute{VersionValues: []string{"a100"}}),
		"no value":     set(resourceapi.DeviceAttribute{}),
		"no attribute": func(d *resourceapi.Device) { delete(d.Attributes, "model") },
		"more capacity": func(d *resourceapi.Device) {
			d.Capacity["memory"] = resourceapi.DeviceCapacity{Value: resource.MustParse("81Gi")}
		},
		"other capacity": func(d *resourceapi.Device) { d.Capacity["size"] = d.Capacity["memory"] },
	} {
		d := described()
		change(d)
		content := contentOf("gpu.example.com", d)
		if other, found := seen[content]; found {
			t.Errorf("%s and %s are the same", name, other)
		}
		seen[content] = name
	}
	if contentOf("nic.example.com", described()) == contentOf("gpu.example.com", described()) {
		t.Error("the driver makes no difference")
	}
	other := described()
	other.Name = "gpu-1"
	other.Taints = []resourceapi.DeviceTaint{{Key: "k"}}
	other.AllowMultipleAllocations = ptr(false)
	if contentOf("gpu.example.com", other) != contentOf("gpu.example.com", described()) {
		t.Error("name, taints or an explicit false make a difference")
	}
}

// TestContentIsKnown: devices of a snapshot do not work it out again.
func TestContentIsKnown(t *testing.T) {
	d := newPart(NewPool(PoolID{Driver: "d", Pool: "p"}, halves()[1:], nil)).pool.Devices[0]
	if d.content == (Content{}) || d.Content() != d.content {
		t.Errorf("content %x, known %x", d.Content(), d.content)
	}
	byHand := &Device{ID: d.ID, Spec: d.Spec}
	if byHand.Content() != d.Content() {
		t.Error("a device made by hand has another content")
	}
	if known := byHand.Identified(); known.content != d.content || byHand.content != (Content{}) || d.Identified() != d {
		t.Error("a device that knows its content is not a copy where, and only where, it must be")
	}
}

func BenchmarkContent(b *testing.B) {
	d := described()
	for b.Loop() {
		contentOf("gpu.example.com", d)
	}
}
