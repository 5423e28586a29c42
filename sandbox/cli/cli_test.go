// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"kerf.dev/kerf/sandbox/cli"
)

// TestMain lets scripts run kerf-sandbox. Each run is a process of its own: a
// process can have one sandbox in its life.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"kerf-sandbox": func() { os.Exit(run()) },
		"silenced":     func() { os.Exit(silenced()) },
	})
}

// silenced silences os.Stderr, has everything collected that nobody can reach, and
// writes to os.Stderr and to descriptor 2.
func silenced() int {
	if err := cli.SilenceStderr(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// What a first collection finds is closed before a second one's witness is.
	for range 3 {
		collected := make(chan struct{})
		runtime.SetFinalizer(&[16]byte{}, func(*[16]byte) { close(collected) })
		runtime.GC()
		<-collected
	}
	fmt.Fprintln(os.Stderr, "a log line")
	if _, err := syscall.Write(syscall.Stderr, []byte("a panic\n")); err != nil {
		return 2
	}
	return 0
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
