// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/scenario"
)

// accounted returns the pod with what its allocated claims take of a node in its
// status (KEP-5517).
func (b *Backend) accounted(state *scenario.State, pod *v1.Pod) *v1.Pod {
	snapshot := b.inventory.Snapshot()
	var allocated []claim.Allocated
	for ref, c := range state.PodClaims(pod) {
		if c != nil && c.Status.Allocation != nil {
			allocated = append(allocated, claim.Allocated{
				Entry: ref.Name(), Claim: c.Name,
				Results: c.Status.Allocation.Devices.Results, Devices: snapshot.DevicesOf(c.Status.Allocation),
			})
		}
	}
	return claim.WithStatuses(pod, claim.ClaimStatuses(pod, allocated))
}

// left is what pods leave of a node's resources, nil where the story does not say
// how much it has.
func left(state *scenario.State, node *v1.Node, but *v1.Pod) map[v1.ResourceName]inventory.Amount {
	if len(node.Status.Allocatable) == 0 {
		return nil
	}
	return claim.Left(node, func(yield func(*v1.Pod) bool) {
		for _, pod := range state.Pods {
			here := pod.Spec.NodeName == node.Name || pod.Spec.NodeName == "" && pod.Status.NominatedNodeName == node.Name
			if here && pod.UID != but.UID && !claim.Ended(pod) && !yield(pod) {
				return
			}
		}
	})
}

// tooLittle says what the node has too little of for what the pod requests anyway,
// empty where it has enough.
func tooLittle(pod *v1.Pod, left map[v1.ResourceName]inventory.Amount) string {
	if left == nil {
		return ""
	}
	var reasons []string
	for _, name := range claim.Lacking(claim.PodRequests(pod), left) {
		reasons = append(reasons, "Insufficient "+string(name))
	}
	return strings.Join(reasons, ", ")
}
