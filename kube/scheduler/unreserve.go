// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/claim"
)

// Unreserve undoes what Reserve and PreBind did for the pod, and only that: what
// other pods share stays. It may be called repeatedly and without Reserve.
func (pl *Plugin) Unreserve(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, nodeName string) {
	logger := klog.FromContext(ctx)
	s, err := stateOf(cs)
	if err != nil || s == nil {
		return
	}
	group, err := groupStateOf(cs)
	if err != nil {
		return
	}
	if s.bindable && pl.writer.mayBeBound(ctx, pod) {
		return
	}
	pl.ledger.underWay.turn(pod.UID)
	defer pl.arrived(pod.UID)
	pl.ledger.inFlight.remove(nodeName, pod.UID)
	pl.status.clearStatuses(ctx, s.attempt, pod)
	defer pl.taints.releaseDevices(s.attempt, pod)
	for _, pc := range s.claims {
		if !pl.specialClaims.withdrawSpecial(ctx, pc, pod) {
			continue
		}
		// AssumedClaimRestore is not called for: only what the API server
		// returned was assumed. The cache would go back to an older version,
		// and stay there if the informer has already delivered the newer one.
		last := pl.manager.ResourceClaims().MaybeRemoveClaimPendingAllocation(pc.key(), false)
		if last && group != nil {
			delete(group.pending, pc.key())
		}
		// The consumer of a claim of the group is not this pod but all of it.
		if !pc.touched || pc.consumer.UID != pod.UID {
			continue
		}
		pc.touched = false
		// Pods of a group that share a pending allocation are about to use it.
		if err := pl.writer.undoReservation(ctx, pc, pod.UID, last || s.bindable); err != nil {
			// The claim stays with the pod, whose next attempt uses it.
			logger.Error(err, "unreserve", "resourceclaim", klog.KObj(pc.claim), "pod", klog.KObj(pod))
		}
	}
}

// arrived ends the way of a pod that has given back what it could.
func (pl *Plugin) arrived(pod types.UID) {
	if _, unsettled := pl.ledger.specials.isUnsettled(pod); unsettled {
		pl.ledger.underWay.stay(pod)
		return
	}
	pl.ledger.underWay.end(pod)
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

// consumes reports whether the claim is reserved for the consumer.
func consumes(claim *resourceapi.ResourceClaim, consumer types.UID) bool {
	return slices.ContainsFunc(claim.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool { return r.UID == consumer })
}
