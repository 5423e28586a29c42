// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"
	"time"

	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
)

// recordWait records a wait for binding conditions in the scheduler's metrics
// for devices, per driver.
func (pl *Plugin) recordWait(a *attempt, err error, waited time.Duration) {
	if schedmetrics.DRABindingConditionsPreBindDuration == nil {
		// Programs that embed the framework need not have metrics.
		return
	}
	status := schedmetrics.BindingConditionsStatusError
	broken := (*bindingError)(nil)
	switch {
	case err == nil:
		status = schedmetrics.BindingConditionsStatusSuccess
	case errors.As(err, &broken) && broken.timeout > 0:
		status = schedmetrics.BindingConditionsStatusTimeout
	case broken != nil:
		status = schedmetrics.BindingConditionsStatusFailed
	}
	profile := pl.handle.ProfileName()
	for _, pc := range a.claims {
		if pc.claim.Status.Allocation == nil {
			continue
		}
		for _, result := range pc.claim.Status.Allocation.Devices.Results {
			schedmetrics.DRABindingConditionsPreBindDuration.WithLabelValues(profile, result.Driver, status).Observe(waited.Seconds())
			if len(result.BindingConditions) > 0 {
				schedmetrics.DRABindingConditionsAllocationsTotal.WithLabelValues(profile, result.Driver, status).Inc()
			}
		}
	}
}
