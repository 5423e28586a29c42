// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kerf-sandbox runs a Kubernetes cluster with kerf and simulated nodes
// in one process.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"kerf.dev/kerf/sandbox/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx))
}

func run(ctx context.Context) int {
	streams, err := cli.StandardStreams()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 3
	}
	return cli.Main(ctx, os.Args[1:], streams)
}
