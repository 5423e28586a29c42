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
		Long: `Write one file with everything that decides about devices: nodes, slices, classes,
taint rules, quotas, claims, templates, pods and namespaces. The other commands
read it with -f. Without FILE the dump goes to standard output.

You can give a dump to somebody else. It has the names of nodes, pods and claims,
but no environment, command, volume or annotation of a pod, and no parameters of
drivers.

An existing file is replaced only when the dump is complete.`,
		Example: `  kerf dump dump.yaml
  kerf explain pod training-4 -f dump.yaml

  # One file of many manifests
  kerf dump -f manifests/ dump.yaml`,
		Args: atMostOne("FILE"),
		RunE: func(command *cobra.Command, args []string) error { return f.run(command.Context(), args) },
	}
	f.add(command)
	command.Flags().BoolVar(&f.partial, "partial", false, "write a dump even if you may not list some kinds or namespaces; the dump says what it lacks")
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
