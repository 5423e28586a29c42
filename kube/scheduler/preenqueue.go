// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// PreEnqueue keeps a pod out of the queue until its claims exist.
func (pl *Plugin) PreEnqueue(ctx context.Context, pod *v1.Pod) *fwk.Status {
	if !pl.concerns(pod) {
		return nil
	}
	if _, err := pl.lookup.claimsOf(pod); err != nil {
		return hopeless(klog.FromContext(ctx), err.Error())
	}
	return nil
}
