// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

// Attributes and capacities have two spellings: whoever writes them may leave the
// driver's own domain out (QualifiedName). On a device of nic.example.com, bandwidth and
// nic.example.com/bandwidth are one capacity, and the spelling may change from one
// generation to the next.

// LocalName returns the name as it is without the driver's domain. Two names mean the
// same on a driver's devices where their local names are equal.
func LocalName(driver string, name resourceapi.QualifiedName) resourceapi.QualifiedName {
	if n := len(driver); len(name) > n && name[n] == '/' && string(name[:n]) == driver {
		return name[n+1:]
	}
	return name
}

// FullName returns the name with its domain, which is the driver's where it has none.
func FullName(driver string, name resourceapi.QualifiedName) resourceapi.QualifiedName {
	if strings.Contains(string(name), "/") {
		return name
	}
	return resourceapi.QualifiedName(driver) + "/" + name
}

// Named looks up what may be spelt the other way there, and returns how it is. It is for
// maps that have no name under both spellings: devices as [OneSpelling] gives them.
func Named[V any](of map[resourceapi.QualifiedName]V, driver string, name resourceapi.QualifiedName) (as resourceapi.QualifiedName, value V, found bool) {
	if value, found = of[name]; found {
		return name, value, true
	}
	if local := LocalName(driver, name); local != name {
		value, found = of[local]
		return local, value, found
	}
	if strings.Contains(string(name), "/") {
		return name, value, false
	}
	for other, value := range of {
		if len(other) > len(name) && LocalName(driver, other) == name {
			return other, value, true
		}
	}
	return name, value, false
}

// Twice returns, sorted, the names with the driver's domain that are there without it,
// too.
func Twice[V any](of map[resourceapi.QualifiedName]V, driver string) []resourceapi.QualifiedName {
	var twice []resourceapi.QualifiedName
	for name := range of {
		if local := LocalName(driver, name); local != name {
			if _, found := of[local]; found {
				twice = append(twice, name)
			}
		}
	}
	slices.Sort(twice)
	return twice
}

// OneSpelling returns the device with every attribute and capacity under one name. Where
// it is published under two, that with the domain counts, as in constraints of the API
// ("fully qualified wins").
func OneSpelling(driver string, d *resourceapi.Device) *resourceapi.Device {
	attributes, capacities := Twice(d.Attributes, driver), Twice(d.Capacity, driver)
	if len(attributes)+len(capacities) == 0 {
		return d
	}
	one := *d
	one.Attributes, one.Capacity = maps.Clone(d.Attributes), maps.Clone(d.Capacity)
	for _, name := range attributes {
		delete(one.Attributes, LocalName(driver, name))
	}
	for _, name := range capacities {
		delete(one.Capacity, LocalName(driver, name))
	}
	return &one
}
