// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package podclaim

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

// BindClaim writes what Reserve decided: the allocation, where there is none yet,
// and the reservation. Changes of the claim that do not matter here are met by
// writing again on top of them.
func (w *Writer) BindClaim(ctx context.Context, pc *Claim) error {
	pc.Touched = true
	current := pc.Claim
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if current == nil {
			var err error
			current, err = w.Client.ResourceV1().ResourceClaims(pc.Claim.Namespace).Get(ctx, pc.Claim.Name, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("get claim %s after a conflict: %w", NameOf(pc.Claim), err)
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
	w.Observe(ctx, pc, current)
	klog.FromContext(ctx).V(5).Info("reserved claim", "resourceclaim", klog.Format(current), "consumer", pc.Consumer.Name)
	return nil
}

// writeClaim checks the claim as it is now and writes it.
func (w *Writer) writeClaim(ctx context.Context, current *resourceapi.ResourceClaim, pc *Claim) (*resourceapi.ResourceClaim, error) {
	name := NameOf(current)
	allocation := pc.Allocation()
	switch {
	case current.UID != pc.Claim.UID:
		return nil, fmt.Errorf("claim %s got deleted and created anew in the meantime", name)
	case current.DeletionTimestamp != nil:
		return nil, fmt.Errorf("claim %s got deleted in the meantime", name)
	case current.Status.Allocation == nil && pc.Pending == nil:
		return nil, fmt.Errorf("claim %s got deallocated elsewhere in the meantime", name)
	case current.Status.Allocation == nil:
		return w.writeAllocation(ctx, current, pc)
	case !SameAllocation(current.Status.Allocation, allocation):
		return nil, fmt.Errorf("claim %s got allocated elsewhere in the meantime", name)
	case Consumes(current, pc.Consumer.UID):
		// A pod of the same group was faster, or an earlier write got
		// through without anybody knowing.
		return current, nil
	case pc.Exclusive && len(current.Status.ReservedFor) > 0:
		return nil, fmt.Errorf("claim %s cannot be shared, as its devices stand for resources of the node, and got reserved for another pod in the meantime", name)
	}
	updated, err := w.addConsumer(ctx, current, pc)
	if err != nil {
		return nil, err
	}
	if !SameAllocation(updated.Status.Allocation, allocation) {
		return nil, fmt.Errorf("claim %s got allocated elsewhere in the meantime", name)
	}
	return updated, nil
}

// writeAllocation sets the finalizer, which protects devices in use, and then
// allocation and reservation in one write. Both fail if the claim has changed.
func (w *Writer) writeAllocation(ctx context.Context, current *resourceapi.ResourceClaim, pc *Claim) (*resourceapi.ResourceClaim, error) {
	claims := w.Client.ResourceV1().ResourceClaims(current.Namespace)
	claim := current.DeepCopy()
	if !slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
		claim.Finalizers = append(claim.Finalizers, resourceapi.Finalizer)
		updated, err := claims.Update(ctx, claim, metav1.UpdateOptions{})
		if err != nil {
			return nil, fmt.Errorf("add finalizer to claim %s: %w", NameOf(current), err)
		}
		claim = updated
	}
	claim.Status.Allocation = pc.Pending.DeepCopy()
	claim.Status.Allocation.AllocationTimestamp = new(metav1.NewTime(w.Clock.Now()).Rfc3339Copy())
	for _, consumer := range append([]resourceapi.ResourceClaimConsumerReference{pc.Consumer}, pc.Others...) {
		if !Consumes(claim, consumer.UID) {
			claim.Status.ReservedFor = append(claim.Status.ReservedFor, consumer)
		}
	}
	updated, err := claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("add allocation and reservation to claim %s: %w", NameOf(current), err)
	}
	return updated, nil
}

// addConsumer adds an entry to reservedFor. As a patch it does not conflict with
// the many others that do the same to a shared claim; the API server refuses it
// if the claim is not allocated any more or has too many consumers.
func (w *Writer) addConsumer(ctx context.Context, claim *resourceapi.ResourceClaim, pc *Claim) (*resourceapi.ResourceClaim, error) {
	metadata := map[string]any{"uid": claim.UID}
	if pc.Exclusive {
		metadata["resourceVersion"] = claim.ResourceVersion // whoever comes first has it
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": metadata,
		"status":   map[string]any{"reservedFor": []resourceapi.ResourceClaimConsumerReference{pc.Consumer}},
	})
	if err != nil {
		return nil, fmt.Errorf("add reservation to claim %s: %w", NameOf(claim), err)
	}
	updated, err := w.patchStatus(ctx, claim, patch)
	if err != nil {
		return nil, fmt.Errorf("add reservation to claim %s: %w", NameOf(claim), err)
	}
	return updated, nil
}
