// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/claim"
)

// doCheck verifies the state with alloc's checker, which shares no code with the
// allocator, and that every pod on a node has what it asks for there.
func doCheck(t *telling, _ call) (string, error) {
	state, err := t.state()
	if err != nil {
		return "", err
	}
	var broken []string
	for _, v := range alloc.CheckCluster(state.ResourceSlices, state.ResourceClaims) {
		broken = append(broken, v.String())
	}
	for _, pod := range state.Pods {
		if pod.Spec.NodeName == "" || claim.Ended(pod) {
			continue
		}
		broken = append(broken, state.checkPod(pod)...)
	}
	if len(broken) > 0 {
		return "", unmet("%s", strings.Join(broken, "\n"))
	}
	return "", nil
}

// checkPod verifies that a pod on a node has its claims there.
func (s *State) checkPod(pod *v1.Pod) []string {
	var problems []string
	for ref, c := range s.PodClaims(pod) {
		entry := ref.Name()
		if ref.Special() {
			entry = "extended resources"
		}
		subject := "pod " + refOf(pod) + ": " + entry + ": "
		if c == nil || c.Status.Allocation == nil {
			problems = append(problems, subject+"the pod is on "+pod.Spec.NodeName+" without an allocated claim")
			continue
		}
		if usable := s.usableOn(c); !slices.Contains(usable, anyNode) && !slices.Contains(usable, pod.Spec.NodeName) {
			problems = append(problems, subject+"the pod is on "+pod.Spec.NodeName+", the claim is usable on "+fold(usable))
		}
		if !claim.ReservedFor(c, pod) {
			problems = append(problems, subject+"the claim is not reserved for the pod")
		}
	}
	return problems
}
