// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCurrent compares the checked-in manifests with what the program writes today.
func TestCurrent(t *testing.T) {
	dir := t.TempDir()
	for name := range manifests {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := write(dir); err != nil {
		t.Fatal(err)
	}
	for name := range manifests {
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("examples/%s is not current, run `make gen` (-generated +checked in):\n%s", name, diff)
		}
	}
}
