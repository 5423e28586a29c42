// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
)

// metrics are those of all loops.
type metrics struct {
	seconds     *prometheus.HistogramVec
	attachments *prometheus.GaugeVec
	counts      *prometheus.GaugeVec
	events      *prometheus.CounterVec
	effort      *prometheus.CounterVec
	published   *prometheus.CounterVec
}

// newMetrics makes the metrics and registers them.
func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kerf_fabric_step_duration_seconds", Help: "Time that a step took: a call of the fabric's manager or a write to the API.",
			Buckets: prometheus.ExponentialBuckets(0.005, 4, 8),
		}, []string{"fabric", "step", "result"}),
		attachments: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kerf_fabric_attachments", Help: "Attachments by phase.",
		}, []string{"fabric", "phase"}),
		counts: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kerf_fabric_devices", Help: "Devices that match a model, by state.",
		}, []string{"fabric", "state"}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kerf_fabric_events_total", Help: "What the planner was told: changes of objects, and outcomes of steps.",
		}, []string{"fabric"}),
		effort: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kerf_fabric_evaluations_total", Help: "Situations that the planner has looked at.",
		}, []string{"fabric"}),
		published: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kerf_fabric_publications_total", Help: "How often it was worked out what the fabric offers.",
		}, []string{"fabric"}),
	}
	for _, c := range []prometheus.Collector{m.seconds, m.attachments, m.counts, m.events, m.effort, m.published} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

func (m *metrics) step(fabricName string, action fabric.Action, err error, took time.Duration) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.seconds.WithLabelValues(fabricName, actionName(action), result).Observe(took.Seconds())
}

// actionName is the name of an action's type.
func actionName(action fabric.Action) string {
	return strings.TrimPrefix(fmt.Sprintf("%T", action), "fabric.")
}

// start has all phases be there, with the attachments that are counted already.
func (m *metrics) start(fabricName string) {
	for _, info := range fabric.Phases() {
		m.attachments.WithLabelValues(fabricName, string(info.Phase)).Add(0)
	}
}

// phase counts an attachment in another phase than before; empty: in none.
func (m *metrics) phase(fabricName string, before, after v1alpha1.Phase) {
	if before == after {
		return
	}
	if before != "" {
		m.attachments.WithLabelValues(fabricName, string(before)).Dec()
	}
	if after != "" {
		m.attachments.WithLabelValues(fabricName, string(after)).Inc()
	}
}

func (m *metrics) devices(f *v1alpha1.Fabric) {
	d := f.Status.Devices
	for state, n := range map[string]int32{"free": d.Free, "attached": d.Attached, "unavailable": d.Unavailable} {
		m.counts.WithLabelValues(f.Name, state).Set(float64(n))
	}
}

// forget takes away what was measured for a fabric.
func (m *metrics) forget(fabricName string) {
	label := prometheus.Labels{"fabric": fabricName}
	m.seconds.DeletePartialMatch(label)
	m.attachments.DeletePartialMatch(label)
	m.counts.DeletePartialMatch(label)
	for _, c := range []*prometheus.CounterVec{m.events, m.effort, m.published} {
		c.DeletePartialMatch(label)
	}
}
