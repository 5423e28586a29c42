// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"kerf.dev/kerf/inventory"
)

// Check finds the amounts that a decoder into this type, such as *v1.Pod, must not see, by field.
func (d *Document) Check(into any) []*Fault {
	return CheckContent(d.Content, d.Lines, into)
}

// CheckContent is [Document.Check] for a part of a document, with the lines of that part.
func CheckContent(content any, lines Lines, into any) []*Fault {
	c := checker{lines: lines, holding: map[reflect.Type]bool{}, fields: map[reflect.Type]map[string]reflect.Type{}}
	c.check("", content, reflect.TypeOf(into))
	return c.faults
}

// checker walks through content and type at the same time.
type checker struct {
	lines  Lines
	faults []*Fault
	// holding are the types that have a quantity somewhere, or do not, fields the fields of those that do.
	holding map[reflect.Type]bool
	fields  map[reflect.Type]map[string]reflect.Type
}

var (
	quantity = reflect.TypeFor[resource.Quantity]()
	// text is a quantity that is not parsed when it is decoded, but will be.
	text = reflect.TypeFor[interface{ QuantityText() string }]()
)

func isQuantity(t reflect.Type) bool { return t == quantity || t.Implements(text) }

func (c *checker) check(path string, content any, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if isQuantity(t) {
		c.amount(path, content)
		return
	}
	if !c.holds(t) {
		return
	}
	switch value := content.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if inner := c.inside(t, key); inner != nil {
				c.check(Key(path, key), value[key], inner)
			}
		}
	case []any:
		if t.Kind() != reflect.Slice && t.Kind() != reflect.Array {
			return
		}
		for i, item := range value {
			c.check(Item(path, i), item, t.Elem())
		}
	}
}

// amount checks a quantity. A number is checked as it was written: what it is rounded to, 0 for 1e-999999999, was not
// meant.
func (c *checker) amount(path string, content any) {
	text, ok := content.(string)
	if !ok {
		text = c.lines.raw(path)
	}
	if err := inventory.CheckQuantity(text); err != nil {
		c.faults = append(c.faults, &Fault{Line: c.lines.Line(path), Field: path, Problem: err.Error()})
	}
}

// inside is the type of the value with that key in a struct or map, nil if nothing is to be found in it. Decoders
// that do not care about case read a field that is spelt otherwise.
func (c *checker) inside(t reflect.Type, key string) reflect.Type {
	switch t.Kind() {
	case reflect.Map:
		return t.Elem()
	case reflect.Struct:
		return c.fieldsOf(t)[strings.ToLower(key)]
	default:
		return nil
	}
}

// fieldsOf are the fields of a struct in JSON, by name in lower case.
func (c *checker) fieldsOf(t reflect.Type) map[string]reflect.Type {
	if known := c.fields[t]; known != nil {
		return known
	}
	fields := map[string]reflect.Type{}
	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" && field.Anonymous || !field.IsExported() {
			continue // What is embedded is among the visible fields.
		}
		if name == "" {
			name = field.Name
		}
		fields[strings.ToLower(name)] = field.Type
	}
	c.fields[t] = fields
	return fields
}

// holds reports whether a value of the type may have a quantity.
func (c *checker) holds(t reflect.Type) bool {
	if known, ok := c.holding[t]; ok {
		return known
	}
	c.holding[t] = true // What contains itself may, which costs a look more.
	found := isQuantity(t)
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		found = c.holds(t.Elem())
	case reflect.Struct:
		for _, inner := range c.fieldsOf(t) {
			found = found || c.holds(inner)
		}
	default:
	}
	c.holding[t] = found
	return found
}
