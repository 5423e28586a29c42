// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/kube/scheduler/special"
)

// unprepared refuses a pod for which PreBind could not prepare the special claim. Where
// that is not permitted the pod is tried again at once: on nodes where device plugins
// serve its resources it needs no claim. Elsewhere it has a pause, which Reserve does not
// end, for that comes before each attempt to create the claim.
func (pl *Plugin) unprepared(logger klog.Logger, a *attempt, pod *v1.Pod, err error) *fwk.Status {
	denied := (*special.Denial)(nil)
	if !errors.As(err, &denied) {
		return failed(logger, err)
	}
	logger.V(2).Info("the API server does not permit the claim for extended resources", "pod", klog.KObj(pod), "err", denied.Cause)
	pl.ledger.Denials.Lengthen(pod, a.question, denied)
	if denied.Quota != "" {
		pl.quotas.Activate()
	}
	status := refuse(logger, fwk.Unschedulable, denied.Error())
	pl.ledger.Retries.Expect(pod.UID, status.Message())
	return status
}
