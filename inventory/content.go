// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"maps"
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

func contentOf(driver string, spec *resourceapi.Device) Content {
	e := encoder{sha256.New()}
	e.text(driver)
	e.bool(spec.AllowMultipleAllocations != nil && *spec.AllowMultipleAllocations)
	e.number(int64(len(spec.Attributes)))
	for _, name := range slices.Sorted(maps.Keys(spec.Attributes)) {
		e.text(string(name))
		e.attribute(spec.Attributes[name])
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Capacity)) {
		e.text(string(name))
		quantity := spec.Capacity[name].Value
		e.text(quantity.String())
	}
	return Content(e.Sum(nil))
}

// encoder feeds values to a hash so that no two sequences of values are the
// same bytes: texts and lists carry their length, values their kind.
type encoder struct{ hash.Hash }

func (e encoder) number(v int64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(v))
	e.Write(b[:])
}

func (e encoder) text(s string) {
	e.number(int64(len(s)))
	e.Write([]byte(s))
}

func (e encoder) bool(v bool) {
	b := byte(0)
	if v {
		b = 1
	}
	e.Write([]byte{b})
}

func (e encoder) attribute(a resourceapi.DeviceAttribute) {
	if a.IntValue != nil {
		list(e, 'i', []int64{*a.IntValue}, e.number)
	}
	if a.BoolValue != nil {
		list(e, 'b', []bool{*a.BoolValue}, e.bool)
	}
	if a.StringValue != nil {
		list(e, 's', []string{*a.StringValue}, e.text)
	}
	if a.VersionValue != nil {
		list(e, 'v', []string{*a.VersionValue}, e.text)
	}
	if a.IntValues != nil {
		list(e, 'I', a.IntValues, e.number)
	}
	if a.BoolValues != nil {
		list(e, 'B', a.BoolValues, e.bool)
	}
	if a.StringValues != nil {
		list(e, 'S', a.StringValues, e.text)
	}
	if a.VersionValues != nil {
		list(e, 'V', a.VersionValues, e.text)
	}
	e.Write([]byte{'.'})
}

func list[T any](e encoder, kind byte, values []T, write func(T)) {
	e.Write([]byte{kind})
	e.number(int64(len(values)))
	for _, v := range values {
		write(v)
	}
}
