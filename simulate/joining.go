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

// leaveUnusable finds an allocated claim that is of no use to the pod, as a device of it
// has taints or will not become ready: the pod waits while others use that. Claims that
// nobody else uses are allocated anew, and one for extended resources that others serve by
// now.
func (w *World) leaveUnusable(v *Verdict, snapshot *inventory.Snapshot) *Obstacle {
	left := map[*resourceapi.ResourceClaim]*resourceapi.ResourceClaim{}
	for _, c := range v.Claims {
		if c.Object.Status.Allocation == nil {
			continue
		}
		tainted := claim.Untolerated(c.Object, snapshot.LastKnown(c.Object.Status.Allocation), nil)
		binding := claim.BindingOf(c.Object)
		used := claim.UsedByOthers(c.Object, v.Pod)
		overtaken := c.Special && !used && w.overtaken(v.Pod, c.Object)
		switch {
		case len(tainted) == 0 && len(binding.Failed) == 0 && !overtaken:
			if len(binding.Pending) > 0 {
				v.Unready = append(v.Unready, Obstacle{Kind: NotReady, Entry: c.Name, Name: c.Object.Name, Binding: binding})
			}
		case used && len(tainted) > 0:
			return &Obstacle{Kind: NotJoinable, Entry: c.Name, Name: c.Object.Name, Tainted: tainted}
		case used:
			return &Obstacle{Kind: NotReady, Entry: c.Name, Name: c.Object.Name, Binding: binding}
		case left[c.Object] == nil:
			v.Failed = append(v.Failed, binding.Failed...)
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
