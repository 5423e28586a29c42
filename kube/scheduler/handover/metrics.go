// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"errors"
	"time"

	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// recordWait records a wait for binding conditions in the scheduler's metrics
// for devices, per driver.
func (h *Waiter) recordWait(claims []*podclaim.Claim, err error, waited time.Duration) {
	if schedmetrics.DRABindingConditionsPreBindDuration == nil {
		// Programs that embed the framework need not have metrics.
		return
	}
	status := schedmetrics.BindingConditionsStatusError
	broken := (*podclaim.BindingError)(nil)
	switch {
	case err == nil:
		status = schedmetrics.BindingConditionsStatusSuccess
	case errors.As(err, &broken) && broken.Timeout > 0:
		status = schedmetrics.BindingConditionsStatusTimeout
	case broken != nil:
		status = schedmetrics.BindingConditionsStatusFailed
	}
	profile := h.Handle.ProfileName()
	for _, pc := range claims {
		for _, result := range claim.Results(pc.Claim) {
			schedmetrics.DRABindingConditionsPreBindDuration.WithLabelValues(profile, result.Driver, status).Observe(waited.Seconds())
			if len(result.BindingConditions) > 0 {
				schedmetrics.DRABindingConditionsAllocationsTotal.WithLabelValues(profile, result.Driver, status).Inc()
			}
		}
	}
}
