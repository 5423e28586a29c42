// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kerf-scheduler is kube-scheduler with the Kerf plugin.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // log format JSON
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of the API client
	_ "k8s.io/component-base/metrics/prometheus/version"  // metric with the version
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"kerf.dev/kerf/kube/scheduler"
)

func main() {
	scheduler.SurviveTrackerPanics()
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
	cmd := app.NewSchedulerCommand(app.WithPlugin(scheduler.Name, scheduler.New))
	cmd.Use = "kerf-scheduler"
	cmd.Long = "kerf-scheduler is kube-scheduler with the plugin " + scheduler.Name + `, which allocates
devices of resource.k8s.io (Dynamic Resource Allocation). Without --config it
uses this configuration; flags below that a configuration file would override
apply on top of it:

` + scheduler.DefaultConfiguration()
	cmd.PreRunE = supplyConfiguration
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return &inputError{err} })
	return cmd
}
