// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"iter"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/scenario"
)

// What follows is done by controllers in a cluster.

// inUse yields the pods on nodes with each of their allocated claims.
func (b *Backend) inUse() iter.Seq2[*v1.Pod, *scenario.Claim] {
	return func(yield func(*v1.Pod, *scenario.Claim) bool) {
		for _, pod := range b.all().Pods {
			if pod.Spec.NodeName == "" || claim.Ended(pod) {
				continue
			}
			for ref := range claim.Refs(pod) {
				if c, found := b.claim(pod.Namespace, ref.Claim); found && c.Status.Allocation != nil && !yield(pod, c) {
					return
				}
			}
		}
	}
}

// evict deletes pods with devices that must not be used any more (KEP-5055).
func (b *Backend) evict() {
	for pod, c := range b.inUse() {
		devices := b.options.Inventory.Snapshot().LastKnown(c.Status.Allocation)
		if slices.ContainsFunc(claim.Untolerated(c, devices, nil), noExecute) {
			b.remove(pod)
		}
	}
}

func noExecute(t claim.Tainted) bool {
	return slices.ContainsFunc(t.Taints, func(taint inventory.Taint) bool {
		return taint.Effect == resourceapi.DeviceTaintEffectNoExecute
	})
}

// makeClaims creates the claims that pods want from templates.
func (b *Backend) makeClaims() {
	for _, pod := range b.all().Pods {
		if claim.Ended(pod) {
			continue
		}
		claims, _ := b.world().Claims(pod)
		made := pod.DeepCopy()
		for _, c := range claims {
			if c.New {
				b.create(c.Object.DeepCopy())
				made.Status.ResourceClaimStatuses = append(made.Status.ResourceClaimStatuses, v1.PodResourceClaimStatus{Name: c.Name, ResourceClaimName: &c.Object.Name})
				b.put(made)
			}
		}
	}
}

// releaseClaims takes back what pods that are gone, or have ended, do not need.
func (b *Backend) releaseClaims() {
	for _, c := range b.all().ResourceClaims {
		kept := slices.DeleteFunc(slices.Clone(c.Status.ReservedFor), func(r claim.Consumer) bool {
			return !b.needed(c.Namespace, r.Name, r.UID)
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

// reserveClaims lets pods that somebody gave a node have the claims that are allocated.
func (b *Backend) reserveClaims() {
	for pod, c := range b.inUse() {
		if !claim.ReservedFor(c, pod) {
			reserved := c.DeepCopy()
			reserved.Status.ReservedFor = append(reserved.Status.ReservedFor, claim.AsConsumer(pod))
			b.put(reserved)
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
		if !b.needed(c.Namespace, owner.Name, owner.UID) {
			return true
		}
	}
	return false
}

// needed reports whether there is a pod that has not ended.
func (b *Backend) needed(namespace, name string, uid types.UID) bool {
	pod, err := b.pod(namespace, name)
	return err == nil && pod.UID == uid && !claim.Ended(pod)
}
