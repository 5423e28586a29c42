// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/kube/informer"
	"kerf.dev/kerf/kube/scheduler/ledger"
	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// Waiter waits until the devices of a pod are ready, and hands over to it those that
// have arrived.
type Waiter struct {
	Handle  fwk.Handle
	Client  kubernetes.Interface
	Manager fwk.SharedDRAManager
	Clock   clock.Clock
	Nodes   corelisters.NodeLister
	Feed    *informer.Feed
	// WorkloadClaims is whether claims can be reserved for PodGroups.
	WorkloadClaims bool
	Compiler       *podclaim.Compiler
	Writer         *podclaim.Writer
	Bindings       *podclaim.Bindings
	Taints         *Taints
	Users          *ledger.Users
	Watch          *ledger.Watch
	Failures       *ledger.Failures
	Exchanges      *ledger.Exchanges
}

// Await waits until the devices of all claims are ready: their binding
// conditions are true (KEP-5007), and devices that were attached for the pod are
// handed over to it. It reacts to changes of the claims as they come in. If devices
// fail or take too long their claims are deallocated at once, unless somebody else uses
// them. again says that there is something else to try at once.
func (h *Waiter) Await(ctx context.Context, all []*podclaim.Claim, pod *v1.Pod, nodeName string) (again bool, err error) {
	var claims []*podclaim.Claim
	for _, pc := range all {
		if claim.HasBindingConditions(pc.Claim) {
			claims = append(claims, pc)
		}
	}
	if len(claims) == 0 {
		return false, nil
	}
	h.Handle.EventRecorder().WithLogger(klog.FromContext(ctx)).Eventf(pod, nil, v1.EventTypeNormal, "BindingConditionsPending", "Scheduling",
		"waiting for binding conditions for device on node %s", nodeName)
	started := h.Clock.Now()
	err = h.untilReady(ctx, claims, pod, nodeName, started)
	h.recordWait(all, err, h.Clock.Since(started))
	if err == nil {
		return false, h.Taints.taintedMeanwhile(ctx, all)
	}
	broken := (*podclaim.BindingError)(nil)
	if !errors.As(err, &broken) {
		return false, err
	}
	fresh, err := h.giveUp(ctx, claims, started, pod)
	if err != nil {
		return false, fmt.Errorf("%s\n%w", broken.Error(), err)
	}
	// A pod that ran into the timeout has time for a backoff, in which its condition can be
	// seen, and devices that failed the claim before should not be tried again and again.
	return fresh && broken.Timeout == 0, broken
}

// untilReady returns when all devices are ready and handed over, or the reason why
// they will not become so.
func (h *Waiter) untilReady(ctx context.Context, claims []*podclaim.Claim, pod *v1.Pod, nodeName string, started time.Time) error {
	changed, done := h.Watch.Wait(claims)
	defer done()
	for {
		ready, deadline, err := h.look(claims, pod, started)
		if err != nil {
			return err
		}
		if ready {
			again, err := h.handOver(ctx, claims, pod, nodeName, started)
			if err != nil || !again {
				return err
			}
		}
		if err := ledger.Sleep(ctx, h.Clock, changed, deadline); err != nil {
			return err
		}
	}
}

// look finds out how far the devices of the claims are, and by when they have to be
// ready.
func (h *Waiter) look(claims []*podclaim.Claim, pod *v1.Pod, started time.Time) (ready bool, deadline time.Time, err error) {
	ready, deadline = true, started.Add(h.Bindings.Timeout)
	for _, pc := range claims {
		exchanging, err := h.refresh(pc, pod)
		if err != nil {
			return false, deadline, err
		}
		if broken := h.Bindings.BrokenBinding(pc.Claim, started); broken != nil {
			return false, deadline, broken
		}
		if exchanging || !claim.BindingOf(pc.Claim).Ready() {
			ready = false
		}
		d := h.Bindings.BindingDeadline(pc.Claim, started)
		if exchanging && !h.Clock.Now().Before(d) {
			return false, deadline, fmt.Errorf("claim %s was not exchanged in time for the devices that have arrived", podclaim.NameOf(pc.Claim))
		}
		if claim.HasBindingConditions(pc.Claim) && d.Before(deadline) {
			deadline = d
		}
	}
	return ready, deadline, nil
}

// refresh gets the claim as it is now. It must still be the allocation that was
// made for the pod, or what that was exchanged for on behalf of another pod that
// shares the claim. While that goes on the claim stays as it was.
func (h *Waiter) refresh(pc *podclaim.Claim, pod *v1.Pod) (exchanging bool, err error) {
	claim, err := h.Watch.Newest(pc.Claim)
	if err != nil {
		return false, err
	}
	if claim.DeletionTimestamp == nil && h.Exchanges.Outdated(claim) {
		return true, nil
	}
	if err := h.unlike(claim, pc, pod); err != nil {
		return false, err
	}
	if pc.Pending != nil {
		pc.Pending = claim.Status.Allocation
	}
	pc.Claim = claim
	return false, nil
}

// unlike says why a claim is not what the pod waits for any more.
func (h *Waiter) unlike(claim *resourceapi.ResourceClaim, pc *podclaim.Claim, pod *v1.Pod) error {
	switch now := claim.Status.Allocation; {
	case claim.UID != pc.Claim.UID:
		return fmt.Errorf("claim %s got deleted and created anew in the meantime", podclaim.NameOf(claim))
	case claim.DeletionTimestamp != nil:
		return fmt.Errorf("claim %s is being deleted", podclaim.NameOf(claim))
	case !podclaim.SameAllocation(now, pc.Claim.Status.Allocation) && !h.Exchanges.Made(claim.UID, pc.Claim.Status.Allocation, now):
		return fmt.Errorf("claim %s got deallocated elsewhere in the meantime", podclaim.NameOf(claim))
	case !resourceclaim.IsReservedForPod(pod, claim, h.WorkloadClaims):
		return fmt.Errorf("claim %s is not reserved for the pod any more", podclaim.NameOf(claim))
	}
	return nil
}

// giveUp deallocates the claims with devices that will not become ready. A claim
// that somebody else uses, or that changes at the same time, stays: the next
// attempt decides about it. fresh is false if the devices failed the claims
// before.
func (h *Waiter) giveUp(ctx context.Context, claims []*podclaim.Claim, started time.Time, pod *v1.Pod) (fresh bool, err error) {
	for _, pc := range claims {
		broken := pc.Broken
		if broken == nil && pc.Claim.Status.Allocation != nil {
			broken = h.Bindings.BrokenBinding(pc.Claim, started)
		}
		if broken == nil || pc.Consumer.UID != pod.UID || !claim.ReservedForNobodyBut(pc.Claim, pod.UID) {
			continue
		}
		fresh = h.Failures.Add(pc.Key(), broken.Devices) || fresh
		err := h.Writer.Deallocate(ctx, pc)
		switch {
		case err == nil:
			pc.Touched = false
		case apierrors.IsNotFound(err):
			h.Failures.Forget(pc.Key())
		case !apierrors.IsConflict(err):
			return fresh, err
		}
	}
	return fresh, nil
}
