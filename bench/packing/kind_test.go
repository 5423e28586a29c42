// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// shape says which devices suffice: all of a class for which a CEL expression is
// true.
type shape struct {
	name, class, selector string
}

// shapes are profiles of the seven-slice card, amounts of memory, and a card that
// is not partitioned.
var shapes = []shape{
	profile("1g.10gb"), profile("1g.10gb+me"), profile("1g.20gb"), profile("2g.20gb"),
	profile("3g.40gb"), profile("4g.40gb"), profile("7g.80gb"),
	memory("8Gi"), memory("16Gi"), memory("32Gi"), memory("64Gi"),
	{name: "card", class: "gpu.example.com"},
}

func profile(name string) shape {
	return shape{name, "partition.gpu.example.com", fmt.Sprintf(`device.attributes["gpu.example.com"].profile == %q`, name)}
}

func memory(least string) shape {
	return shape{least, "partition.gpu.example.com", fmt.Sprintf(`device.capacity["gpu.example.com"].memory.compareTo(quantity(%q)) >= 0`, least)}
}

// shapeNamed returns the index of a shape, -1 where there is none.
func shapeNamed(name string) int {
	return slices.IndexFunc(shapes, func(s shape) bool { return s.name == name })
}

// kind is what a claim asks for: so many devices of a shape, on one node.
type kind struct {
	shape, count int
}

func (k kind) claim() *resourceapi.ResourceClaim {
	s := &shapes[k.shape]
	exactly := &resourceapi.ExactDeviceRequest{
		DeviceClassName: s.class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: int64(k.count),
	}
	if s.selector != "" {
		exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: s.selector}}}
	}
	c := &resourceapi.ResourceClaim{}
	c.Namespace, c.Name, c.UID = "default", "claim", types.UID("claim")
	c.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "devices", Exactly: exactly}}
	return c
}
