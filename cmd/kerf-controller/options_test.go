// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBadInput has each mistake be one error that names the flag, before anything
// is reached.
func TestBadInput(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(broken, []byte("clusters: 3"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"now"}, `unexpected argument "now"`},
		{[]string{"--nope"}, "unknown flag: --nope"},
		{[]string{"--leader-elect=maybe"}, "leader-elect"},
		{[]string{"--metrics-bind-address=8443"}, "--metrics-bind-address"},
		{[]string{"--health-probe-bind-address=:99999"}, `port "99999"`},
		{[]string{"--metrics-bind-address=:0"}, "port 0"},
		{[]string{"--kubeconfig=/does/not/exist"}, "--kubeconfig"},
		{[]string{"--kubeconfig=" + broken}, "--kubeconfig"},
	} {
		cmd := newCommand()
		cmd.SetArgs(tc.args)
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		err := cmd.Execute()
		if input := (*inputError)(nil); !errors.As(err, &input) {
			t.Errorf("%v: error %v, want one of the input", tc.args, err)
			continue
		}
		if !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v: error %q, want %q in it", tc.args, err, tc.want)
		}
	}
}

// TestOnlyLoopback has nothing be reachable from elsewhere unless asked for.
func TestOnlyLoopback(t *testing.T) {
	flags := newCommand().Flags()
	for _, flag := range []string{"metrics-bind-address", "health-probe-bind-address"} {
		if value := flags.Lookup(flag).DefValue; !strings.HasPrefix(value, "127.0.0.1:") {
			t.Errorf("--%s is %s, want an address of loopback", flag, value)
		}
	}
}
