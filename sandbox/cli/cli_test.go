// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"kerf.dev/kerf/sandbox/cli"
)

// TestMain lets scripts run kerf-sandbox. Each run is a process of its own: a
// process can have one sandbox in its life.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"kerf-sandbox": func() { os.Exit(run()) }})
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	streams, err := cli.StandardStreams()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return -1
	}
	return cli.Main(ctx, os.Args[1:], streams)
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata", Cmds: commands})
}
