// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
)

// bindClaim writes what Reserve decided: the allocation, where there is none yet,
// and the reservation. Changes of the claim that do not matter here are met by
// writing again on top of them.
func (w *writer) bindClaim(ctx context.Context, pc *podClaim) error {
	pc.touched = true
	current := pc.claim
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if current == nil {
			var err error
			current, err = w.client.ResourceV1().ResourceClaims(pc.claim.Namespace).Get(ctx, pc.claim.Name, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("get claim %s after a conflict: %w", nameOf(pc.claim), err)
			}
		}
		updated, err := w.writeClaim(ctx, current, pc)
		if err != nil {
			current = nil
			return err
		}
		current = updated
		return nil
	})
	if err != nil {
		return err
	}
	w.observe(ctx, pc, current)
	klog.FromContext(ctx).V(5).Info("reserved claim", "resourceclaim", klog.Format(current), "consumer", pc.consumer.Name)
	return nil
}

// writeClaim checks the claim as it is now and writes it.
func (w *writer) writeClaim(ctx context.Context, current *resourceapi.ResourceClaim, pc *podClaim) (*resourceapi.ResourceClaim, error) {
	name := nameOf(current)
	allocation := pc.allocation()
	switch {
	case current.UID != pc.claim.UID:
		return nil, fmt.Errorf("claim %s got deleted and created anew in the meantime", name)
	case current.DeletionTimestamp != nil:
		return nil, fmt.Errorf("claim %s got deleted in the meantime", name)
	case current.Status.Allocation == nil && pc.pending == nil:
		return nil, fmt.Errorf("claim %s got deallocated elsewhere in the meantime", name)
	case current.Status.Allocation == nil:
		return w.writeAllocation(ctx, current, pc)
	case !sameAllocation(current.Status.Allocation, allocation):
		return nil, fmt.Errorf("claim %s got allocated elsewhere in the meantime", name)
	case consumes(current, pc.consumer.UID):
		// A pod of the same group was faster, or an earlier write got
		// through without anybody knowing.
		return current, nil
	case pc.exclusive && len(current.Status.ReservedFor) > 0:
		return nil, fmt.Errorf("claim %s cannot be shared, as its devices stand for resources of the node, and got reserved for another pod in the meantime", name)
	}
	updated, err := w.addConsumer(ctx, current, pc)
	if err != nil {
		return nil, err
	}
	if !sameAllocation(updated.Status.Allocation, allocation) {
		return nil, fmt.Errorf("claim %s got allocated elsewhere in the meantime", name)
	}
	return updated, nil
}

// writeAllocation sets the finalizer, which protects devices in use, and then
// allocation and reservation in one write. Both fail if the claim has changed.
func (w *writer) writeAllocation(ctx context.Context, current *resourceapi.ResourceClaim, pc *podClaim) (*resourceapi.ResourceClaim, error) {
	claims := w.client.ResourceV1().ResourceClaims(current.Namespace)
	claim := current.DeepCopy()
	if !slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
		claim.Finalizers = append(claim.Finalizers, resourceapi.Finalizer)
		updated, err := claims.Update(ctx, claim, metav1.UpdateOptions{})
		if err != nil {
			return nil, fmt.Errorf("add finalizer to claim %s: %w", nameOf(current), err)
		}
		claim = updated
	}
	claim.Status.Allocation = pc.pending.DeepCopy()
	claim.Status.Allocation.AllocationTimestamp = new(metav1.NewTime(w.clock.Now()).Rfc3339Copy())
	for _, consumer := range append([]resourceapi.ResourceClaimConsumerReference{pc.consumer}, pc.others...) {
		if !consumes(claim, consumer.UID) {
			claim.Status.ReservedFor = append(claim.Status.ReservedFor, consumer)
		}
	}
	updated, err := claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("add allocation and reservation to claim %s: %w", nameOf(current), err)
	}
	return updated, nil
}

// addConsumer adds an entry to reservedFor. As a patch it does not conflict with
// the many others that do the same to a shared claim; the API server refuses it
// if the claim is not allocated any more or has too many consumers.
func (w *writer) addConsumer(ctx context.Context, claim *resourceapi.ResourceClaim, pc *podClaim) (*resourceapi.ResourceClaim, error) {
	metadata := map[string]any{"uid": claim.UID}
	if pc.exclusive {
		metadata["resourceVersion"] = claim.ResourceVersion // whoever comes first has it
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": metadata,
		"status":   map[string]any{"reservedFor": []resourceapi.ResourceClaimConsumerReference{pc.consumer}},
	})
	if err != nil {
		return nil, fmt.Errorf("add reservation to claim %s: %w", nameOf(claim), err)
	}
	updated, err := w.patchStatus(ctx, claim, patch)
	if err != nil {
		return nil, fmt.Errorf("add reservation to claim %s: %w", nameOf(claim), err)
	}
	return updated, nil
}
