// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line of kerf-redfish.
//
// Exit codes: 0 it served until it was interrupted, 2 bad input, 3 it could not serve.
//
// The password comes from a file or the environment, never from an argument, which everybody on the machine can read.
// It is printed nowhere.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes; see the package documentation.
const (
	exitComplete = 0
	exitBadInput = 2
	exitFailed   = 3
)

// failure is an error that is not the user's.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// Process is what the command has of its process.
type Process struct {
	Out, Err io.Writer
	Getenv   func(string) string
}

// say writes a line for the user. There is nobody to tell when that fails.
func say(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, format+"\n", args...)
}

// Main runs the command line and returns the exit code. Cancelling the context ends the service.
func Main(ctx context.Context, args []string, process Process) int {
	command := newCommand(process)
	command.SetArgs(args)
	command.SetOut(process.Out)
	command.SetErr(process.Err)
	err := command.ExecuteContext(ctx)
	if err == nil {
		return exitComplete
	}
	say(process.Err, "error: %s", strings.TrimSpace(err.Error()))
	if errors.As(err, &failure{}) {
		return exitFailed
	}
	return exitBadInput
}

const (
	usernameVariable = "KERF_REDFISH_USERNAME"
	passwordVariable = "KERF_REDFISH_PASSWORD"
)

func newCommand(process Process) *cobra.Command {
	o := &options{process: process}
	command := &cobra.Command{
		Use:   "kerf-redfish --config FILE",
		Short: "A simulated Redfish fabric manager",
		Long: `kerf-redfish plays the manager of a PCIe/CXL fabric. It serves DMTF Redfish: systems
(the hosts) and resource blocks (the devices) that clients attach to them. Nothing
is real; a file describes hosts and devices:

  hosts:
  - id: host-a
  - id: host-b
  blocks:
  - id: gpu        # gpu-1 to gpu-4
    count: 4
    manufacturer: Acme
    model: A100
    memoryMiB: 40960
  latency: {attach: 2s, detach: 1s}
  tasks: true      # answer 202 and a task monitor

Clients log in with a user name (--username or ` + usernameVariable + `) and a
password (--password-file or ` + passwordVariable + `).

The service prints what each host sees whenever that changes. With --admin-listen
you can make requests fail while it runs: see docs/redfish.md for the faults.

Exit codes:
  0  it served until it was interrupted
  2  bad input
  3  it could not serve`,
		Example: `  # Serve on 127.0.0.1:8443 with a certificate of its own
  KERF_REDFISH_PASSWORD=... kerf-redfish --config shelf.yaml --username kerf

  # Remember over a restart what is attached, and let faults be scripted
  kerf-redfish --config shelf.yaml --username kerf --password-file password \
    --state state.json --admin-listen 127.0.0.1:8444

  # In another terminal: the next attach of gpu-1 loses its reply
  curl -H 'Content-Type: application/json' http://127.0.0.1:8444/faults \
    -d '{"kind": "lostReply", "operation": "attach", "block": "gpu-1"}'
  curl http://127.0.0.1:8444/hosts`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(command *cobra.Command, _ []string) error { return o.run(command.Context()) },
	}
	flags := command.Flags()
	flags.StringVar(&o.config, "config", "", "description of hosts and devices, YAML or JSON (required)")
	flags.StringVar(&o.listen, "listen", "127.0.0.1:8443", "address and port to serve Redfish on")
	flags.StringVar(&o.certFile, "tls-cert", "", "certificate to serve with, PEM; with --tls-key")
	flags.StringVar(&o.keyFile, "tls-key", "", "its key, PEM")
	flags.StringVar(&o.caFile, "ca-file", "kerf-redfish-ca.crt", "where to write the authority that clients have to trust, if there is no --tls-cert")
	flags.StringVar(&o.username, "username", "", "user name of the clients (or "+usernameVariable+")")
	flags.StringVar(&o.passwordFile, "password-file", "", "file with their password (or the password in "+passwordVariable+")")
	flags.StringVar(&o.stateFile, "state", "", "file that keeps what is attached over a restart")
	flags.StringVar(&o.adminListen, "admin-listen", "", "loopback address and port to script faults on, without credentials; empty: none")
	return command
}
