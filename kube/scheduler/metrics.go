// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"kerf.dev/kerf/alloc"
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
