// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"kerf.dev/kerf/dump"
)

// dumpFlags are the flags of kerf dump.
type dumpFlags struct {
	inputFlags
	partial bool
}

func (a *app) dumpCommand() *cobra.Command {
	f := &dumpFlags{inputFlags: inputFlags{app: a}}
	command := &cobra.Command{
		Use:   "dump [FILE]",
		Short: "Write everything that decides about devices to one file",
		Long: `Write nodes, slices, classes, taint rules, claims, templates, pods and namespaces
to one file, or to standard output. The other commands read it with -f.

Only what answers depend on is kept: no environment, command, volume or annotation
of a pod, no parameters of drivers. Names of nodes, pods and claims are kept.

The file appears, or replaces another, when all of it is written.`,
		Example: `  kerf dump dump.yaml
  kerf explain pod training-4 -f dump.yaml

  # One file of many manifests
  kerf dump -f manifests/ dump.yaml`,
		Args: atMostOne("FILE"),
		RunE: func(command *cobra.Command, args []string) error { return f.run(command.Context(), args) },
	}
	f.add(command)
	command.Flags().BoolVar(&f.partial, "partial", false, "write what can be read, even if some kinds or namespaces may not be listed; the dump says so")
	return command
}

func (f *dumpFlags) run(ctx context.Context, args []string) error {
	d, err := f.collect(ctx)
	if err != nil {
		return err
	}
	if len(args) == 0 || args[0] == "-" {
		text, err := d.Marshal()
		if err != nil {
			return &exitError{exitFailed, fmt.Errorf("encode the dump: %w", err)}
		}
		return writeRaw(f.Out, text)
	}
	if err := save(d, args[0]); err != nil {
		return err
	}
	say(f.ErrOut, "wrote %s: %d nodes, %d slices, %d claims, %d pods", args[0], len(d.Nodes), len(d.ResourceSlices), len(d.ResourceClaims), len(d.Pods))
	return nil
}

// collect reads files or the whole cluster.
func (f *dumpFlags) collect(ctx context.Context) (*dump.Dump, error) {
	in, err := f.read(ctx)
	if err != nil {
		return nil, err
	}
	if in.live && !f.partial {
		if err := in.refuse(func(dump.Gap) bool { return true }); err != nil {
			return nil, &exitError{exitFailed, fmt.Errorf("%w; or use --partial to write a dump that says what it lacks", err)}
		}
	}
	f.tellGaps(in)
	return in.dump, nil
}
