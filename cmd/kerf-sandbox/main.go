// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kerf-sandbox runs a Kubernetes cluster with kerf and simulated nodes
// in one process.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"kerf.dev/kerf/sandbox/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	code := cli.Main(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	stop()
	os.Exit(code)
}
