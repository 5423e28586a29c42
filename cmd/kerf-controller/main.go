// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kerf-controller attaches devices of fabrics to the nodes of the claims
// that they are allocated to, and offers those that are free.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"kerf.dev/kerf/kube/attach"
)

func main() {
	err := cli.RunNoErrOutput(newCommand())
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "error:", err)
	if input := (*inputError)(nil); errors.As(err, &input) {
		os.Exit(2)
	}
	os.Exit(1)
}

func newCommand() *cobra.Command {
	o := newOptions()
	cmd := &cobra.Command{
		Use:   "kerf-controller",
		Short: "Attaches devices of fabrics to nodes",
		Long: `kerf-controller attaches devices of PCIe/CXL fabrics to the nodes that need them.

An administrator describes a fabric in a Fabric (fabric.kerf.dev). The controller
publishes the free devices of the fabric in ResourceSlices. When the scheduler
allocates one to a claim, the controller tells the fabric's manager to attach it.

Several replicas may run. One of them is active.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          func(_ *cobra.Command, args []string) error { return noArguments(args) },
		RunE: func(*cobra.Command, []string) error {
			ctrl.SetLogger(klog.NewKlogr())
			mgr, err := o.manager()
			if err != nil {
				return err
			}
			if err := attach.AddTo(mgr, metrics.Registry, attach.Options{}); err != nil {
				return err
			}
			return mgr.Start(ctrl.SetupSignalHandler())
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &inputError{err} })
	o.addFlags(cmd.Flags())
	return cmd
}
