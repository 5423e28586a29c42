// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
)

// leaveTainted finds an allocated claim that the pod must not join: it waits while others
// use that. Claims that nobody else uses are allocated anew.
func (v *Verdict) leaveTainted(snapshot *inventory.Snapshot) *Obstacle {
	left := map[*resourceapi.ResourceClaim]*resourceapi.ResourceClaim{}
	for _, c := range v.Claims {
		if c.Object.Status.Allocation == nil {
			continue
		}
		tainted := claim.Untolerated(c.Object, snapshot.LastKnown(c.Object.Status.Allocation), nil)
		switch {
		case len(tainted) == 0:
		case claim.UsedByOthers(c.Object, v.Pod):
			return &Obstacle{Kind: NotJoinable, Entry: c.Name, Name: c.Object.Name, Tainted: tainted}
		case left[c.Object] == nil:
			fresh := *c.Object
			fresh.Status = resourceapi.ResourceClaimStatus{}
			left[c.Object] = &fresh
			v.freed = append(v.freed, inventory.HoldsOf(c.Object)...)
			if c.Special {
				v.outdated = c.Object
			}
		}
	}
	v.Claims = slices.DeleteFunc(v.Claims, func(c Claim) bool { return v.outdated != nil && c.Object == v.outdated })
	for i := range v.Claims {
		if fresh := left[v.Claims[i].Object]; fresh != nil {
			v.Claims[i].Object = fresh
		}
	}
	return nil
}

// notShareable finds an allocated claim of the pod that it cannot share.
func (v *Verdict) notShareable(snapshot *inventory.Snapshot) *Obstacle {
	for _, c := range v.Claims {
		if claim.WithheldFrom(v.Pod, c.Object, snapshot) {
			return &Obstacle{Kind: NotShareable, Entry: c.Name, Name: c.Object.Name}
		}
	}
	return nil
}
