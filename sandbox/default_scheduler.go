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

// ImpatientScheduler is kerf-scheduler as it is shipped, but that pods which do not
// fit are tried again within a second of a change: for tests in which they come and
// go.
func ImpatientScheduler() *SchedulerOptions {
	o := defaultScheduler()
	o.Config = append(o.Config, "\npodMaxBackoffSeconds: 1\n"...)
	return o
}
