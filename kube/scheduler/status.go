// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// hopeless refuses a node, or all of them: evicting pods would not help.
func hopeless(logger klog.Logger, reason string) *fwk.Status {
	return refuse(logger, fwk.UnschedulableAndUnresolvable, reason)
}

func refuse(logger klog.Logger, code fwk.Code, reason string) *fwk.Status {
	logger.V(5).Info("pod unschedulable", "reason", reason)
	return fwk.NewStatus(code, reason)
}

// failed reports an error that ends the attempt; the pod is retried after a
// backoff.
func failed(logger klog.Logger, err error) *fwk.Status {
	logger.V(5).Info("plugin failed", "err", err)
	return fwk.AsStatus(err)
}
