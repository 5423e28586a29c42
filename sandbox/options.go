// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"io"

	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"kerf.dev/kerf/fabric"
)

// Options say how to start a sandbox. The zero value is a cluster without nodes
// whose pods are scheduled by kerf.
type Options struct {
	// Scheduler is the scheduler to run. The default is kube-scheduler with the
	// Kerf plugin and kerf's shipped configuration.
	Scheduler *SchedulerOptions
	// Nodes is how many simulated nodes to create, named node-1 to node-N.
	Nodes int
	// Fabric, if not nil, changes the times of kerf-controller, which are those for a
	// manager that takes less than a second for an operation.
	Fabric func(*fabric.Policy)
	// ParentDir is where the sandbox's directory is created; "" is the default
	// directory for temporary files. Its path must be short enough for a Unix
	// socket below it.
	ParentDir string
	// Log also receives the logs of the embedded components, which otherwise
	// only go to the file that Sandbox.LogFile names.
	Log io.Writer
	// Verbosity of the components' logs, as kube-apiserver's -v.
	Verbosity int
	// Progress, if not nil, is told in a few words what Start waits for, and what
	// Settle does if it takes long.
	Progress func(string)
}

// SchedulerOptions are a kube-scheduler that is built with plugins of its own.
type SchedulerOptions struct {
	// Plugins are compiled in beside the in-tree ones.
	Plugins frameworkruntime.Registry
	// Config is a KubeSchedulerConfiguration in YAML. Its client connection and
	// leader election are replaced by the sandbox's.
	Config []byte
}
