// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"kerf.dev/kerf/claim"
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

// mayBeBound reports whether the pod runs although binding it returned an error:
// a reply can get lost. Its claims must stay then. The same goes if nobody can
// tell.
func (w *writer) mayBeBound(ctx context.Context, pod *v1.Pod) bool {
	current, err := w.current(ctx, pod)
	if err != nil {
		klog.FromContext(ctx).Error(err, "cannot tell whether the pod was bound, its claims stay reserved", "pod", klog.KObj(pod))
		return true
	}
	return current != nil && current.Spec.NodeName != ""
}

// current returns the pod as it is at the API server, nil if it is gone.
func (w *writer) current(ctx context.Context, pod *v1.Pod) (*v1.Pod, error) {
	current, err := w.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get pod %s: %w", klog.KObj(pod), err)
	case current.UID != pod.UID:
		return nil, nil
	}
	return current, nil
}

// undoReservation takes the consumer out of the claim as it is now. If the
// allocation came from this attempt, which knows of nobody else who needs it
// (alone), and nobody else uses it, that goes too.
func (w *writer) undoReservation(ctx context.Context, pc *podClaim, consumer types.UID, alone bool) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		current, err := w.client.ResourceV1().ResourceClaims(pc.claim.Namespace).Get(ctx, pc.claim.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("get claim %s: %w", nameOf(pc.claim), err)
		}
		if current.UID != pc.claim.UID || !consumes(current, consumer) {
			return nil
		}
		if alone && claim.ReservedForNobodyBut(current, consumer) && sameAllocation(current.Status.Allocation, pc.pending) {
			pc.claim = current
			return w.deallocate(ctx, pc)
		}
		updated, err := w.removeConsumer(ctx, current, consumer)
		if err == nil {
			w.observe(ctx, pc, updated)
		}
		return err
	})
}

// removeConsumer takes one entry out of reservedFor. A patch can do that without
// having seen the latest version of the claim.
func (w *writer) removeConsumer(ctx context.Context, claim *resourceapi.ResourceClaim, consumer types.UID) (*resourceapi.ResourceClaim, error) {
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"reservedFor":[{"$patch":"delete","uid":%q}]}}`, claim.UID, consumer)
	updated, err := w.patchStatus(ctx, claim, patch)
	if err != nil {
		return nil, fmt.Errorf("remove reservation from claim %s: %w", nameOf(claim), err)
	}
	return updated, nil
}

func (w *writer) patchStatus(ctx context.Context, claim *resourceapi.ResourceClaim, patch []byte) (*resourceapi.ResourceClaim, error) {
	return w.client.ResourceV1().ResourceClaims(claim.Namespace).Patch(ctx, claim.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
}
