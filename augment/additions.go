// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package augment

import (
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// DeviceAddition is what was added to one device.
type DeviceAddition struct {
	Pool   string `json:"pool"`
	Device string `json:"device"`
	Addition
}

func (a DeviceAddition) empty() bool { return len(a.Attributes) == 0 && len(a.Taints) == 0 }

// Additions is all that was added to the devices of a driver, by pool and device.
// It can be stored as JSON and used later.
type Additions []DeviceAddition

// Strip returns a device without what was added to it: what the driver wrote. What
// somebody changed since then is not what was added, and stays. The device is not
// changed.
func (a Additions) Strip(pool string, device resourceapi.Device) resourceapi.Device {
	for _, added := range a {
		if added.Pool == pool && added.Device == device.Name {
			return added.strip(device)
		}
	}
	return device
}

func (a DeviceAddition) strip(device resourceapi.Device) resourceapi.Device {
	device.Attributes = maps.Clone(device.Attributes)
	for name, value := range a.Attributes {
		if have, ok := device.Attributes[name]; ok && equality.Semantic.DeepEqual(have, value) {
			delete(device.Attributes, name)
		}
	}
	if len(device.Attributes) == 0 {
		device.Attributes = nil
	}
	device.Taints = slices.DeleteFunc(slices.Clone(device.Taints), func(have resourceapi.DeviceTaint) bool {
		return slices.ContainsFunc(a.Taints, func(taint resourceapi.DeviceTaint) bool { return sameTaint(have, taint) })
	})
	if len(device.Taints) == 0 {
		device.Taints = nil
	}
	return device
}
