// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// Quotas are the ResourceQuotas of a cluster; Kubernetes' own ones count at the rim.
type Quotas interface {
	// Limits reports whether a namespace has a quota at all.
	Limits(namespace string) bool
	// Refuses returns why a claim cannot be created beside those that its namespace
	// has, empty where it can.
	Refuses(claim *resourceapi.ResourceClaim, beside []*resourceapi.ResourceClaim) string
}

// overQuota finds a claim of a pod that does not exist, and cannot be made.
func (w *World) overQuota(pod *v1.Pod, claims []Claim) *Obstacle {
	if w.options.Quotas == nil || !w.options.Quotas.Limits(pod.Namespace) {
		return nil
	}
	var beside []*resourceapi.ResourceClaim
	for _, claim := range w.claims {
		if claim.Namespace == pod.Namespace {
			beside = append(beside, claim)
		}
	}
	for _, claim := range claims {
		if !claim.New {
			continue
		}
		if why := w.options.Quotas.Refuses(claim.Object, beside); why != "" {
			return &Obstacle{Kind: OverQuota, Entry: claim.Name, Name: claim.Template, Detail: why}
		}
		beside = append(beside, claim.Object)
	}
	return nil
}
