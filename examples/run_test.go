// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package examples

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestRun runs every example as its README says, on an embedded control plane of its own: all pods are placed.
func TestRun(t *testing.T) {
	sandbox := filepath.Join(t.TempDir(), "kerf-sandbox")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", sandbox, "kerf.dev/kerf/cmd/kerf-sandbox").CombinedOutput(); err != nil {
		t.Fatalf("build kerf-sandbox: %v\n%s", err, out)
	}
	for _, dir := range exampleDirs(t) {
		t.Run(dir, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), sandbox, "run", "-o", "json", dir)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s\n%s", err, stdout.String(), stderr.String())
			}
			var report struct {
				Summary struct{ Placed, Pending int }
			}
			if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
				t.Fatalf("decode the report: %v\n%s", err, stdout.String())
			}
			if report.Summary.Placed == 0 || report.Summary.Pending != 0 {
				t.Errorf("%d placed, %d pending, want all placed", report.Summary.Placed, report.Summary.Pending)
			}
		})
	}
}
