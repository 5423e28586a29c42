// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/ptr"

	"kerf.dev/kerf/claim"
)

// podGroup returns the PodGroup, nil if there is none.
func (s *State) podGroup(namespace, name string) *schedulingapi.PodGroup {
	i := slices.IndexFunc(s.PodGroups, func(g *schedulingapi.PodGroup) bool { return g.Namespace == namespace && g.Name == name })
	if i < 0 {
		return nil
	}
	return s.PodGroups[i]
}

// podGroupName is the name of the pod's PodGroup, "" if it has none.
func podGroupName(pod *corev1.Pod) string {
	if pod.Spec.SchedulingGroup == nil {
		return ""
	}
	return ptr.Deref(pod.Spec.SchedulingGroup.PodGroupName, "")
}

// PodClaims yields the claims of the pod, nil for one that does not exist. The one for
// its extended resources is the last.
func (s *State) PodClaims(pod *corev1.Pod) iter.Seq2[claim.Ref, *resourceapi.ResourceClaim] {
	return func(yield func(claim.Ref, *resourceapi.ResourceClaim) bool) {
		for ref := range claim.Refs(pod) {
			if !yield(ref, s.Claim(pod.Namespace, ref.Claim)) {
				return
			}
		}
		if c := s.madeFor(pod); c != nil && claim.SpecialNamed(pod) == "" {
			yield(claim.Ref{Claim: c.Name}, c)
		}
	}
}

// madeFor returns the claim for the extended resources of a pod whose status does not
// name it yet.
func (s *State) madeFor(pod *corev1.Pod) *resourceapi.ResourceClaim {
	for _, c := range s.ResourceClaims {
		if claim.UsesSpecial(pod, c) {
			return c
		}
	}
	return nil
}

// evicts reports whether a taint evicts the users of an allocated device.
func (s *State) evicts(result *resourceapi.DeviceRequestAllocationResult) bool {
	for _, taint := range s.taints(result) {
		if taint.Effect == resourceapi.DeviceTaintEffectNoExecute && !tolerated(taint, result.Tolerations) {
			return true
		}
	}
	return false
}

// taints are those of the device itself and those of rules that select it.
func (s *State) taints(result *resourceapi.DeviceRequestAllocationResult) []resourceapi.DeviceTaint {
	var taints []resourceapi.DeviceTaint
	for _, slice := range s.ResourceSlices {
		if slice.Spec.Driver != result.Driver || slice.Spec.Pool.Name != result.Pool {
			continue
		}
		for j := range slice.Spec.Devices {
			if slice.Spec.Devices[j].Name == result.Device {
				taints = append(taints, slice.Spec.Devices[j].Taints...)
			}
		}
	}
	for _, r := range s.DeviceTaintRules {
		rule := &r.Spec
		if rule.DeviceSelector != nil && selects(rule.DeviceSelector, result) {
			taints = append(taints, rule.Taint)
		}
	}
	return taints
}

func selects(selector *resourceapi.DeviceTaintSelector, result *resourceapi.DeviceRequestAllocationResult) bool {
	return (selector.Driver == nil || *selector.Driver == result.Driver) &&
		(selector.Pool == nil || *selector.Pool == result.Pool) &&
		(selector.Device == nil || *selector.Device == result.Device)
}

func tolerated(taint resourceapi.DeviceTaint, tolerations []resourceapi.DeviceToleration) bool {
	for _, toleration := range tolerations {
		if toleration.TolerationSeconds == nil && resourceclaim.ToleratesTaint(toleration, taint) {
			return true
		}
	}
	return false
}
