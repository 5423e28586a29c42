// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// repeatsCondition is the reason of the event that says what the PodScheduled
// condition says.
const repeatsCondition = "FailedScheduling"

// ReadWarnings reads the warnings about pods, by the pod's UID: the latest event
// of each reason as "REASON: text". The scheduler's verdict is not among them, as
// the pod's condition has it.
func ReadWarnings(ctx context.Context, client kubernetes.Interface) (map[types.UID][]string, error) {
	list, err := client.EventsV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	return latestWarnings(list.Items), nil
}

func latestWarnings(events []eventsv1.Event) map[types.UID][]string {
	type key struct {
		pod    types.UID
		reason string
	}
	latest := map[key]*eventsv1.Event{}
	for i := range events {
		event := &events[i]
		if event.Type != corev1.EventTypeWarning || event.Regarding.Kind != "Pod" || event.Reason == repeatsCondition {
			continue
		}
		k := key{event.Regarding.UID, event.Reason}
		if other := latest[k]; other == nil || !eventTime(event).Before(eventTime(other)) {
			latest[k] = event
		}
	}
	warnings := map[types.UID][]string{}
	for k, event := range latest {
		warnings[k.pod] = append(warnings[k.pod], k.reason+": "+event.Note)
	}
	for _, list := range warnings {
		slices.SortFunc(list, cmp.Compare[string])
	}
	return warnings
}

// eventTime is when the event was seen last; which field says so depends on who
// has recorded it.
func eventTime(event *eventsv1.Event) time.Time {
	latest := event.EventTime.Time
	for _, other := range []time.Time{event.DeprecatedLastTimestamp.Time, event.CreationTimestamp.Time} {
		if other.After(latest) {
			latest = other
		}
	}
	if event.Series != nil && event.Series.LastObservedTime.After(latest) {
		latest = event.Series.LastObservedTime.Time
	}
	return latest
}
