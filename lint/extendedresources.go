// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
)

// checkPlugins reports nodes where a device plugin offers what a class would serve
// with devices of the same node: these are likely the same cards, and each side takes
// them for its own.
func (c *checker) checkPlugins() {
	for _, node := range c.cluster.Nodes {
		var names []v1.ResourceName
		for name, amount := range node.Status.Allocatable {
			if amount.Sign() > 0 && claim.IsExtended(name) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			class := claim.ClassServing(name, slices.Values(c.cluster.DeviceClasses))
			if class == nil {
				continue
			}
			if n := c.localDevices(class, node.Name); n > 0 {
				amount := node.Status.Allocatable[name]
				c.about("Node", node).report(Warning, "extended-resource-plugin", fmt.Sprintf("status.allocatable[%s]", name),
					"stop the device plugin on the node, or the driver",
					"a device plugin offers %s, and a driver publishes %d devices of class %s, which serves the same resource: if they are the same, each can be given out twice", inventory.QuantityText(amount), n, class.Name)
			}
		}
	}
}

// localDevices counts the devices of a class that are part of a node.
func (c *checker) localDevices(class *resourceapi.DeviceClass, node string) int {
	n := 0
	for d := range c.devices {
		if d.Slice.Spec.NodeName == nil || *d.Slice.Spec.NodeName != node || c.refuses(d) {
			continue
		}
		if at, _ := c.firstMismatch(class.Spec.Selectors, d); at < 0 {
			n++
		}
	}
	return n
}
