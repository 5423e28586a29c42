// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"kerf.dev/kerf/cluster"
	"kerf.dev/kerf/selector"
	"kerf.dev/kerf/show"
	"kerf.dev/kerf/simulate"
)

// TestInterruptReading reads standard input that never ends.
func TestInterruptReading(t *testing.T) {
	in, writer := io.Pipe()
	defer func() { _ = writer.Close() }()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var stderr bytes.Buffer
	streams := genericiooptions.IOStreams{In: in, Out: io.Discard, ErrOut: &stderr}
	if code := Main(ctx, "kerf", []string{"devices", "-f", "-"}, streams); code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
	if got := stderr.String(); got != "error: interrupted\n" {
		t.Errorf("stderr %q", got)
	}
}

// TestInterruptPlacing expects that no pod is placed once the context has ended.
func TestInterruptPlacing(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	w := &show.World{World: simulate.NewWorld(&cluster.Objects{}, simulate.Options{Matcher: selector.New()})}
	report, err := placeAll(ctx, w, []*v1.Pod{{}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("report %v, error %v, want %v", report, err, context.Canceled)
	}
}

// TestRefusesPipes has a pipe among the files of a directory, which nobody writes
// to.
func TestRefusesPipes(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := readManifests(t.Context(), nil, []string{dir})
	if err == nil || !strings.HasSuffix(err.Error(), "pipe.yaml: is not a regular file; move it elsewhere") {
		t.Errorf("error %v", err)
	}
}

// TestReplace replaces a file, and fails to replace a directory. Nothing else is
// left beside them.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "dump.yaml")
	if err := os.WriteFile(file, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := replace(file, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o640 {
		t.Errorf("mode %o, want that of the old file", mode)
	}
	// A directory in its place cannot be renamed over.
	taken := filepath.Join(dir, "taken")
	if err := os.Mkdir(taken, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := replace(taken, []byte("new"), 0o600); err == nil {
		t.Error("a directory was replaced")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 2 {
		t.Errorf("got %d entries, want 2: %v", len(entries), entries)
	}
}
