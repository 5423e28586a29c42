// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"errors"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
)

// PassedOver is an alternative of a prioritized list that ranks before the one
// that was allocated, and what would come of it now.
type PassedOver struct {
	// Request is request/alternative.
	Request string
	// Claim asks for this alternative alone, with the other requests as they
	// were allocated.
	Claim   *resourceapi.ResourceClaim
	View    *inventory.View
	Outcome alloc.Outcome
}

// PassedOver tries the better alternatives of an allocated claim on a node, as
// things are now but with the claim's own devices free, all together for as long as one
// attempt may take. It is empty where the claim has none.
func (w *World) PassedOver(claim *resourceapi.ResourceClaim, node *v1.Node) ([]PassedOver, error) {
	chosen := chosenAlternatives(claim)
	view := w.inv.Snapshot().View(node).WhatIf(inventory.HoldsOf(claim), nil)
	containers := w.makeRoom(view, claim, node)
	var found []PassedOver
	var left purse
	for i := range claim.Spec.Devices.Requests {
		r := &claim.Spec.Devices.Requests[i]
		for k := range r.FirstAvailable {
			if chosen[r.Name] == "" || r.FirstAvailable[k].Name == chosen[r.Name] {
				break
			}
			p := PassedOver{Request: r.Name + "/" + r.FirstAvailable[k].Name, Claim: narrowed(claim, chosen, i, k), View: view}
			problem, err := w.compile([]*resourceapi.ResourceClaim{p.Claim}, containers)
			if input := (*alloc.InputError)(nil); errors.As(err, &input) {
				continue // the class is gone; what was allocated is not affected
			} else if err != nil {
				return nil, err
			}
			if len(found) == 0 {
				left = newPurse(problem, 1)
			}
			if p.Outcome, err = left.allocate(problem, view); err != nil {
				return nil, err
			}
			found = append(found, p)
		}
	}
	return found, nil
}

// makeRoom sets what the claim could take of the node in place of what it takes, for
// the first pod there that uses it, and counts the containers of that pod which
// refer to it.
func (w *World) makeRoom(view *inventory.View, c *resourceapi.ResourceClaim, node *v1.Node) (containers []int) {
	for _, pod := range w.pods {
		if pod.Namespace != c.Namespace || pod.Spec.NodeName != node.Name || claim.Ended(pod) || !claim.ReservedFor(c, pod) {
			continue
		}
		back := w.aside(pod)
		left := w.left(node)
		back()
		others := slices.DeleteFunc(slices.Clone(pod.Status.NodeAllocatableResourceClaimStatuses), func(s v1.NodeAllocatableResourceClaimStatus) bool {
			return s.ResourceClaimName == c.Name
		})
		view.Room = claim.Room(claim.WithStatuses(pod, others), left)
		return []int{w.referencesTo(pod, c)}
	}
	view.Room = w.left(node)
	return nil
}

// referencesTo counts the containers of a pod that refer to a claim.
func (w *World) referencesTo(pod *v1.Pod, rc *resourceapi.ResourceClaim) int {
	n := 0
	claims, _ := w.Claims(pod)
	for _, c := range claims {
		if c.Object.Name == rc.Name {
			n += claim.References(pod, c.Name)
		}
	}
	return n
}

// chosenAlternatives are the alternatives that were allocated, by request.
func chosenAlternatives(c *resourceapi.ResourceClaim) map[string]string {
	chosen := map[string]string{}
	for _, r := range claim.Results(c) {
		if request, alternative, isSub := strings.Cut(r.Request, "/"); isSub {
			chosen[request] = alternative
		}
	}
	return chosen
}

// narrowed is the unallocated claim with one alternative for each prioritized
// list: the k-th for request i, the chosen one for the others.
func narrowed(claim *resourceapi.ResourceClaim, chosen map[string]string, i, k int) *resourceapi.ResourceClaim {
	narrow := claim.DeepCopy()
	narrow.Status = resourceapi.ResourceClaimStatus{}
	for n := range narrow.Spec.Devices.Requests {
		r := &narrow.Spec.Devices.Requests[n]
		var keep []resourceapi.DeviceSubRequest
		for m, sub := range r.FirstAvailable {
			if n == i && m == k || n != i && sub.Name == chosen[r.Name] {
				keep = append(keep, sub)
			}
		}
		r.FirstAvailable = keep
	}
	return narrow
}
