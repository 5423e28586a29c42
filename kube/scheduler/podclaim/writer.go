// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package podclaim

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

// Writer writes claims: what an attempt has decided, and what undoes it.
type Writer struct {
	Client  kubernetes.Interface
	Manager fwk.SharedDRAManager
	Clock   clock.PassiveClock
}

// Deallocate gives the allocation of a claim up, in one write which fails if the
// claim changed since it was read: somebody may have reserved it. The devices'
// conditions go with it, so that they cannot count for the next allocation.
func (w *Writer) Deallocate(ctx context.Context, pc *Claim) error {
	claim := pc.Claim.DeepCopy()
	claim.Status.Allocation = nil
	claim.Status.ReservedFor = nil
	claim.Status.Devices = nil
	updated, err := w.Client.ResourceV1().ResourceClaims(claim.Namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("deallocate claim %s: %w", NameOf(claim), err)
	}
	klog.FromContext(ctx).V(5).Info("deallocated claim", "resourceclaim", klog.KObj(claim), "uid", claim.UID)
	w.Observe(ctx, pc, updated)
	return nil
}

// DeallocateWhile does so whatever changes about the claim meanwhile, unless keep says why not
// to. It returns the claim as it was before.
func (w *Writer) DeallocateWhile(ctx context.Context, pc *Claim, keep func(now *resourceapi.ResourceClaim) error) (before *resourceapi.ResourceClaim, err error) {
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		before = pc.Claim
		err := w.Deallocate(ctx, pc)
		if !apierrors.IsConflict(err) {
			return err
		}
		now, getErr := w.Client.ResourceV1().ResourceClaims(before.Namespace).Get(ctx, before.Name, metav1.GetOptions{})
		if getErr != nil {
			return fmt.Errorf("get claim %s after a conflict: %w", NameOf(before), getErr)
		}
		if reason := keep(now); reason != nil {
			return reason
		}
		pc.Claim = now
		return err
	})
	return before, err
}

// Observe makes the result of a write known before the informer delivers it.
func (w *Writer) Observe(ctx context.Context, pc *Claim, updated *resourceapi.ResourceClaim) {
	pc.Claim = updated
	if err := w.Manager.ResourceClaims().AssumeClaimAfterAPICall(updated); err != nil {
		// The informer was faster, or the claim is gone already.
		klog.FromContext(ctx).V(5).Info("claim not stored in assume cache", "err", err, "resourceclaim", klog.KObj(updated))
	}
}

// MayBeBound reports whether the pod runs although binding it returned an error:
// a reply can get lost. Its claims must stay then. The same goes if nobody can
// tell.
func (w *Writer) MayBeBound(ctx context.Context, pod *v1.Pod) bool {
	current, err := w.Current(ctx, pod)
	if err != nil {
		klog.FromContext(ctx).Error(err, "cannot tell whether the pod was bound, its claims stay reserved", "pod", klog.KObj(pod))
		return true
	}
	return current != nil && current.Spec.NodeName != ""
}

// Current returns the pod as it is at the API server, nil if it is gone.
func (w *Writer) Current(ctx context.Context, pod *v1.Pod) (*v1.Pod, error) {
	current, err := w.Client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
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

// UndoReservation takes the consumer out of the claim as it is now. If the
// allocation came from this attempt, which knows of nobody else who needs it
// (alone), and nobody else uses it, that goes too.
func (w *Writer) UndoReservation(ctx context.Context, pc *Claim, consumer types.UID, alone bool) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		current, err := w.Client.ResourceV1().ResourceClaims(pc.Claim.Namespace).Get(ctx, pc.Claim.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("get claim %s: %w", NameOf(pc.Claim), err)
		}
		if current.UID != pc.Claim.UID || !Consumes(current, consumer) {
			return nil
		}
		if alone && claim.ReservedForNobodyBut(current, consumer) && SameAllocation(current.Status.Allocation, pc.Pending) {
			pc.Claim = current
			return w.Deallocate(ctx, pc)
		}
		updated, err := w.RemoveConsumer(ctx, current, consumer)
		if err == nil {
			w.Observe(ctx, pc, updated)
		}
		return err
	})
}

// RemoveConsumer takes one entry out of reservedFor. A patch can do that without
// having seen the latest version of the claim.
func (w *Writer) RemoveConsumer(ctx context.Context, claim *resourceapi.ResourceClaim, consumer types.UID) (*resourceapi.ResourceClaim, error) {
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"reservedFor":[{"$patch":"delete","uid":%q}]}}`, claim.UID, consumer)
	updated, err := w.patchStatus(ctx, claim, patch)
	if err != nil {
		return nil, fmt.Errorf("remove reservation from claim %s: %w", NameOf(claim), err)
	}
	return updated, nil
}

func (w *Writer) patchStatus(ctx context.Context, claim *resourceapi.ResourceClaim, patch []byte) (*resourceapi.ResourceClaim, error) {
	return w.Client.ResourceV1().ResourceClaims(claim.Namespace).Patch(ctx, claim.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
}
