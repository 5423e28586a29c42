// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
)

// Stranded returns what keeps a pod from starting on the node that it has; nil where
// nothing does, or where it has started. Whoever set spec.nodeName went past the scheduler, and
// nobody else allocates devices.
func (w *World) Stranded(pod *v1.Pod) *Obstacle {
	if pod.Spec.NodeName == "" || claim.Started(pod) {
		return nil
	}
	claims, missing := w.Claims(pod)
	if missing != nil && missing.Kind != NotReservable && missing.Kind != Leaving {
		return missing
	}
	for _, c := range claims {
		switch a := c.Object.Status.Allocation; {
		case a == nil:
			return &Obstacle{Kind: NotAllocated, Entry: c.Name, Name: c.Object.Name}
		case w.Node(pod.Spec.NodeName) != nil && !claim.Reaches(a, w.Node(pod.Spec.NodeName)):
			return &Obstacle{Kind: AllocatedElsewhere, Entry: c.Name, Name: c.Object.Name}
		}
	}
	if missing == nil {
		missing = w.unserved(pod)
	}
	return missing
}

// unserved finds an extended resource of a pod without a claim for it that its node does
// not offer by itself, as a class serves it.
func (w *World) unserved(pod *v1.Pod) *Obstacle {
	node := w.Node(pod.Spec.NodeName)
	if node == nil || pod.Status.ExtendedResourceClaimStatus != nil {
		return nil
	}
	wants := claim.PodRequests(pod)
	for _, name := range slices.Sorted(maps.Keys(wants)) {
		want := inventory.AmountOf(wants[name])
		if claim.IsExtended(name) && want.Cmp(inventory.AmountOf(node.Status.Allocatable[name])) > 0 && w.classServing(name) != "" {
			return &Obstacle{Kind: NotServedThere, Name: string(name)}
		}
	}
	return nil
}
