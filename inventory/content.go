// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// Content identifies what a CEL expression can see of a device: driver,
// attributes, capacity values and allowMultipleAllocations. Devices of equal
// content give equal answers, whichever slice or node they come from.
type Content [sha256.Size]byte

// Content returns the identity of what expressions see of the device. Devices
// of a snapshot know it; for others it is worked out with each call.
func (d *Device) Content() Content {
	if d.content != (Content{}) {
		return d.content
	}
	return contentOf(d.ID.Driver, d.Spec)
}

// Identified returns the device, or a copy of it, that knows its content.
func (d *Device) Identified() *Device {
	if d.content != (Content{}) {
		return d
	}
	known := *d
	known.content = contentOf(d.ID.Driver, d.Spec)
	return &known
}

func contentOf(driver string, spec *resourceapi.Device) Content {
	e := make(encoding, 0, 1024)
	var names [resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice]resourceapi.QualifiedName
	e.text(driver)
	e.bool(spec.AllowMultipleAllocations != nil && *spec.AllowMultipleAllocations)
	e.number(int64(len(spec.Attributes)))
	for _, name := range sorted(names[:0], spec.Attributes) {
		e.text(string(name))
		e.attribute(spec.Attributes[name])
	}
	for _, name := range sorted(names[:0], spec.Capacity) {
		e.text(string(name))
		quantity := spec.Capacity[name].Value
		e.text(quantity.String())
	}
	return sha256.Sum256(e)
}

// sorted appends the keys of the map.
func sorted[V any](names []resourceapi.QualifiedName, of map[resourceapi.QualifiedName]V) []resourceapi.QualifiedName {
	for name := range of {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// encoding is a sequence of values as bytes. No two sequences are the same
// bytes: texts and lists carry their length, values their kind.
type encoding []byte

func (e *encoding) number(v int64) { *e = binary.LittleEndian.AppendUint64(*e, uint64(v)) }

func (e *encoding) text(s string) {
	e.number(int64(len(s)))
	*e = append(*e, s...)
}

func (e *encoding) bool(v bool) {
	b := byte(0)
	if v {
		b = 1
	}
	*e = append(*e, b)
}

// attribute writes the kind and value of each field that is set; valid
// attributes set one.
func (e *encoding) attribute(a resourceapi.DeviceAttribute) {
	if a.IntValue != nil {
		e.kind('i', 1)
		e.number(*a.IntValue)
	}
	if a.BoolValue != nil {
		e.kind('b', 1)
		e.bool(*a.BoolValue)
	}
	if a.StringValue != nil {
		e.kind('s', 1)
		e.text(*a.StringValue)
	}
	if a.VersionValue != nil {
		e.kind('v', 1)
		e.text(*a.VersionValue)
	}
	e.lists(&a)
	*e = append(*e, '.')
}

func (e *encoding) lists(a *resourceapi.DeviceAttribute) {
	if a.IntValues != nil {
		e.kind('I', len(a.IntValues))
	}
	for _, v := range a.IntValues {
		e.number(v)
	}
	if a.BoolValues != nil {
		e.kind('B', len(a.BoolValues))
	}
	for _, v := range a.BoolValues {
		e.bool(v)
	}
	if a.StringValues != nil {
		e.kind('S', len(a.StringValues))
	}
	for _, v := range a.StringValues {
		e.text(v)
	}
	if a.VersionValues != nil {
		e.kind('V', len(a.VersionValues))
	}
	for _, v := range a.VersionValues {
		e.text(v)
	}
}

func (e *encoding) kind(of byte, n int) {
	*e = append(*e, of)
	e.number(int64(n))
}
