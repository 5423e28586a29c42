// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kerf.dev/kerf/claim"
)

// workloads finds controllers that have something left to do: a change that
// they have not observed, or too few or too many pods.
func (m *motions) workloads() {
	owned := m.activePodsByOwner()
	for i := range m.state.Deployments {
		m.deployment(m.state.Deployments[i])
	}
	for i := range m.state.ReplicaSets {
		m.replicaSet(m.state.ReplicaSets[i], owned)
	}
	for i := range m.state.StatefulSets {
		m.statefulSet(m.state.StatefulSets[i], owned)
	}
	for i := range m.state.DaemonSets {
		m.daemonSet(m.state.DaemonSets[i], owned)
	}
	for i := range m.state.Jobs {
		m.job(m.state.Jobs[i], owned)
	}
}

// activePodsByOwner groups the pods that run, or wait for that, by controller.
func (m *motions) activePodsByOwner() map[types.UID][]*corev1.Pod {
	owned := map[types.UID][]*corev1.Pod{}
	for _, pod := range m.state.Pods {
		if owner := metav1.GetControllerOf(pod); owner != nil && !claim.Ended(pod) && pod.DeletionTimestamp == nil {
			owned[owner.UID] = append(owned[owner.UID], pod)
		}
	}
	return owned
}

// unobserved reports whether the controller has yet to see the object's spec.
func (m *motions) unobserved(kind string, object metav1.Object, observed int64) bool {
	if object.GetDeletionTimestamp() != nil {
		return true
	}
	if observed >= object.GetGeneration() {
		return false
	}
	m.add(kind, object, "was changed and its controller has not seen it")
	return true
}

func (m *motions) deployment(d *appsv1.Deployment) {
	if m.unobserved("deployments", d, d.Status.ObservedGeneration) || d.Spec.Paused {
		return
	}
	want := ptr.Deref(d.Spec.Replicas, 1)
	if d.Status.UpdatedReplicas != want || d.Status.Replicas != want {
		m.add("deployments", d, "rolls out: %d of %d replicas, %d up to date", d.Status.Replicas, want, d.Status.UpdatedReplicas)
	}
}

func (m *motions) replicaSet(r *appsv1.ReplicaSet, owned map[types.UID][]*corev1.Pod) {
	if m.unobserved("replicasets", r, r.Status.ObservedGeneration) {
		return
	}
	if have, want := len(owned[r.UID]), int(ptr.Deref(r.Spec.Replicas, 1)); have != want {
		m.add("replicasets", r, "has %d of %d pods%s", have, want, replicaFailure(r))
	}
}

// replicaFailure says why the controller cannot create pods, if it cannot.
func replicaFailure(r *appsv1.ReplicaSet) string {
	for _, condition := range r.Status.Conditions {
		if condition.Type == appsv1.ReplicaSetReplicaFailure && condition.Status == corev1.ConditionTrue {
			return ": " + condition.Message
		}
	}
	return ""
}

func (m *motions) statefulSet(s *appsv1.StatefulSet, owned map[types.UID][]*corev1.Pod) {
	if m.unobserved("statefulsets", s, s.Status.ObservedGeneration) {
		return
	}
	have, want := owned[s.UID], int(ptr.Deref(s.Spec.Replicas, 1))
	if len(have) == want {
		return
	}
	if s.Spec.PodManagementPolicy != appsv1.ParallelPodManagement && len(have) < want {
		// One pod after the other: it stops at the first that does not run.
		for _, pod := range have {
			if pod.Status.Phase != corev1.PodRunning {
				return
			}
		}
	}
	m.add("statefulsets", s, "has %d of %d pods", len(have), want)
}

func (m *motions) daemonSet(d *appsv1.DaemonSet, owned map[types.UID][]*corev1.Pod) {
	if m.unobserved("daemonsets", d, d.Status.ObservedGeneration) {
		return
	}
	if have, want := len(owned[d.UID]), int(d.Status.DesiredNumberScheduled); have != want {
		m.add("daemonsets", d, "has %d of %d pods", have, want)
	}
}

func (m *motions) job(j *batchv1.Job, owned map[types.UID][]*corev1.Pod) {
	if j.DeletionTimestamp != nil || ptr.Deref(j.Spec.Suspend, false) || ptr.Deref(j.Spec.ManagedBy, batchv1.JobControllerName) != batchv1.JobControllerName {
		return
	}
	for _, condition := range j.Status.Conditions {
		if (condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed) && condition.Status == corev1.ConditionTrue {
			return
		}
	}
	want := int(ptr.Deref(j.Spec.Parallelism, 1))
	if j.Spec.Completions != nil {
		want = min(want, int(*j.Spec.Completions-j.Status.Succeeded))
	}
	switch have := len(owned[j.UID]); {
	case int(j.Status.Active) != have:
		m.add("jobs", j, "has %d active pods and its controller has not counted them", have)
	case have == 0 && want == 0:
		m.add("jobs", j, "is about to complete")
	case have < want && j.Status.Failed > 0:
		m.addTimed("jobs", j, "has %d of %d pods and replaces failed ones", have, want)
	case have != want && j.Spec.Completions != nil:
		m.add("jobs", j, "has %d of %d pods", have, want)
	}
}
