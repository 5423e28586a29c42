// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/blang/semver/v4"
	resourceapi "k8s.io/api/resource/v1"
)

// Comparison is a condition on one property of a device: what an expression asks for,
// as far as it is as simple as that.
type Comparison struct {
	Property
	Operator Operator
	// Values has one value; with Equal there may be several, any of which will do.
	Values []Value
}

// Operator compares what a device has, on the left, with what is asked for.
type Operator string

// The operators of CEL. Values that have no order have only the first two.
const (
	Equal          Operator = "=="
	NotEqual       Operator = "!="
	Less           Operator = "<"
	LessOrEqual    Operator = "<="
	Greater        Operator = ">"
	GreaterOrEqual Operator = ">="
)

// Property is an attribute, or a capacity, by its full name.
type Property struct {
	Capacity bool
	Name     resourceapi.FullyQualifiedName
}

// Met reports whether the device has the property, with a value that compares so.
func (c *Comparison) Met(d *Device) bool {
	has, found := c.Of(d)
	if !found {
		return false
	}
	for i := range c.Values {
		order, ordered := has.Compare(c.Values[i])
		if ordered && c.Operator.holds(order) || !ordered && c.Operator == NotEqual {
			return true
		}
	}
	return false
}

// Ordered reports whether the condition is that something is more, or less.
func (c *Comparison) Ordered() bool { return c.Operator != Equal && c.Operator != NotEqual }

// ByDistance orders values that do not meet the condition: what comes closest first, and
// those without an order by value.
func (c *Comparison) ByDistance(a, b Value) int {
	order, _ := a.Compare(b)
	if c.Operator == Greater || c.Operator == GreaterOrEqual {
		return -order
	}
	return order
}

func (o Operator) holds(order int) bool {
	switch o {
	case Equal:
		return order == 0
	case NotEqual:
		return order != 0
	case Less:
		return order < 0
	case LessOrEqual:
		return order <= 0
	case Greater:
		return order > 0
	}
	return order >= 0
}

// Of returns what the device has of the property. A driver may leave out its own domain.
func (p *Property) Of(d *Device) (v Value, found bool) {
	name := resourceapi.QualifiedName(p.Name)
	if p.Capacity {
		if _, c, found := Named(d.Spec.Capacity, d.ID.Driver, name); found {
			return Value{kind: quantityValue, text: QuantityText(c.Value), amount: AmountOf(c.Value)}, true
		}
		return Value{}, false
	}
	if _, a, found := Named(d.Spec.Attributes, d.ID.Driver, name); found {
		return valueOf(&a), true
	}
	return Value{}, false
}

func valueOf(a *resourceapi.DeviceAttribute) Value {
	switch {
	case a.StringValue != nil:
		return StringOf(*a.StringValue)
	case a.IntValue != nil:
		return IntOf(*a.IntValue)
	case a.BoolValue != nil:
		return BoolOf(*a.BoolValue)
	case a.VersionValue != nil:
		if v, ok := VersionOf(*a.VersionValue); ok {
			return v
		}
	}
	return Value{kind: otherValue}
}

// Value is a text, a whole number, true or false, a semantic version or a quantity.
type Value struct {
	kind    valueKind
	text    string
	amount  Amount // of a quantity
	integer int64
	version semver.Version
}

type valueKind uint8

const (
	textValue valueKind = iota
	integerValue
	booleanValue
	versionValue
	quantityValue
	// otherValue is a list, or what is no value.
	otherValue
)

// StringOf is a text as a value.
func StringOf(s string) Value { return Value{kind: textValue, text: s} }

// IntOf is a whole number as a value.
func IntOf(n int64) Value {
	return Value{kind: integerValue, text: strconv.FormatInt(n, 10), integer: n}
}

// BoolOf is true or false as a value; false is less.
func BoolOf(b bool) Value {
	v := Value{kind: booleanValue, text: strconv.FormatBool(b)}
	if b {
		v.integer = 1
	}
	return v
}

// VersionOf is a semantic version as a value; ok is false where it is none.
func VersionOf(s string) (v Value, ok bool) {
	parsed, err := semver.Parse(s)
	return Value{kind: versionValue, text: s, version: parsed}, err == nil
}

// QuantityOf is a quantity as a value; ok is false where it is none, or one that
// [CheckQuantity] refuses.
func QuantityOf(s string) (v Value, ok bool) {
	q, err := ParseQuantity(s)
	return Value{kind: quantityValue, text: s, amount: AmountOf(q)}, err == nil
}

// String is the value as it was written.
func (v Value) String() string { return v.text }

// Compare returns -1, 0 or +1. Values of different kinds, and lists, cannot be compared.
func (v Value) Compare(o Value) (order int, ok bool) {
	if v.kind != o.kind || v.kind == otherValue {
		return 0, false
	}
	switch v.kind {
	case textValue:
		return strings.Compare(v.text, o.text), true
	case versionValue:
		return v.version.Compare(o.version), true
	case quantityValue:
		return v.amount.Cmp(o.amount), true
	}
	return cmp.Compare(v.integer, o.integer), true
}
