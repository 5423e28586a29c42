// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

// defaultScheduler is the stock scheduler.
func defaultScheduler() *SchedulerOptions {
	return &SchedulerOptions{Config: []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n")}
}
