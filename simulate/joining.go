// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
)

// leaveTainted finds an allocated claim that the pod must not join: it waits while others
// use that. Claims that nobody else uses are allocated anew, and one for extended resources
// that others serve by now.
func (w *World) leaveTainted(v *Verdict, snapshot *inventory.Snapshot) *Obstacle {
	left := map[*resourceapi.ResourceClaim]*resourceapi.ResourceClaim{}
	for _, c := range v.Claims {
		if c.Object.Status.Allocation == nil {
			continue
		}
		tainted := claim.Untolerated(c.Object, snapshot.LastKnown(c.Object.Status.Allocation), nil)
		used := claim.UsedByOthers(c.Object, v.Pod)
		overtaken := c.Special && !used && w.overtaken(v.Pod, c.Object)
		switch {
		case len(tainted) == 0 && !overtaken:
		case used:
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

// overtaken reports whether a claim for extended resources has not what a pod without a
// node would get at any node where the claim can be used: other classes serve them.
func (w *World) overtaken(pod *v1.Pod, special *resourceapi.ResourceClaim) bool {
	return pod.Spec.NodeName == "" && !slices.ContainsFunc(w.cluster.Nodes, func(node *v1.Node) bool {
		return claim.Reaches(special.Status.Allocation, node) &&
			equality.Semantic.DeepEqual(claim.NewSpecial(pod, w.servedOn(pod, node)).Spec, special.Spec)
	})
}

// Anew reports whether the pod gets another allocation for a claim that has one.
func (v *Verdict) Anew() bool { return len(v.freed) > 0 }

// notShareable finds an allocated claim of the pod that it cannot share.
func (v *Verdict) notShareable(snapshot *inventory.Snapshot) *Obstacle {
	for _, c := range v.Claims {
		if claim.WithheldFrom(v.Pod, c.Object, snapshot) {
			return &Obstacle{Kind: NotShareable, Entry: c.Name, Name: c.Object.Name}
		}
	}
	return nil
}
