// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"reflect"
	"testing"
)

// TestReadersCannotChangeTheState: who works something out about a state sees it as a
// position, which has no method that leaves a change behind.
func TestReadersCannotChangeTheState(t *testing.T) {
	changing := reflect.TypeFor[*state]()
	for _, reader := range []any{bounds{}, memory{}, scales{}, division{}, harvest{}, holders{}, packer{}} {
		for at := range reflect.TypeOf(reader).NumField() {
			field := reflect.TypeOf(reader).Field(at)
			if field.Type == changing || field.Type == reflect.TypeFor[*search]() {
				t.Errorf("%T.%s is a %v: make it a position", reader, field.Name, field.Type)
			}
		}
	}
	seen := reflect.TypeFor[position]()
	for _, name := range []string{"take", "undo", "choose", "ban", "draw", "limit", "lookOut", "narrow", "mark"} {
		if _, found := seen.MethodByName(name); found {
			t.Errorf("position.%s: a position cannot be changed", name)
		}
	}
}

// TestNothingIsEmbeddedTwice: a field or a method is that of the type itself or of the one
// that it embeds, so that a reader of s.free knows whose it is.
func TestNothingIsEmbeddedTwice(t *testing.T) {
	for _, one := range []any{
		search{}, state{}, board{}, Problem{}, field{}, sight{}, ask{}, bounds{}, memory{}, scales{}, explainer{},
		walker{}, packer{}, harvest{}, holders{}, division{}, minimizer{}, answer{},
	} {
		if depth := embedded(reflect.TypeOf(one)); depth > 1 {
			t.Errorf("%T embeds types %d levels deep, want one at most: name the inner ones", one, depth)
		}
	}
}

// embedded is how many levels deep a type embeds others.
func embedded(t reflect.Type) int {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	depth := 0
	for at := range t.NumField() {
		if field := t.Field(at); field.Anonymous {
			depth = max(depth, 1+embedded(field.Type))
		}
	}
	return depth
}
