// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kerf-redfish serves a simulated Redfish fabric manager: hosts, and
// devices that can be attached to them.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"kerf.dev/kerf/fabric/redfish/service/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Main(ctx, os.Args[1:], cli.Process{Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv}))
}
