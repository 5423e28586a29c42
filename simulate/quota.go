// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"iter"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/claim"
)

// Quotas are the ResourceQuotas of a cluster; Kubernetes' own ones count at the rim.
type Quotas interface {
	// Limits reports whether a namespace has a quota at all.
	Limits(namespace string) bool
	// Refuses returns why a claim cannot be created beside the claims and pods that its
	// namespace has, empty where it can. A special claim is that of the pod, nil for others:
	// what a pod that exists asks for was counted when it was created.
	Refuses(claim *resourceapi.ResourceClaim, pod *v1.Pod, beside []*resourceapi.ResourceClaim, pods []*v1.Pod) string
}

// overQuota finds a claim of a pod that does not exist, and cannot be made.
func (w *World) overQuota(pod *v1.Pod, claims []Claim) *Obstacle {
	if w.options.Quotas == nil || !w.options.Quotas.Limits(pod.Namespace) {
		return nil
	}
	beside, pods := w.claimsIn(pod.Namespace), w.podsIn(pod.Namespace)
	for _, claim := range claims {
		if !claim.New {
			continue
		}
		if why := w.options.Quotas.Refuses(claim.Object, nil, beside, pods); why != "" {
			return &Obstacle{Kind: OverQuota, Entry: claim.Name, Name: claim.Template, Detail: why}
		}
		beside = append(beside, claim.Object)
	}
	return nil
}

// specialOverQuota says why the claim for extended resources of a pod cannot be made
// beside the others of the pod, empty where it can. Only nodes where devices serve the
// resources need that claim.
func (w *World) specialOverQuota(v *Verdict, special *resourceapi.ResourceClaim) string {
	if w.options.Quotas == nil || !w.options.Quotas.Limits(special.Namespace) {
		return ""
	}
	var beside []*resourceapi.ResourceClaim
	for _, c := range w.claimsIn(special.Namespace) {
		if !claim.UsesSpecial(v.Pod, c) { // it is used, or replaced
			beside = append(beside, c)
		}
	}
	for _, c := range v.Claims {
		if c.New {
			beside = append(beside, c.Object)
		}
	}
	return w.options.Quotas.Refuses(special, v.Pod, beside, w.podsIn(special.Namespace))
}

func (w *World) claimsIn(namespace string) []*resourceapi.ResourceClaim {
	return in(namespace, maps.Values(w.claims))
}

func (w *World) podsIn(namespace string) []*v1.Pod { return in(namespace, slices.Values(w.pods)) }

func in[T metav1.Object](namespace string, objects iter.Seq[T]) []T {
	var found []T
	for o := range objects {
		if o.GetNamespace() == namespace {
			found = append(found, o)
		}
	}
	return found
}
