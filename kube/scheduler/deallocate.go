// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"
)

// writer writes claims: what an attempt has decided, and what undoes it.
type writer struct {
	client  kubernetes.Interface
	manager fwk.SharedDRAManager
	clock   clock.PassiveClock
}

// deallocate gives the allocation of a claim up, in one write which fails if the
// claim changed since it was read: somebody may have reserved it. The devices'
// conditions go with it, so that they cannot count for the next allocation.
func (w *writer) deallocate(ctx context.Context, pc *podClaim) error {
	claim := pc.claim.DeepCopy()
	claim.Status.Allocation = nil
	claim.Status.ReservedFor = nil
	claim.Status.Devices = nil
	updated, err := w.client.ResourceV1().ResourceClaims(claim.Namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("deallocate claim %s: %w", nameOf(claim), err)
	}
	klog.FromContext(ctx).V(5).Info("deallocated claim", "resourceclaim", klog.KObj(claim), "uid", claim.UID)
	w.observe(ctx, pc, updated)
	return nil
}

// deallocateWhile does so whatever changes about the claim meanwhile, unless keep says why not
// to. It returns the claim as it was before.
func (w *writer) deallocateWhile(ctx context.Context, pc *podClaim, keep func(now *resourceapi.ResourceClaim) error) (before *resourceapi.ResourceClaim, err error) {
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		before = pc.claim
		err := w.deallocate(ctx, pc)
		if !apierrors.IsConflict(err) {
			return err
		}
		now, getErr := w.client.ResourceV1().ResourceClaims(before.Namespace).Get(ctx, before.Name, metav1.GetOptions{})
		if getErr != nil {
			return fmt.Errorf("get claim %s after a conflict: %w", nameOf(before), getErr)
		}
		if reason := keep(now); reason != nil {
			return reason
		}
		pc.claim = now
		return err
	})
	return before, err
}

// observe makes the result of a write known before the informer delivers it.
func (w *writer) observe(ctx context.Context, pc *podClaim, updated *resourceapi.ResourceClaim) {
	pc.claim = updated
	if err := w.manager.ResourceClaims().AssumeClaimAfterAPICall(updated); err != nil {
		// The informer was faster, or the claim is gone already.
		klog.FromContext(ctx).V(5).Info("claim not stored in assume cache", "err", err, "resourceclaim", klog.KObj(updated))
	}
}
