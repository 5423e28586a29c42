// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package augment

import (
	"path"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

// qualify gives an attribute without a domain that of the driver.
func qualify(name resourceapi.QualifiedName, driver string) resourceapi.QualifiedName {
	if strings.Contains(string(name), "/") {
		return name
	}
	return resourceapi.QualifiedName(driver) + "/" + name
}

// published finds an attribute of a device however driver and file write its
// name. Of a device that has it twice, the name with the domain counts.
func published(device *resourceapi.Device, name resourceapi.QualifiedName, driver string) (resourceapi.DeviceAttribute, bool) {
	full := qualify(name, driver)
	if a, ok := device.Attributes[full]; ok {
		return a, true
	}
	if bare, own := strings.CutPrefix(string(full), driver+"/"); own {
		a, ok := device.Attributes[resourceapi.QualifiedName(bare)]
		return a, ok
	}
	return resourceapi.DeviceAttribute{}, false
}

// matches tells whether the rule is for a device as its driver wrote it.
func (s Selector) matches(driver, pool string, device *resourceapi.Device) bool {
	if !matchesName(s.Pool, pool) || !matchesName(s.Name, device.Name) {
		return false
	}
	for name, want := range s.Attributes {
		if have, ok := published(device, name, driver); !ok || !includes(have, want) {
			return false
		}
	}
	return true
}

func matchesName(pattern, name string) bool {
	if pattern == "" {
		return true
	}
	// A pattern that is none was refused by Parse.
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// includes tells whether an attribute has a single value, or has it in its list.
func includes(have, want resourceapi.DeviceAttribute) bool {
	switch {
	case want.IntValue != nil:
		return is(have.IntValue, have.IntValues, *want.IntValue)
	case want.BoolValue != nil:
		return is(have.BoolValue, have.BoolValues, *want.BoolValue)
	case want.StringValue != nil:
		return is(have.StringValue, have.StringValues, *want.StringValue)
	case want.VersionValue != nil:
		return is(have.VersionValue, have.VersionValues, *want.VersionValue)
	}
	return false
}

func is[T comparable](single *T, list []T, want T) bool {
	return single != nil && *single == want || slices.Contains(list, want)
}

// sameTaint leaves out when the taint was added: the API server sets that.
func sameTaint(a, b resourceapi.DeviceTaint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
}
