// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package core_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kerf.dev/kerf/scenario"
	"kerf.dev/kerf/scenario/core"
)

var update = flag.Bool("update", false, "rewrite the expected output in the stories")

// TestStories tells every story of scenarios/ that core can tell. One story:
//
//	go test ./scenario/core -run TestStories/whole-cards-stay-whole
func TestStories(t *testing.T) {
	files, err := filepath.Glob("../../scenarios/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no stories found")
	}
	for _, file := range files {
		story := parse(t, file)
		if !story.TellableOn("core") {
			continue
		}
		t.Run(strings.TrimSuffix(story.Name, ".txtar"), func(t *testing.T) {
			t.Parallel()
			report := story.Run(core.New())
			if *update {
				if err := os.WriteFile(file, report.Text, 0o644); err != nil {
					t.Fatal(err)
				}
				report.Differences = nil
			}
			if err := report.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}

func parse(t *testing.T, file string) *scenario.Story {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	story, err := scenario.Parse(filepath.Base(file), text)
	if err != nil {
		t.Fatal(err)
	}
	return story
}
