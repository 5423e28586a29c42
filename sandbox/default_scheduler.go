// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"kerf.dev/kerf/kube/scheduler"
)

// defaultScheduler is kerf-scheduler as it is shipped.
func defaultScheduler() *SchedulerOptions {
	return &SchedulerOptions{
		Plugins: frameworkruntime.Registry{scheduler.Name: scheduler.New},
		Config:  []byte(scheduler.DefaultConfiguration()),
	}
}
