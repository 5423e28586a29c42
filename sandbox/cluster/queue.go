// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/claim"
)

// Place is where a pod is in the scheduler.
type Place int

const (
	Unknown    Place = iota // not in the queue: being bound, or not seen yet
	Active                  // about to be tried, or waits for others of its gang
	Trying                  // an attempt computes where it could go
	BackingOff              // tried again after a while
	Parked                  // waits for an event
)

// Queue is the scheduling queue at one moment.
type Queue struct {
	// Running: there is a scheduler.
	Running bool
	// Profiles are the names of its profiles.
	Profiles map[string]bool
	// Pods are those in the queue.
	Pods map[types.UID]Place
}

// handles reports whether a running scheduler is responsible for the pod.
func (q Queue) handles(pod *corev1.Pod) bool {
	return q.Running && q.Profiles[pod.Spec.SchedulerName]
}

// Scheduled are the objects of that kind that a scheduler watches.
func (s *State) Scheduled(resource string) []metav1.Object {
	var watched []metav1.Object
	for _, kind := range Kinds {
		if kind.Resource.Resource != resource {
			continue
		}
		for _, object := range kind.Objects(s) {
			if pod, ok := object.(*corev1.Pod); !ok || !claim.Ended(pod) {
				watched = append(watched, object)
			}
		}
	}
	return watched
}
