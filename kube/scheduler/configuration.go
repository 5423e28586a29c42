// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	// For the shipped configuration.
	_ "embed"
)

//go:embed configuration.yaml
var configuration string

// DefaultConfiguration returns the shipped KubeSchedulerConfiguration as YAML: the
// defaults of kube-scheduler with the plugin in place of DynamicResources.
func DefaultConfiguration() string { return configuration }
