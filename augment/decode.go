// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package augment

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"go.yaml.in/yaml/v3"
)

// decoder reads one document and remembers the line of each field. It takes the
// YAML apart by itself because a message with the field, its line and its fix is
// worth more than a decoder that reads every type.
type decoder struct {
	lines  map[string]int
	faults []fault
}

func (d *decoder) fail(node *yaml.Node, field, problem, fix string) {
	d.faults = append(d.faults, fault{node.Line, field, problem, fix})
}

func (d *decoder) document(node *yaml.Node) (doc Document) {
	d.lines[""] = node.Line
	for _, e := range d.mapping(node, "", "apiVersion", "kind", "driver", "rules") {
		switch e.key {
		case "apiVersion":
			doc.APIVersion = d.text(e)
		case "kind":
			doc.Kind = d.text(e)
		case "driver":
			doc.Driver = d.text(e)
		case "rules":
			for _, item := range d.sequence(e) {
				doc.Rules = append(doc.Rules, d.rule(item))
			}
		}
	}
	return doc
}

func (d *decoder) rule(at entry) (rule Rule) {
	for _, e := range d.mapping(at.value, at.field, "select", "add") {
		switch e.key {
		case "select":
			rule.Select = d.selector(e)
		case "add":
			rule.Add = d.addition(e)
		}
	}
	return rule
}

func (d *decoder) selector(at entry) (s Selector) {
	for _, e := range d.mapping(at.value, at.field, "pool", "name", "attributes") {
		switch e.key {
		case "pool":
			s.Pool = d.pattern(e)
		case "name":
			s.Name = d.pattern(e)
		case "attributes":
			s.Attributes = d.attributes(e)
		}
	}
	return s
}

// pattern reads a text that selects everything if it is left out, which an empty
// one must not do by accident.
func (d *decoder) pattern(e entry) string {
	pattern := d.text(e)
	if pattern == "" && e.value.ShortTag() == "!!str" {
		d.fail(e.value, e.field, "is empty", `write a name or a pattern, or leave the field out`)
	}
	return pattern
}

func (d *decoder) addition(at entry) (a Addition) {
	for _, e := range d.mapping(at.value, at.field, "attributes", "taints") {
		switch e.key {
		case "attributes":
			a.Attributes = d.attributes(e)
		case "taints":
			for _, item := range d.sequence(e) {
				a.Taints = append(a.Taints, d.taint(item))
			}
		}
	}
	return a
}

func (d *decoder) taint(at entry) (t resourceapi.DeviceTaint) {
	for _, e := range d.mapping(at.value, at.field, "key", "value", "effect") {
		switch e.key {
		case "key":
			t.Key = d.text(e)
		case "value":
			t.Value = d.text(e)
		case "effect":
			t.Effect = resourceapi.DeviceTaintEffect(d.text(e))
		}
	}
	return t
}

func (d *decoder) attributes(at entry) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	attributes := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
	for _, e := range d.mapping(at.value, at.field) {
		attributes[resourceapi.QualifiedName(e.key)] = d.attribute(e)
	}
	return attributes
}

func (d *decoder) attribute(at entry) (a resourceapi.DeviceAttribute) {
	if at.value.Kind == yaml.ScalarNode {
		d.fail(at.value, at.field, "has no type", "write it as in a ResourceSlice, such as {string: abc} or {int: 1}")
		return a
	}
	for _, e := range d.mapping(at.value, at.field, "int", "bool", "string", "version", "ints", "bools", "strings", "versions") {
		switch e.key {
		case "int":
			a.IntValue = new(d.int(e))
		case "bool":
			a.BoolValue = new(d.bool(e))
		case "string":
			a.StringValue = new(d.text(e))
		case "version":
			a.VersionValue = new(d.text(e))
		case "ints":
			a.IntValues = list(d.sequence(e), d.int)
		case "bools":
			a.BoolValues = list(d.sequence(e), d.bool)
		case "strings":
			a.StringValues = list(d.sequence(e), d.text)
		case "versions":
			a.VersionValues = list(d.sequence(e), d.text)
		}
	}
	return a
}

// list is never nil: an empty list is there, and wrong.
func list[T any](items []entry, read func(entry) T) []T {
	values := make([]T, len(items))
	for i, e := range items {
		values[i] = read(e)
	}
	return values
}

// entry is a field, or an item of a list, and its value.
type entry struct {
	key   string
	field string // path from the root of the document
	value *yaml.Node
}

// mapping returns the entries of a mapping. With known keys, others are faults
// and left out, and the path of an entry is written with a dot; without, all keys
// are welcome and written in brackets.
func (d *decoder) mapping(node *yaml.Node, field string, known ...string) []entry {
	if node.Kind != yaml.MappingNode {
		d.fail(node, field, "is "+kindOf(node)+", not a mapping", "write key: value pairs")
		return nil
	}
	var entries []entry
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
			d.fail(key, field, "has a key that is "+kindOf(key), "put the key in quotes, and write out what anchors and << stand for")
			continue
		}
		e := entry{key.Value, strings.TrimPrefix(field+"."+key.Value, "."), node.Content[i+1]}
		if len(known) == 0 {
			e.field = field + "[" + key.Value + "]"
		}
		switch {
		case seen[key.Value]:
			d.fail(key, e.field, "is given twice", "remove one")
			continue
		case len(known) > 0 && !slices.Contains(known, key.Value):
			d.fail(key, e.field, "is not known", "use "+strings.Join(known, ", "))
			continue
		}
		seen[key.Value] = true
		d.lines[e.field] = key.Line
		entries = append(entries, e)
	}
	return entries
}

func (d *decoder) sequence(at entry) []entry {
	if at.value.Kind != yaml.SequenceNode {
		d.fail(at.value, at.field, "is "+kindOf(at.value)+", not a list", "write a list")
		return nil
	}
	items := make([]entry, len(at.value.Content))
	for i, node := range at.value.Content {
		items[i] = entry{"", fmt.Sprintf("%s[%d]", at.field, i), node}
		d.lines[items[i].field] = node.Line
	}
	return items
}

func (d *decoder) text(e entry) string {
	if e.value.Kind != yaml.ScalarNode || e.value.ShortTag() != "!!str" {
		d.fail(e.value, e.field, "is "+kindOf(e.value)+", not a text", "write a text, in quotes if it looks like a number, a date or a truth value")
		return ""
	}
	return e.value.Value
}

func (d *decoder) int(e entry) (n int64) {
	if e.value.ShortTag() != "!!int" || e.value.Decode(&n) != nil {
		d.fail(e.value, e.field, "is "+kindOf(e.value)+", not a whole number of 64 bits", "write a number such as 42, without quotes")
	}
	return n
}

func (d *decoder) bool(e entry) (b bool) {
	if e.value.ShortTag() != "!!bool" || e.value.Decode(&b) != nil {
		d.fail(e.value, e.field, "is "+kindOf(e.value)+", not a truth value", "write true or false, without quotes")
	}
	return b
}

// kindOf says in words what a node is. Aliases are among what is refused: a file
// cannot grow beyond its size.
func kindOf(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch tag := node.ShortTag(); tag {
	case "!!null":
		return "empty"
	case "!!str":
		return fmt.Sprintf("the text %q", node.Value)
	case "!!int", "!!float":
		return "the number " + node.Value
	case "!!bool":
		return "the truth value " + node.Value
	default:
		return "of type " + tag
	}
}
