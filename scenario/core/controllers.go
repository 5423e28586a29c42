// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/scenario"
)

// What follows is done by the resource claim controller in a cluster.

// makeClaims creates the claims that pods want from templates.
func (b *Backend) makeClaims(state *scenario.State) {
	for _, pod := range state.Pods {
		for ref, c := range state.PodClaims(pod) {
			r := ref.Entry
			if c != nil || ref.Special() || r.ResourceClaimTemplateName == nil || claim.Ended(pod) {
				continue
			}
			template, found := get[*resourceapi.ResourceClaimTemplate](b, "ResourceClaimTemplate", pod.Namespace, *r.ResourceClaimTemplateName)
			if found {
				b.makeClaim(pod, r.Name, template)
			}
		}
	}
}

func (b *Backend) makeClaim(pod *v1.Pod, alias string, template *resourceapi.ResourceClaimTemplate) {
	pod, _ = get[*v1.Pod](b, "Pod", pod.Namespace, pod.Name)
	name := pod.Name + "-" + alias
	yes := true
	claim := &scenario.Claim{Spec: *template.Spec.Spec.DeepCopy()}
	claim.SetGroupVersionKind(resourceapi.SchemeGroupVersion.WithKind("ResourceClaim"))
	claim.Namespace, claim.Name = pod.Namespace, name
	claim.Labels = template.Spec.Labels
	claim.Annotations = map[string]string{resourceapi.PodResourceClaimAnnotation: alias}
	claim.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: &yes, BlockOwnerDeletion: &yes,
	}}
	b.apply(claim)
	pod = pod.DeepCopy()
	pod.Status.ResourceClaimStatuses = append(pod.Status.ResourceClaimStatuses, v1.PodResourceClaimStatus{Name: alias, ResourceClaimName: &name})
	b.put(pod)
}

// releaseClaims takes back what pods that are gone, or have ended, do not need.
func (b *Backend) releaseClaims(state *scenario.State) {
	for _, c := range state.ResourceClaims {
		kept := slices.DeleteFunc(slices.Clone(c.Status.ReservedFor), func(r resourceapi.ResourceClaimConsumerReference) bool {
			pod, found := get[*v1.Pod](b, "Pod", c.Namespace, r.Name)
			return !found || pod.UID != r.UID || claim.Ended(pod)
		})
		if len(kept) < len(c.Status.ReservedFor) {
			released := c.DeepCopy()
			released.Status.ReservedFor = kept
			if len(kept) == 0 {
				released.Status = resourceapi.ResourceClaimStatus{}
			}
			b.put(released)
		}
		if len(kept) == 0 && b.unwanted(c) {
			b.remove(c)
		}
	}
}

// unwanted reports whether an unused claim goes: it was deleted, or it was made
// for a pod that does not need it any more.
func (b *Backend) unwanted(c *scenario.Claim) bool {
	if c.DeletionTimestamp != nil {
		return true
	}
	for _, owner := range c.OwnerReferences {
		pod, found := get[*v1.Pod](b, "Pod", c.Namespace, owner.Name)
		if !found || pod.UID != owner.UID || claim.Ended(pod) {
			return true
		}
	}
	return false
}
