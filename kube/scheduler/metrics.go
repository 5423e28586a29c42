// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/claim"
)

// searchesGaveUp counts searches for devices on a node that ended without an answer.
// With reason: the budget of steps or work was spent, the time was over, or the search
// did not begin because others of the attempt had used up what it may take.
var searchesGaveUp = metrics.NewCounterVec(&metrics.CounterOpts{
	Name:           "kerf_scheduler_searches_gave_up_total",
	Help:           "Searches for devices on a node that ended without an answer, by reason: budget, time, not_looked_at.",
	StabilityLevel: metrics.ALPHA,
}, []string{"reason"})

// The reasons for which a search gives up.
const (
	reasonBudget      = "budget"
	reasonTime        = "time"
	reasonNotLookedAt = "not_looked_at"
)

// registerMetrics adds what this package counts to the metrics of the process, which
// all profiles share.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(searchesGaveUp)
	for _, reason := range []string{reasonBudget, reasonTime, reasonNotLookedAt} {
		searchesGaveUp.WithLabelValues(reason).Add(0) // so that rates have a beginning
	}
})

// countGaveUp counts a search that gave up.
func countGaveUp(g *alloc.GaveUp) {
	reason := reasonBudget
	switch {
	case g.Before:
		reason = reasonNotLookedAt
	case g.Stopped:
		reason = reasonTime
	}
	searchesGaveUp.WithLabelValues(reason).Inc()
}

// recordWait records a wait for binding conditions in the scheduler's metrics
// for devices, per driver.
func (h *handover) recordWait(a *attempt, err error, waited time.Duration) {
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
	profile := h.handle.ProfileName()
	for _, pc := range a.claims {
		for _, result := range claim.Results(pc.claim) {
			schedmetrics.DRABindingConditionsPreBindDuration.WithLabelValues(profile, result.Driver, status).Observe(waited.Seconds())
			if len(result.BindingConditions) > 0 {
				schedmetrics.DRABindingConditionsAllocationsTotal.WithLabelValues(profile, result.Driver, status).Inc()
			}
		}
	}
}
