// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package story

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"kerf.dev/kerf/sandbox"
	"kerf.dev/kerf/scenario"
)

// Run tells a story in an empty cluster and leaves an empty one. The error is
// for the sandbox; what the story did not expect is in the report.
func Run(ctx context.Context, s *sandbox.Sandbox, story *scenario.Story) (scenario.Report, error) {
	if err := Clear(ctx, s); err != nil {
		return scenario.Report{}, err
	}
	return story.Run(newBackend(ctx, s)), Clear(ctx, s)
}

// File tells the story in a file. With update, it writes the output that the
// story's verbs had into the file instead of comparing it.
func File(ctx context.Context, s *sandbox.Sandbox, path string, update bool) error {
	story, err := Load(path)
	if err != nil {
		return err
	}
	if !story.TellableOn(backendName) {
		return fmt.Errorf("%s: only %s can tell it, because %s", path, story.Only, story.Because)
	}
	report, err := Run(ctx, s, story)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if update {
		if err := os.WriteFile(path, report.Text, 0o644); err != nil {
			return err
		}
		report.Differences = nil
	}
	return report.Err()
}

// Load reads and parses a story.
func Load(path string) (*scenario.Story, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return scenario.Parse(filepath.Base(path), text)
}
