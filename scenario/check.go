// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"kerf.dev/kerf/alloc"
)

// doCheck verifies the state with alloc's checker, which shares no code with the
// allocator, and that every pod on a node has what it asks for there.
func doCheck(t *telling, _ call) (string, error) {
	state, err := t.state()
	if err != nil {
		return "", err
	}
	var broken []string
	for _, v := range alloc.CheckCluster(state.Slices, state.Claims) {
		broken = append(broken, v.String())
	}
	for _, pod := range state.Pods {
		if pod.Spec.NodeName == "" || ended(pod) {
			continue
		}
		problems, err := state.checkPod(pod)
		if err != nil {
			return "", err
		}
		broken = append(broken, problems...)
	}
	if len(broken) > 0 {
		return "", unmet("%s", strings.Join(broken, "\n"))
	}
	return "", nil
}

// checkPod verifies that a pod on a node has its claims there.
func (s *State) checkPod(pod *v1.Pod) ([]string, error) {
	var problems []string
	for i, claim := range s.PodClaims(pod) {
		entry := "extended resources"
		if i < len(pod.Spec.ResourceClaims) {
			entry = pod.Spec.ResourceClaims[i].Name
		}
		subject := "pod " + refOf(pod) + ": " + entry + ": "
		if claim == nil || claim.Status.Allocation == nil {
			problems = append(problems, subject+"the pod is on "+pod.Spec.NodeName+" without an allocated claim")
			continue
		}
		usable, err := s.UsableOn(claim)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(usable, AnyNode) && !slices.Contains(usable, pod.Spec.NodeName) {
			problems = append(problems, subject+"the pod is on "+pod.Spec.NodeName+", the claim is usable on "+fold(usable))
		}
		if !isReservedFor(claim, pod) {
			problems = append(problems, subject+"the claim is not reserved for the pod")
		}
	}
	return problems, nil
}

func isReservedFor(claim *Claim, pod *v1.Pod) bool {
	for _, r := range claim.Status.ReservedFor {
		if r.UID == pod.UID || r.Resource == "podgroups" {
			return true
		}
	}
	return false
}

// ended reports whether a pod does not run any more.
func ended(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}
