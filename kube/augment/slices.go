// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package augment

import (
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"kerf.dev/kerf/augment"
)

// Apply adds to a driver's resources what the rules ask for. The resources are not
// changed, and share with the result what is equal. [augment.Additions] says what
// was added; the refusals say which files were left out and why.
//
// The API allows half as many devices in a slice if one of them has a taint or a
// list attribute. A slice that becomes too large by that is split.
func Apply(rules augment.Rules, driver string, resources resourceslice.DriverResources) (resourceslice.DriverResources, augment.Additions, []*augment.Refusal) {
	pools := make([]augment.Pool, 0, len(resources.Pools))
	for _, name := range slices.Sorted(maps.Keys(resources.Pools)) {
		pool := augment.Pool{Name: name}
		for _, s := range resources.Pools[name].Slices {
			pool.Devices = append(pool.Devices, s.Devices...)
		}
		pools = append(pools, pool)
	}
	result := rules.Apply(driver, pools)
	augmented := resourceslice.DriverResources{Pools: maps.Clone(resources.Pools)}
	for _, p := range result.Pools {
		pool := augmented.Pools[p.Name]
		pool.Slices = sliced(pool.Slices, p.Devices)
		augmented.Pools[p.Name] = pool
	}
	return augmented, result.Added, result.Refused
}

// sliced puts the devices into slices as they were before.
func sliced(before []resourceslice.Slice, devices []resourceapi.Device) []resourceslice.Slice {
	var after []resourceslice.Slice
	for _, s := range before {
		n := len(s.Devices)
		mine := devices[:n:n]
		devices = devices[n:]
		if n <= resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures || advanced(s.Devices) || !advanced(mine) {
			if n > 0 {
				s.Devices = mine
			}
			after = append(after, s)
			continue
		}
		after = append(after, split(s, mine)...)
	}
	return after
}

// split keeps the order of the devices, which is the order in which they are
// preferred. Devices of a slice of this size consume no counters, so none of the
// parts needs to name an attribute of partitions.
func split(s resourceslice.Slice, devices []resourceapi.Device) []resourceslice.Slice {
	var parts []resourceslice.Slice
	for part := range slices.Chunk(devices, resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures) {
		s.Devices = part
		parts = append(parts, s)
		s.SharedCounters = nil
	}
	return parts
}

// advanced tells whether devices use what makes a slice hold fewer of them.
func advanced(devices []resourceapi.Device) bool {
	return slices.ContainsFunc(devices, func(d resourceapi.Device) bool {
		if len(d.Taints) > 0 || len(d.ConsumesCounters) > 0 {
			return true
		}
		for _, a := range d.Attributes {
			if a.IntValues != nil || a.BoolValues != nil || a.StringValues != nil || a.VersionValues != nil {
				return true
			}
		}
		return false
	})
}
