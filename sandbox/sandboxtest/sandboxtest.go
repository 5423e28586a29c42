// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sandboxtest is what tests on a sandbox have in common: it ends with the test,
// and what it refuses ends the test.
package sandboxtest

import (
	"strings"
	"testing"
	"time"

	"kerf.dev/kerf/kube/manifest"
	"kerf.dev/kerf/sandbox"
	"kerf.dev/kerf/sandbox/cluster"
)

// Limit bounds waiting for something that is bound to come.
const Limit = 3 * time.Minute

// Start starts a sandbox in a directory of the test.
func Start(t *testing.T, options sandbox.Options) *sandbox.Sandbox {
	t.Helper()
	options.ParentDir = t.TempDir()
	s, err := sandbox.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Apply creates the objects of a manifest.
func Apply(t *testing.T, s *sandbox.Sandbox, text string) {
	t.Helper()
	set, err := manifest.Parse("test", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), set); err != nil {
		t.Fatal(err)
	}
}

// Settle waits until nothing moves, and expects nothing to be stuck.
func Settle(t *testing.T, s *sandbox.Sandbox) *cluster.State {
	t.Helper()
	settlement, err := s.Settle(t.Context(), Limit)
	if err != nil {
		t.Fatal(err)
	}
	if len(settlement.Stuck) > 0 {
		t.Errorf("stuck: %v", settlement.Stuck)
	}
	return settlement.State
}
