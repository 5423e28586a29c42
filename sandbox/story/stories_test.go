// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package story_test

import (
	"errors"
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"kerf.dev/kerf/sandbox"
	"kerf.dev/kerf/sandbox/sandboxtest"
	"kerf.dev/kerf/sandbox/story"
	"kerf.dev/kerf/scenario"
)

var update = flag.Bool("update", false, "rewrite the expected output in the stories")

// TestStories tells every story of scenarios/ that a sandbox can tell, one after
// the other on one control plane. One story:
//
//	go test ./sandbox/story -run TestStories/whole-cards-stay-whole
func TestStories(t *testing.T) {
	files, err := filepath.Glob("../../scenarios/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no stories found")
	}
	s := sandboxtest.Start(t, sandbox.Options{})
	for _, file := range files {
		told, err := story.Load(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if !told.TellableOn("sandbox") {
			continue
		}
		t.Run(strings.TrimSuffix(told.Name, ".txtar"), func(t *testing.T) {
			if err := story.File(t.Context(), s, file, *update); err != nil {
				t.Error(err)
			}
		})
	}
	for _, ending := range endings {
		t.Run("after one that ends with "+ending, func(t *testing.T) { afterEnding(t, s, ending) })
	}
}

// endings are ways to leave a sandbox in which nothing can be scheduled, or attached.
var endings = []string{
	"kill scheduler",
	"disconnect scheduler",
	"fabric f of gpu.example.com\nkill controller",
	"fabric f of gpu.example.com\ndisconnect controller",
}

// afterEnding expects a story to be told as ever after one with this ending.
func afterEnding(t *testing.T, s *sandbox.Sandbox, ending string) {
	const setting = "# Test.\n# Source: none.\nonly sandbox because core has no parts\nnode n1\nshelf n1 attach 100ms\n  device d0\n"
	for _, script := range []string{ending, "fabric f of gpu.example.com\nawait offered 1 devices\npod p\nexpect pod p on n1\n"} {
		told, err := scenario.Parse("s.txtar", []byte(setting+script+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		report, err := story.Run(t.Context(), s, told)
		if err := errors.Join(err, report.Err()); err != nil {
			t.Errorf("%s: %v", script, err)
		}
	}
}
