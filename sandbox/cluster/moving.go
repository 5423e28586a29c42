// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/ptr"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/sandbox/hollow"
)

// Motion is something that is about to change without anybody's doing.
type Motion struct {
	// Object is "kind namespace/name", What the change that is expected of it.
	Object, What string
	// Timed: it happens after some time, so it may well be quiet until then.
	Timed bool
	// Retry: the scheduler tries again and again what it has refused, with no
	// other result as long as nothing else changes.
	Retry bool
}

// String names the object and the change.
func (m Motion) String() string { return m.Object + ": " + m.What }

// motions collects what moves in one state.
type motions struct {
	state *State
	queue Queue
	pods  map[types.UID]*corev1.Pod
	uids  map[types.UID]bool
	found []Motion
}

// FindMotions reports everything in the state that does not stay as it is.
func FindMotions(state *State, queue Queue) []Motion {
	m := &motions{state: state, queue: queue, pods: map[types.UID]*corev1.Pod{}, uids: map[types.UID]bool{}}
	for _, kind := range Kinds {
		for _, object := range kind.Objects(state) {
			m.uids[object.GetUID()] = true
		}
	}
	for i := range state.Pods {
		m.pods[state.Pods[i].UID] = state.Pods[i]
	}
	for _, kind := range Kinds {
		for _, object := range kind.Objects(state) {
			m.anyObject(kind.Resource.Resource, object)
		}
	}
	for i := range state.Pods {
		m.pod(state.Pods[i])
	}
	for i := range state.ResourceClaims {
		m.claim(state.ResourceClaims[i])
	}
	m.evictions()
	m.workloads()
	return m.found
}

func (m *motions) add(kind string, object metav1.Object, format string, args ...any) {
	m.found = append(m.found, Motion{Object: objectName(kind, object), What: fmt.Sprintf(format, args...)})
}

func (m *motions) addTimed(kind string, object metav1.Object, format string, args ...any) {
	m.add(kind, object, format, args...)
	m.found[len(m.found)-1].Timed = true
}

// anyObject finds what the garbage collector and finalizers have to do.
func (m *motions) anyObject(kind string, object metav1.Object) {
	if object.GetDeletionTimestamp() != nil {
		what := m.add
		if pod, ok := object.(*corev1.Pod); ok && pod.Annotations[hollow.StopAfterAnnotation] != "" {
			what = m.addTimed
		}
		if kind == "namespaces" {
			what = m.addTimed // the controller estimates how long its pods take, and looks again after that
		}
		what(kind, object, "is being deleted")
		return
	}
	owner := metav1.GetControllerOf(object)
	if owner != nil && observedOwner[owner.Kind] && !m.uids[owner.UID] {
		m.add(kind, object, "is left over from %s %s, which is gone", owner.Kind, owner.Name)
	}
}

// observedOwner are the kinds of owners of which State has every object.
var observedOwner = map[string]bool{
	"Pod": true, "PodGroup": true, "Deployment": true, "ReplicaSet": true,
	"StatefulSet": true, "DaemonSet": true, "Job": true, "Node": true,
}

func (m *motions) pod(pod *corev1.Pod) {
	if claim.Ended(pod) || pod.DeletionTimestamp != nil {
		return
	}
	if _, running := pod.Annotations[hollow.RunForAnnotation]; running && pod.Status.Phase == corev1.PodRunning {
		m.addTimed("pods", pod, "runs for a limited time")
		return
	}
	if pod.Spec.NodeName != "" {
		if pod.Status.Phase == corev1.PodPending {
			m.add("pods", pod, "has not started on node %s", pod.Spec.NodeName)
		}
		return
	}
	if len(pod.Spec.SchedulingGates) > 0 || m.state.missing(pod) != "" {
		return
	}
	for i := range pod.Spec.ResourceClaims {
		c := &pod.Spec.ResourceClaims[i]
		if _, _, err := resourceclaim.Name(pod, c); err != nil {
			m.add("pods", pod, "has no claim from ResourceClaimTemplate %s yet", ptr.Deref(c.ResourceClaimTemplateName, ""))
			return
		}
	}
	m.unbound(pod)
}

// unbound finds out whether the scheduler still has something to do for the pod.
func (m *motions) unbound(pod *corev1.Pod) {
	if !m.queue.handles(pod) {
		return
	}
	switch place := m.queue.Pods[pod.UID]; {
	case place == BackingOff && (pod.Spec.SchedulingGroup != nil || len(m.state.Nodes) == 0):
		// The scheduler never parks a PodGroup, and no pod while there is no node.
		m.add("pods", pod, "is tried again and again")
		m.found[len(m.found)-1].Retry = true
	case place == BackingOff:
		m.addTimed("pods", pod, "is about to be tried again")
	case place == Trying:
		m.addTimed("pods", pod, "the scheduler is still computing where it could go")
	case place == Active:
		m.add("pods", pod, "is being scheduled")
	case place == Parked && scheduledCondition(pod) == nil && m.state.incomplete(pod) == "":
		m.add("pods", pod, "has no PodScheduled condition yet")
	case place == Unknown && len(m.state.unmetBindingConditions(pod)) == 0:
		m.add("pods", pod, "is being scheduled or bound")
	}
}

// claim finds reservations and claims that the claim controller is about to remove.
func (m *motions) claim(c *resourceapi.ResourceClaim) {
	if c.DeletionTimestamp != nil {
		return
	}
	for _, consumer := range c.Status.ReservedFor {
		switch {
		case claim.IsPod(consumer):
			if pod := m.pods[consumer.UID]; pod == nil || claim.Ended(pod) {
				m.add("resourceclaims", c, "is to be released by pod %s", consumer.Name)
			}
		case consumer.APIGroup == schedulingapi.GroupName && consumer.Resource == "podgroups":
			if !m.uids[consumer.UID] {
				m.add("resourceclaims", c, "is to be released by PodGroup %s", consumer.Name)
			}
		}
	}
	// A claim that was made for a pod goes when the pod has ended. Releasing and deleting
	// it are several writes.
	owner := metav1.GetControllerOf(c)
	if owner == nil || len(c.Status.ReservedFor) > 0 {
		return
	}
	if pod := m.pods[owner.UID]; pod != nil && claim.Ended(pod) {
		m.add("resourceclaims", c, "is to be deleted, pod %s has ended", owner.Name)
	}
}

// evictions finds running pods on devices with a NoExecute taint.
func (m *motions) evictions() {
	for _, c := range m.state.ResourceClaims {
		for _, result := range claim.Results(c) {
			if !m.state.evicts(result) {
				continue
			}
			for _, consumer := range c.Status.ReservedFor {
				if pod := m.pods[consumer.UID]; pod != nil && !claim.Ended(pod) && pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
					m.addTimed("pods", pod, "is to be evicted from device %s", inventory.IDOf(result))
				}
			}
		}
	}
}

func objectName(kind string, object metav1.Object) string {
	if object.GetNamespace() == "" {
		return kind + "/" + object.GetName()
	}
	return kind + "/" + object.GetName() + " in namespace " + object.GetNamespace()
}

// scheduledCondition is the scheduler's verdict on an unbound pod, nil if there
// is none.
func scheduledCondition(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		condition := &pod.Status.Conditions[i]
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return condition
		}
	}
	return nil
}
