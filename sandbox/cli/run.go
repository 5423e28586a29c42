// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kerf.dev/kerf/kube/manifest"
	"kerf.dev/kerf/sandbox"
	"kerf.dev/kerf/sandbox/cluster"
	"kerf.dev/kerf/sandbox/report"
)

// runFlags are the flags of kerf-sandbox run.
type runFlags struct {
	clusterFlags
	output  string
	timeout time.Duration
	stats   bool
}

func newRunCommand(streams Streams) *cobra.Command {
	flags := &runFlags{}
	command := &cobra.Command{
		Use:   "run [FILE|DIR|-]...",
		Short: "Apply manifests, wait until nothing moves, and say where every pod landed",
		Long: `Start a cluster, apply manifests and wait until nothing moves. Then print where
every pod landed and with which devices, or why it is pending. At the end the
cluster is gone.

Manifests are Kubernetes YAML or JSON: Nodes, ResourceSlices, DeviceClasses,
ResourceClaims and their templates, DeviceTaintRules, pods, workloads and other
kinds. The sandbox creates them in an order that works. A Node becomes a simulated
node. A directory stands for the *.yaml, *.yml and *.json files in it.

A fabric needs hardware, which the sandbox simulates. Add a document that describes
a shelf, in the format of kerf-redfish --config. The sandbox then runs a Redfish
service for the shelf, kerf-controller, and a driver on each host. The Fabrics
in the manifests use that service. See examples/fabric.

Exit codes:
  0  all pods are placed
  1  something is pending, or did not finish in time
  2  bad input
  3  the sandbox itself failed or was interrupted`,
		Example: `  # Where do the pods of an example go?
  kerf-sandbox run examples/partitioned-gpus

  # Your own pods on somebody else's inventory
  kerf-sandbox run inventory.yaml pods.yaml

  # Three quick nodes and a deployment from standard input
  kerf-sandbox run --nodes 3 - < deployment.yaml

  # For scripts
  kerf-sandbox run -o json examples/whole-gpus | jq '.pods[] | {name, node}'`,
		RunE: func(command *cobra.Command, args []string) error {
			return flags.run(command.Context(), streams, args)
		},
	}
	flags.add(command)
	command.Flags().StringVarP(&flags.output, "output", "o", report.Formats[0], "output format: "+strings.Join(report.Formats, ", "))
	command.Flags().DurationVar(&flags.timeout, "timeout", 2*time.Minute, "how long to wait for pods and controllers to come to rest")
	command.Flags().BoolVar(&flags.stats, "stats", false, "also print how long the cluster and the first pod took to be ready, and the memory used")
	return command
}

func (f *runFlags) run(ctx context.Context, streams Streams, args []string) (err error) {
	begin := time.Now()
	if !slices.Contains(report.Formats, f.output) {
		return &exitError{exitBadInput, fmt.Errorf("--output %q is not one of %s", f.output, strings.Join(report.Formats, ", "))}
	}
	if len(args)+len(f.files) == 0 {
		return &exitError{exitBadInput, errors.New(`no manifests: name files or directories, or "-" for standard input`)}
	}
	if f.timeout <= 0 {
		return &exitError{exitBadInput, fmt.Errorf("--timeout is %s, want more than 0", f.timeout)}
	}
	set, err := f.load(ctx, streams, args)
	if err != nil {
		return err
	}
	if len(set.Objects) == 0 {
		return &exitError{exitBadInput, fmt.Errorf("no objects in %s: nothing to run", strings.Join(append(args, f.files...), ", "))}
	}
	f.hint(streams, set)
	s, err := f.start(ctx, streams, set)
	if err != nil {
		return err
	}
	result, err := f.settle(ctx, streams, s)
	err = interrupted(ctx, err)
	if stopErr := s.Stop(); stopErr != nil {
		return &exitError{exitFailed, errors.Join(err, stopErr)}
	}
	if err != nil {
		return &exitError{exitFailed, err}
	}
	if f.stats {
		result.Stats = stats(s, begin)
	}
	if err := result.Print(streams.Out, f.output); err != nil {
		return &exitError{exitFailed, err}
	}
	return verdict(result)
}

// hint says what is likely to be missing.
func (f *runFlags) hint(streams Streams, set *manifest.Set) {
	if f.nodes > 0 {
		return
	}
	for _, object := range set.Objects {
		if object.GetKind() == "Node" {
			return
		}
	}
	say(streams.Err, "note: the input has no Node; add one, or use --nodes")
}

// settle waits until nothing moves and reports on the state.
func (f *runFlags) settle(ctx context.Context, streams Streams, s *sandbox.Sandbox) (*report.Report, error) {
	say(streams.Err, "waiting until nothing moves")
	settlement, err := s.Settle(ctx, f.timeout)
	var timeout *sandbox.NotSettledError
	if errors.As(err, &timeout) {
		say(streams.Err, "still moving after %s", timeout.Limit)
	} else if err != nil {
		return nil, err
	}
	warnings, err := cluster.ReadWarnings(ctx, s.Client())
	if err != nil {
		return nil, err
	}
	notes, err := s.Rack().Notes(ctx)
	if err != nil {
		return nil, err
	}
	return report.New(report.Input{
		State:         settlement.State,
		Pending:       settlement.Pending,
		Warnings:      warnings,
		UnusablePools: sandbox.UnusablePools(settlement.State),
		Notes:         notes,
		Unfinished:    settlement.Stuck,
		Violations:    sandbox.Verify(settlement.State),
	}), nil
}

func stats(s *sandbox.Sandbox, begin time.Time) *report.Stats {
	stats := &report.Stats{
		SecondsToReady:   s.TimeToReady().Seconds(),
		SecondsTotal:     time.Since(begin).Seconds(),
		MaxResidentBytes: maxResidentBytes(),
	}
	if after, ok := s.TimeToFirstBound(); ok {
		stats.SecondsToFirstPodBound = after.Seconds()
	}
	return stats
}

// verdict is the exit code for a report.
func verdict(r *report.Report) error {
	switch {
	case len(r.Violations) > 0:
		return &exitError{code: exitFailed}
	case !r.Complete():
		return &exitError{code: exitPending}
	}
	return nil
}
