// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"kerf.dev/kerf/sandbox"
)

func newUpCommand(streams Streams) *cobra.Command {
	flags := &clusterFlags{}
	command := &cobra.Command{
		Use:   "up",
		Short: "Start a cluster and keep it running, for kubectl",
		Long: `Start a cluster, apply manifests if there are any, and print how to reach the
cluster with kubectl. It runs until you press Ctrl-C. Then nothing is left of it.`,
		Example: `  # An empty cluster with three nodes
  kerf-sandbox up --nodes 3

  # With nodes and devices from manifests
  kerf-sandbox up -f examples/partitioned-gpus -f more.yaml

  # In another terminal
  kubectl --kubeconfig ... get resourceslices
  kubectl --kubeconfig ... get pods -w`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return flags.up(command.Context(), streams)
		},
	}
	flags.add(command)
	return command
}

func (f *clusterFlags) up(ctx context.Context, streams Streams) error {
	set, err := f.load(ctx, streams, nil)
	if err != nil {
		return err
	}
	s, err := f.start(ctx, streams, set)
	if err != nil {
		return err
	}
	instructions(streams, s)
	select {
	case <-s.Done():
	case <-ctx.Done():
		say(streams.Err, "stopping")
	}
	if err := s.Stop(); err != nil {
		return &exitError{exitFailed, errors.Join(errors.New("the sandbox has stopped"), err)}
	}
	return nil
}

// instructions tell how to reach the cluster.
func instructions(streams Streams, s *sandbox.Sandbox) {
	say(streams.Out, "export KUBECONFIG=%s", s.Kubeconfig())
	say(streams.Err, `
The cluster runs. In another terminal:

  export KUBECONFIG=%s
  kubectl get nodes,pods,resourceclaims,resourceslices

Logs of its components: %s
Ctrl-C stops it; then nothing is left of it.`, s.Kubeconfig(), s.LogFile())
}
