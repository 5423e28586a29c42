// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package compound

import (
	"cmp"
	"slices"
	"strconv"

	resourceapi "k8s.io/api/resource/v1"
)

// values are those of an attribute, of one or several devices.
type values struct {
	// list is set where the attribute is a list, also of one value.
	list     bool
	ints     []int64
	bools    []bool
	strings  []string
	versions []string
}

func valuesOf(a *resourceapi.DeviceAttribute) *values {
	v := &values{list: true, ints: a.IntValues, bools: a.BoolValues, strings: a.StringValues, versions: a.VersionValues}
	switch {
	case a.IntValue != nil:
		v.ints, v.list = []int64{*a.IntValue}, false
	case a.BoolValue != nil:
		v.bools, v.list = []bool{*a.BoolValue}, false
	case a.StringValue != nil:
		v.strings, v.list = []string{*a.StringValue}, false
	case a.VersionValue != nil:
		v.versions, v.list = []string{*a.VersionValue}, false
	}
	return v
}

// keys are the values as texts that differ where values or types do.
func (v *values) keys() []string {
	var keys []string
	for _, n := range v.ints {
		keys = append(keys, "int "+strconv.FormatInt(n, 10))
	}
	for _, b := range v.bools {
		keys = append(keys, "bool "+strconv.FormatBool(b))
	}
	for _, s := range v.strings {
		keys = append(keys, "string "+s)
	}
	for _, s := range v.versions {
		keys = append(keys, "version "+s)
	}
	return keys
}

// kind tells the types apart.
func (v *values) kind() int {
	return slices.Index([]bool{len(v.ints) > 0, len(v.bools) > 0, len(v.strings) > 0, len(v.versions) > 0}, true)
}

// add adds the values of another device. Equal values stay what they are; others become a
// list, each value once and sorted. It reports false where the types differ.
func (v *values) add(other *values) bool {
	if v.kind() != other.kind() {
		return false
	}
	if v.list == other.list && slices.Equal(v.keys(), other.keys()) {
		return true
	}
	v.list = true
	v.ints, v.strings, v.versions = union(v.ints, other.ints), union(v.strings, other.strings), union(v.versions, other.versions)
	bools := append(slices.Clone(v.bools), other.bools...)
	v.bools = nil
	for _, b := range []bool{false, true} {
		if slices.Contains(bools, b) {
			v.bools = append(v.bools, b)
		}
	}
	return true
}

func union[T cmp.Ordered](a, b []T) []T {
	all := append(slices.Clone(a), b...)
	slices.Sort(all)
	return slices.Compact(all)
}

func (v *values) attribute() resourceapi.DeviceAttribute {
	if v.list {
		return resourceapi.DeviceAttribute{IntValues: v.ints, BoolValues: v.bools, StringValues: v.strings, VersionValues: v.versions}
	}
	var a resourceapi.DeviceAttribute
	switch {
	case len(v.ints) > 0:
		a.IntValue = &v.ints[0]
	case len(v.bools) > 0:
		a.BoolValue = &v.bools[0]
	case len(v.strings) > 0:
		a.StringValue = &v.strings[0]
	case len(v.versions) > 0:
		a.VersionValue = &v.versions[0]
	}
	return a
}
