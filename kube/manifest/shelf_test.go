// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"strings"
	"testing"
)

const shelfDocument = "hosts: [{id: a}]\nblocks: [{id: gpu, count: 2}]\n"

func TestShelf(t *testing.T) {
	set, err := Parse("shelf.yaml", strings.NewReader(shelfDocument+"---\napiVersion: v1\nkind: Node\nmetadata: {name: a}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if set.Shelf == nil || len(set.Shelf.Blocks) != 2 || len(set.Objects) != 1 || !set.NeedsFabric() {
		t.Errorf("shelf %+v and %d objects, want two blocks and one object", set.Shelf, len(set.Objects))
	}
	for name, tc := range map[string]struct{ text, want string }{
		"two shelves":   {shelfDocument + "---\n" + shelfDocument, "is a second shelf: there is one in shelf.yaml:1"},
		"bad shelf":     {"hosts: []\nblocks: []\n", "is a shelf, see kerf-redfish: hosts: there is none"},
		"unknown field": {shelfDocument + "colour: red\n", "colour"},
		"no shelf":      {"hosts: []\n", "apiVersion"},
	} {
		_, err := Parse("shelf.yaml", strings.NewReader(tc.text))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// TestFabricKinds: a Fabric needs no definition in the input.
func TestFabricKinds(t *testing.T) {
	set, err := Parse("fabric.yaml", strings.NewReader("apiVersion: fabric.kerf.dev/v1alpha1\nkind: Fabric\nmetadata: {name: a}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := set.CheckComplete(); err != nil || !set.NeedsFabric() {
		t.Errorf("%v, needs a fabric: %t", err, set.NeedsFabric())
	}
}
