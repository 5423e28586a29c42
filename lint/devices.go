// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"

	"github.com/blang/semver/v4"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// checkDevice reports what is wrong with a device by itself.
func (s sliceSpec) checkDevice(path string, d *resourceapi.Device) {
	s.tooMany("slice-invalid", path+".taints", "taints", len(d.Taints), resourceapi.DeviceTaintsMaxLength)
	s.tooMany("slice-invalid", path, "attributes and capacities", len(d.Attributes)+len(d.Capacity), resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice)
	s.tooMany("slice-invalid", path+".consumesCounters", "counter sets", len(d.ConsumesCounters), resourceapi.ResourceSliceMaxDeviceCounterConsumptionsPerDevice)
	if d.Name == "" {
		s.report(Error, "slice-invalid", path+".name", "name the device", "the device has no name")
	}
	for name, a := range sorted(d.Attributes) {
		s.checkAttribute(fmt.Sprintf("%s.attributes[%s]", path, name), d, &a)
	}
	for i := range d.ConsumesCounters {
		s.checkCounters(fmt.Sprintf("%s.consumesCounters[%d].counters", path, i), d.ConsumesCounters[i].Counters)
	}
	for name, capacity := range sorted(d.Capacity) {
		field := fmt.Sprintf("%s.capacity[%s]", path, name)
		s.notNegative(field+".value", &capacity.Value)
		if capacity.RequestPolicy != nil {
			s.checkPolicy(field+".requestPolicy", d, &capacity)
		}
	}
	for name, r := range sorted(d.NodeAllocatableResources) {
		s.checkNodeResource(fmt.Sprintf("%s.nodeAllocatableResources[%s]", path, name), d, name, &r)
	}
}

// checkAttribute reports an attribute that no expression can read: one that is
// malformed fails every expression on its device.
func (s sliceSpec) checkAttribute(path string, d *resourceapi.Device, a *resourceapi.DeviceAttribute) {
	if problem := malformed(a); problem != "" {
		s.report(Error, "attribute-invalid", path, "publish one value, and a version as MAJOR.MINOR.PATCH",
			"attribute of device %s cannot be used: %s", d.Name, problem)
	}
}

// malformed says what is wrong with an attribute, empty where it is sound.
func malformed(a *resourceapi.DeviceAttribute) string {
	values := 0
	for _, set := range []bool{
		a.BoolValue != nil, a.IntValue != nil, a.StringValue != nil, a.VersionValue != nil,
		a.BoolValues != nil, a.IntValues != nil, a.StringValues != nil, a.VersionValues != nil,
	} {
		if set {
			values++
		}
	}
	if values != 1 {
		return fmt.Sprintf("the attribute has %d values", values)
	}
	texts, versions := slices.Clone(a.StringValues), slices.Clone(a.VersionValues)
	if a.StringValue != nil {
		texts = append(texts, *a.StringValue)
	}
	if a.VersionValue != nil {
		versions = append(versions, *a.VersionValue)
	}
	for _, version := range versions {
		if _, err := semver.Parse(version); err != nil {
			return fmt.Sprintf("version %q: %v", version, err)
		}
	}
	for _, text := range append(texts, versions...) {
		if n := len(text); n > resourceapi.DeviceAttributeMaxValueLength {
			return fmt.Sprintf("the value has %d bytes, the API allows %d", n, resourceapi.DeviceAttributeMaxValueLength)
		}
	}
	return ""
}

// checkNodeResource reports a resource of the node that the device costs or stands
// for, of which the amount cannot be told.
func (s sliceSpec) checkNodeResource(path string, d *resourceapi.Device, name v1.ResourceName, r *resourceapi.NodeAllocatableResource) {
	const rule = "node-resource-invalid"
	if o := r.Overhead; o != nil {
		s.notNegative(path+".overhead.perPod", o.PerPod)
		s.notNegative(path+".overhead.perContainer", o.PerContainer)
	}
	m := r.Mapping
	if m == nil {
		return
	}
	path += ".mapping"
	switch {
	case m.CapacityKey == nil && m.CapacityMultiplier != nil:
		s.report(Error, rule, path+".capacityKey", "name the capacity that is multiplied", "capacityMultiplier without capacityKey: device %s takes no %s", d.Name, name)
	case m.CapacityKey != nil && !hasCapacity(d, *m.CapacityKey):
		s.report(Error, rule, path+".capacityKey", capacityNames(d), "device %s has no capacity %q, so it takes no %s of its node", d.Name, *m.CapacityKey, name)
	case m.CapacityKey != nil && m.CapacityMultiplier == nil:
		s.report(Error, rule, path+".capacityMultiplier", "say how much a unit of the capacity is worth", "capacityKey without capacityMultiplier: device %s takes no %s", d.Name, name)
	}
	if q := m.CapacityMultiplier; q != nil && q.Sign() <= 0 {
		s.report(Error, rule, path+".capacityMultiplier", "use a positive quantity", "%s is not positive", q)
	}
	if q := m.DeviceMultiplier; q != nil && q.Sign() <= 0 {
		s.report(Error, rule, path+".deviceMultiplier", "use a positive quantity", "%s is not positive", q)
	}
}

func hasCapacity(d *resourceapi.Device, name resourceapi.QualifiedName) bool {
	_, found := d.Capacity[name]
	return found
}

// capacityNames says which capacities may be named.
func capacityNames(d *resourceapi.Device) string {
	text := "add the capacity"
	for name := range sorted(d.Capacity) {
		text += ", or name " + string(name)
	}
	return text
}
