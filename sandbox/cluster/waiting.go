// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/ptr"

	"kerf.dev/kerf/claim"
)

// Reasons why a pod has no node, beside those of its PodScheduled condition.
const (
	// ReasonSchedulingGated: the pod has scheduling gates.
	ReasonSchedulingGated = corev1.PodReasonSchedulingGated
	// ReasonNoScheduler: no running scheduler is responsible for the pod.
	ReasonNoScheduler = "NoScheduler"
	// ReasonMissingObject: the pod refers to an object that does not exist.
	ReasonMissingObject = "MissingObject"
	// ReasonIncompleteGroup: the pod's PodGroup needs more pods than there are.
	ReasonIncompleteGroup = "IncompleteGroup"
	// ReasonBindingConditions: devices are allocated, but not usable yet.
	ReasonBindingConditions = "BindingConditions"
	// ReasonScheduling: the scheduler has no verdict yet.
	ReasonScheduling = "Scheduling"
)

// Pending is a pod without a node.
type Pending struct {
	Pod *corev1.Pod
	// Reason is one word, Message text for a person.
	Reason, Message string
}

// FindPending explains every pod that waits for a node.
func FindPending(state *State, queue Queue) []Pending {
	var pending []Pending
	for _, pod := range state.Pods {
		if pod.Spec.NodeName != "" || claim.Ended(pod) || pod.DeletionTimestamp != nil {
			continue
		}
		reason, message := state.why(pod, queue)
		pending = append(pending, Pending{Pod: pod, Reason: reason, Message: message})
	}
	return pending
}

func (s *State) why(pod *corev1.Pod, queue Queue) (reason, message string) {
	if len(pod.Spec.SchedulingGates) > 0 {
		gates := make([]string, len(pod.Spec.SchedulingGates))
		for i, gate := range pod.Spec.SchedulingGates {
			gates[i] = gate.Name
		}
		return ReasonSchedulingGated, "waits for the removal of scheduling gates: " + strings.Join(gates, ", ")
	}
	if !queue.Running {
		return ReasonNoScheduler, "the scheduler is stopped"
	}
	if !queue.handles(pod) {
		return ReasonNoScheduler, fmt.Sprintf("no scheduler is called %q (spec.schedulerName)", pod.Spec.SchedulerName)
	}
	if missing := s.missing(pod); missing != "" {
		return ReasonMissingObject, missing
	}
	if incomplete := s.incomplete(pod); incomplete != "" {
		return ReasonIncompleteGroup, incomplete
	}
	if unmet := s.unmetBindingConditions(pod); len(unmet) > 0 {
		return ReasonBindingConditions, "waits for " + strings.Join(unmet, "; ")
	}
	if queue.Pods[pod.UID] == Trying {
		return ReasonScheduling, "the scheduler is still computing where it could go"
	}
	if condition := scheduledCondition(pod); condition != nil {
		return condition.Reason, condition.Message
	}
	return ReasonScheduling, "the scheduler has no verdict yet"
}

// missing says which object is missing that the pod refers to.
func (s *State) missing(pod *corev1.Pod) string {
	for i := range pod.Spec.ResourceClaims {
		claim := &pod.Spec.ResourceClaims[i]
		field := fmt.Sprintf("spec.resourceClaims[%d]", i)
		if name := ptr.Deref(claim.ResourceClaimTemplateName, ""); name != "" && s.Template(pod.Namespace, name) == nil {
			if _, _, err := resourceclaim.Name(pod, claim); err != nil {
				return fmt.Sprintf("ResourceClaimTemplate %s/%s does not exist (%s.resourceClaimTemplateName)", pod.Namespace, name, field)
			}
		}
		if name := ptr.Deref(claim.ResourceClaimName, ""); name != "" && s.Claim(pod.Namespace, name) == nil {
			return fmt.Sprintf("ResourceClaim %s/%s does not exist (%s.resourceClaimName)", pod.Namespace, name, field)
		}
	}
	if name := podGroupName(pod); name != "" && s.podGroup(pod.Namespace, name) == nil {
		return fmt.Sprintf("PodGroup %s/%s does not exist (spec.schedulingGroup.podGroupName)", pod.Namespace, name)
	}
	return ""
}

// incomplete says that the pod's gang has too few pods to be scheduled (KEP-4671).
func (s *State) incomplete(pod *corev1.Pod) string {
	name := podGroupName(pod)
	group := s.podGroup(pod.Namespace, name)
	if group == nil || group.Spec.SchedulingPolicy.Gang == nil {
		return ""
	}
	members := 0
	for i := range s.Pods {
		if s.Pods[i].Namespace == pod.Namespace && podGroupName(s.Pods[i]) == name && s.Pods[i].DeletionTimestamp == nil {
			members++
		}
	}
	if want := int(group.Spec.SchedulingPolicy.Gang.MinCount); members < want {
		return fmt.Sprintf("PodGroup %s/%s needs %d pods (spec.schedulingPolicy.gang.minCount) and has %d", pod.Namespace, name, want, members)
	}
	return ""
}

// unmetBindingConditions lists the conditions of allocated devices that keep
// the pod from being bound (KEP-5007).
func (s *State) unmetBindingConditions(pod *corev1.Pod) []string {
	var unmet []string
	for ref, c := range s.PodClaims(pod) {
		if c == nil {
			continue
		}
		of := "claim " + ref.Name()
		if ref.Special() {
			of = "extended resources"
		}
		state := claim.BindingOf(c)
		for _, d := range state.Pending {
			for _, condition := range d.Missing {
				unmet = append(unmet, fmt.Sprintf("condition %s of device %s (%s)", condition, d.Device, of))
			}
		}
		for _, d := range state.Failed {
			unmet = append(unmet, fmt.Sprintf("another device than %s, whose condition %s is true (%s)", d.Device, d.Condition.Type, of))
		}
	}
	return unmet
}
