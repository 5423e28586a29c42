// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package augment_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rogpeppe/go-internal/txtar"

	"kerf.dev/kerf/augment"
)

// Whatever a file holds, it is refused with a reason, or what it says can be
// written and read again, and used.
func FuzzParse(f *testing.F) {
	archive, err := txtar.ParseFile("testdata/faults.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range archive.Files {
		f.Add(file.Data)
	}
	f.Add([]byte(header + "- {select: {name: gpu-*}, add: {attributes: {a: {ints: [1, 2]}, b.c/d: {version: 1.0.0}}, taints: [{key: k, value: v, effect: None}]}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := augment.Parse("f.yaml", data)
		if err != nil {
			return
		}
		written, err := augment.Marshal(file.Documents()...)
		if err != nil {
			t.Fatalf("a good file cannot be written: %v", err)
		}
		again := parse(t, "f.yaml", string(written))
		if diff := cmp.Diff(file.Documents(), again.Documents(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("documents (-read +written and read):\n%s", diff)
		}
		augment.NewRules(file).Apply(file.Documents()[0].Driver, node())
	})
}
