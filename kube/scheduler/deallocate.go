// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// deallocate gives the allocation of a claim up, in one write which fails if the
// claim changed since it was read: somebody may have reserved it. The devices'
// conditions go with it, so that they cannot count for the next allocation.
func (pl *Plugin) deallocate(ctx context.Context, pc *podClaim) error {
	claim := pc.claim.DeepCopy()
	claim.Status.Allocation = nil
	claim.Status.ReservedFor = nil
	claim.Status.Devices = nil
	updated, err := pl.client.ResourceV1().ResourceClaims(claim.Namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("deallocate claim %s: %w", nameOf(claim), err)
	}
	klog.FromContext(ctx).V(5).Info("deallocated claim", "resourceclaim", klog.KObj(claim), "uid", claim.UID)
	pl.observe(ctx, pc, updated)
	return nil
}

// observe makes the result of a write known before the informer delivers it.
func (pl *Plugin) observe(ctx context.Context, pc *podClaim, updated *resourceapi.ResourceClaim) {
	pc.claim = updated
	if err := pl.manager.ResourceClaims().AssumeClaimAfterAPICall(updated); err != nil {
		// The informer was faster, or the claim is gone already.
		klog.FromContext(ctx).V(5).Info("claim not stored in assume cache", "err", err, "resourceclaim", klog.KObj(updated))
	}
}
