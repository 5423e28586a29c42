// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"kerf.dev/kerf/dump"
	"kerf.dev/kerf/kube/manifest"
)

// Exit codes; see the package documentation.
const (
	exitDone     = 0
	exitFindings = 1
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

// badInput is an error that the user can correct.
func badInput(format string, args ...any) error {
	return &exitError{exitBadInput, fmt.Errorf(format, args...)}
}

// Main runs the command line and returns the exit code. The program's name
// decides whether help speaks of kerf or of kubectl kerf.
func Main(ctx context.Context, program string, args []string, streams genericiooptions.IOStreams) (code int) {
	defer func() {
		if bug := recover(); bug != nil {
			say(streams.ErrOut, "error: kerf itself failed, please report it: %v\n%s", bug, debug.Stack())
			code = exitFailed
		}
	}()
	command := newCommand(program, streams)
	command.SetArgs(args)
	err := command.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	code = exitBadInput // What cobra itself finds is wrong with the flags.
	var exit *exitError
	if errors.As(err, &exit) {
		code, err = exit.code, exit.err
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		code, err = exitFailed, errors.New("interrupted")
	}
	tell(streams.ErrOut, err)
	return code
}

// tell prints an error; mistakes in files one by one.
func tell(w io.Writer, err error) {
	var mistakes manifest.Errors
	switch {
	case err == nil:
	case errors.As(err, &mistakes):
		for _, mistake := range mistakes {
			say(w, "error: %s", strings.ReplaceAll(strings.TrimSpace(mistake.Error()), "\n", "\n  "))
		}
	default:
		say(w, "error: %s", strings.TrimSpace(err.Error()))
	}
}

// say writes a line for the user. There is nobody to tell when that fails.
func say(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintln(w, printable(fmt.Sprintf(format, args...)))
}

// version is that of the module, and what decides whether two builds understand
// each other: the API and the format of dumps.
func version() string {
	version, api := "unknown", "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" {
			version = info.Main.Version
		}
		for _, dependency := range info.Deps {
			if dependency.Path == "k8s.io/api" {
				api = dependency.Version
			}
		}
	}
	return fmt.Sprintf("%s (k8s.io/api %s, dumps of %s)", version, api, dump.APIVersion)
}

// app is what all commands share.
type app struct {
	genericiooptions.IOStreams
	config *genericclioptions.ConfigFlags
}

func newCommand(program string, streams genericiooptions.IOStreams) *cobra.Command {
	a := &app{IOStreams: streams, config: genericclioptions.NewConfigFlags(true)}
	command := &cobra.Command{
		Use:   "kerf",
		Short: "See devices, and why pods wait for them",
		Long: `kerf shows the devices of Dynamic Resource Allocation (DRA). It says why a pod got
its devices or waits for them, finds mistakes in what drivers publish, and tries
out where new pods would go. It never writes to the cluster.

kerf reads the cluster of the kubeconfig. With -f it reads files instead: a dump
of a cluster (see kerf dump), or plain manifests.

Exit codes:
  0  done
  1  lint: errors found; simulate: a pod does not fit
  2  bad input
  3  the cluster cannot be read, or you may not list what the answer needs`,
		Version:           version(),
		Args:              cobra.NoArgs,
		RunE:              func(command *cobra.Command, _ []string) error { return command.Help() },
		SilenceUsage:      true,
		SilenceErrors:     true,
		DisableAutoGenTag: true,
	}
	if strings.HasPrefix(filepath.Base(program), "kubectl-") {
		command.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl kerf"}
	}
	command.SetIn(streams.In)
	command.SetOut(streams.Out)
	command.SetErr(streams.ErrOut)
	a.config.AddFlags(command.PersistentFlags())
	command.AddCommand(a.devicesCommand(), a.explainCommand(), a.lintCommand(), a.dumpCommand(), a.simulateCommand())
	command.SetFlagErrorFunc(flagError)
	command.SetVersionTemplate("{{.DisplayName}} version {{.Version}}\n")
	refuseUnknown(command)
	return command
}

// namespace is that of -n, else the kubeconfig's. Without a cluster it is
// default.
func (a *app) namespace(offline bool) (string, error) {
	if !offline {
		if err := a.checkConfigFlags(); err != nil {
			return "", err
		}
	}
	if a.config.Namespace != nil && *a.config.Namespace != "" {
		return *a.config.Namespace, nil
	}
	if offline {
		return "default", nil
	}
	namespace, _, err := a.config.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", &exitError{exitFailed, fmt.Errorf("read the kubeconfig: %w", err)}
	}
	return namespace, nil
}
