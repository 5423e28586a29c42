// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/inventory"
)

// value is one element of an attribute. Values of different types never match.
// Versions are without build metadata, which does not count (semver 2.0.0, 10). They
// are minimal, so equal versions have equal text.
type value struct {
	kind byte // i, b, s or v
	text string
}

var typeNames = map[byte]string{'i': "int", 'b': "bool", 's': "string", 'v': "version"}

// valuesOf returns the elements of an attribute, scalar or list, without
// duplicates; nil where it has none.
func valuesOf(a *resourceapi.DeviceAttribute) []value {
	var values []value
	add := func(kind byte, text string) {
		v := value{kind, text}
		for _, seen := range values {
			if seen == v {
				return
			}
		}
		values = append(values, v)
	}
	switch {
	case a == nil:
	case len(a.IntValues) > 0:
		for _, v := range a.IntValues {
			add('i', strconv.FormatInt(v, 10))
		}
	case len(a.BoolValues) > 0:
		for _, v := range a.BoolValues {
			add('b', strconv.FormatBool(v))
		}
	case len(a.StringValues) > 0:
		for _, v := range a.StringValues {
			add('s', v)
		}
	case len(a.VersionValues) > 0:
		for _, v := range a.VersionValues {
			add('v', compared(v))
		}
	case a.IntValue != nil:
		add('i', strconv.FormatInt(*a.IntValue, 10))
	case a.BoolValue != nil:
		add('b', strconv.FormatBool(*a.BoolValue))
	case a.StringValue != nil:
		add('s', *a.StringValue)
	case a.VersionValue != nil:
		add('v', compared(*a.VersionValue))
	}
	return values
}

// compared is the part of a version that is compared.
func compared(version string) string {
	version, _, _ = strings.Cut(version, "+")
	return version
}

// incomparable is the kind of values that are equal to none but themselves.
const incomparable = '*'

// scalarOf returns the scalar of an attribute. Anything else that a unit has in
// its place is a value of its own.
func scalarOf(a *resourceapi.DeviceAttribute, unit int) []value {
	switch {
	case a == nil:
		return nil
	case a.IntValue != nil, a.BoolValue != nil, a.StringValue != nil, a.VersionValue != nil:
		scalar := *a
		scalar.IntValues, scalar.BoolValues, scalar.StringValues, scalar.VersionValues = nil, nil, nil, nil
		return valuesOf(&scalar)
	}
	return []value{{incomparable, strconv.Itoa(unit)}}
}

// published looks up an attribute by its fully qualified name. A driver may
// leave out its own domain (DeviceAttribute names, QualifiedName).
func published(d *inventory.Device, name resourceapi.FullyQualifiedName) *resourceapi.DeviceAttribute {
	if _, a, found := inventory.Named(d.Spec.Attributes, d.ID.Driver, resourceapi.QualifiedName(name)); found {
		return &a
	}
	return nil
}
