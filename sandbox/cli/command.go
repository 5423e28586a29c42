// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"kerf.dev/kerf/kube/manifest"
	"kerf.dev/kerf/kube/rules"
	"kerf.dev/kerf/sandbox"
)

// Exit codes; see the package documentation.
const (
	exitComplete = 0
	exitPending  = 1
	exitBadInput = 2
	exitFailed   = 3
)

// exitError ends the command with a code. What is to be said has been said
// unless there is an error.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// Main runs the command line and returns the exit code. Cancelling the context
// shuts the sandbox down.
func Main(ctx context.Context, args []string, streams Streams) int {
	command := newCommand(streams)
	command.SetArgs(args)
	command.SetIn(streams.In)
	command.SetOut(streams.Out)
	command.SetErr(streams.Err)
	err := command.ExecuteContext(ctx)
	if err == nil {
		return exitComplete
	}
	code := exitBadInput // What cobra itself finds is wrong with the flags.
	var exit *exitError
	if errors.As(err, &exit) {
		code, err = exit.code, exit.err
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = errors.New("interrupted")
	}
	if err != nil {
		say(streams.Err, "error: %s", strings.TrimSpace(err.Error()))
	}
	return code
}

// interrupted is the error of something that was going on when the context was
// cancelled: whatever went wrong then went wrong because of that.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// say writes a line for the user. There is nobody to tell when that fails.
func say(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, format+"\n", args...)
}

func newCommand(streams Streams) *cobra.Command {
	command := &cobra.Command{
		Use:   "kerf-sandbox",
		Short: "A Kubernetes cluster with kerf and simulated nodes, in one process",
		Long: `kerf-sandbox starts a Kubernetes cluster in one process, in seconds and without a
container: etcd, kube-apiserver, the controllers, kube-scheduler with the Kerf
plugin, and simulated nodes. All feature gates of Dynamic Resource Allocation
are on.

Your manifests say which nodes and devices exist. No image is pulled and nothing
runs: a pod counts as running as soon as it has a node and its devices, and stays
so until it is deleted. Annotations of the pod change that:

  kerf.dev/run-for=5s      the pod succeeds after this time
  kerf.dev/exit-code=1     with run-for: the pod fails instead
  kerf.dev/stop-after=3s   the containers take this long to stop after a deletion

Exit codes:
  0  all pods are placed
  1  something is pending, or did not finish in time
  2  bad input
  3  the sandbox itself failed or was interrupted`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	command.AddCommand(newRunCommand(streams), newUpCommand(streams))
	return command
}

// clusterFlags are the flags of all commands that start a sandbox.
type clusterFlags struct {
	files     []string
	nodes     int
	verbose   bool
	verbosity int
}

func (f *clusterFlags) add(command *cobra.Command) {
	flags := command.Flags()
	flags.StringSliceVarP(&f.files, "filename", "f", nil, `manifests: files, directories, or "-" for standard input`)
	flags.IntVar(&f.nodes, "nodes", 0, "also create this many simulated nodes without devices, node-1 to node-N, with plenty of cpu and memory")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "show the logs of the embedded components on standard error")
	flags.IntVar(&f.verbosity, "verbosity", 0, "how verbose these logs are, like -v of Kubernetes' components")
}

// load reads and checks the manifests in the flags and arguments.
func (f *clusterFlags) load(ctx context.Context, streams Streams, args []string) (*manifest.Set, error) {
	if f.nodes < 0 {
		return nil, &exitError{exitBadInput, fmt.Errorf("--nodes is %d, want 0 or more", f.nodes)}
	}
	set, err := manifest.Load(streams.In, append(args, f.files...)...)
	if err == nil {
		err = set.CheckComplete()
	}
	if err == nil {
		err = rules.Check(ctx, set)
	}
	if err != nil {
		return nil, badInput(streams, err)
	}
	return set, nil
}

// badInput prints mistakes in manifests, a line or more each. Any other error
// is a failure.
func badInput(streams Streams, err error) error {
	mistakes, ok := err.(manifest.Errors) //nolint:errorlint // Joined with another error, it is a failure.
	if !ok {
		return &exitError{exitFailed, err}
	}
	for _, mistake := range mistakes {
		say(streams.Err, "error: %s", strings.ReplaceAll(strings.TrimSpace(mistake.Error()), "\n", "\n  "))
	}
	return &exitError{code: exitBadInput}
}

// start starts the sandbox and applies the manifests.
func (f *clusterFlags) start(ctx context.Context, streams Streams, set *manifest.Set) (*sandbox.Sandbox, error) {
	options := sandbox.Options{
		Nodes:     f.nodes,
		Verbosity: f.verbosity,
		Progress:  func(step string) { say(streams.Err, "%s", step) },
	}
	if f.verbose {
		options.Log = streams.Err
	} else if streams.silence != nil {
		if err := streams.silence(); err != nil {
			return nil, &exitError{exitFailed, err}
		}
	}
	s, err := sandbox.Start(ctx, options)
	if err != nil {
		return nil, &exitError{exitFailed, err}
	}
	say(streams.Err, "ready after %.1f s, applying %d objects", s.TimeToReady().Seconds(), len(set.Objects))
	if err := interrupted(ctx, s.Apply(ctx, set)); err != nil {
		if stopErr := s.Stop(); stopErr != nil {
			err = errors.Join(err, stopErr)
		}
		return nil, badInput(streams, err)
	}
	return s, nil
}
