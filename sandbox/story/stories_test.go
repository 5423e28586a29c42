// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package story_test

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"kerf.dev/kerf/sandbox"
	"kerf.dev/kerf/sandbox/story"
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
	s, err := sandbox.Start(t.Context(), sandbox.Options{ParentDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}()
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
}
