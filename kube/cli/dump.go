// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

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
of a pod, no parameters of drivers. Names of nodes, pods and claims are kept.`,
		Example: `  kerf dump dump.yaml
  kerf explain pod training-4 -f dump.yaml

  # One file of many manifests
  kerf dump -f manifests/ dump.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error { return f.run(command.Context(), args) },
	}
	f.inputFlags.add(command)
	command.Flags().BoolVar(&f.partial, "partial", false, "write what can be read, even if some kinds or namespaces may not be listed")
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
		return write(f.Out, string(text))
	}
	if err := save(d, args[0]); err != nil {
		return err
	}
	say(f.ErrOut, "wrote %s: %d nodes, %d slices, %d claims, %d pods", args[0], len(d.Nodes), len(d.ResourceSlices), len(d.ResourceClaims), len(d.Pods))
	return nil
}

// save writes a dump to a file. Names of pods and claims are not for everybody on
// the machine.
func save(d *dump.Dump, file string) error {
	text, err := d.Marshal()
	if err != nil {
		return &exitError{exitFailed, fmt.Errorf("encode the dump: %w", err)}
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return &exitError{exitFailed, fmt.Errorf("write the dump: %w", err)}
	}
	return nil
}

// collect reads files or the whole cluster.
func (f *dumpFlags) collect(ctx context.Context) (*dump.Dump, error) {
	if len(f.files) > 0 {
		in, err := f.readFiles()
		if err != nil {
			return nil, err
		}
		return in.dump, nil
	}
	g, err := f.cluster(ctx)
	if err != nil {
		return nil, err
	}
	if len(g.hidden) > 0 && !f.partial {
		return nil, &exitError{exitFailed, errors.New(strings.Join(g.hidden, "; ") + "; answers from such a dump would be wrong; use --partial to write it nevertheless")}
	}
	for _, note := range g.hidden {
		say(f.ErrOut, "note: %s", note)
	}
	return g.dump, nil
}
