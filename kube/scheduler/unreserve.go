// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
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
	if s.bindable && pl.writer.MayBeBound(ctx, pod) {
		return
	}
	pl.ledger.UnderWay.Turn(pod.UID)
	defer pl.arrived(pod.UID)
	pl.ledger.InFlight.Remove(nodeName, pod.UID)
	pl.status.clearStatuses(ctx, s.attempt, pod)
	defer pl.taints.Release(s.claims, pod)
	for _, pc := range s.claims {
		if !pl.specialClaims.Withdraw(ctx, pc, pod) {
			continue
		}
		// AssumedClaimRestore is not called for: only what the API server
		// returned was assumed. The cache would go back to an older version,
		// and stay there if the informer has already delivered the newer one.
		last := pl.manager.ResourceClaims().MaybeRemoveClaimPendingAllocation(pc.Key(), false)
		if last && group != nil {
			delete(group.pending, pc.Key())
		}
		// The consumer of a claim of the group is not this pod but all of it.
		if !pc.Touched || pc.Consumer.UID != pod.UID {
			continue
		}
		pc.Touched = false
		// Pods of a group that share a pending allocation are about to use it.
		if err := pl.writer.UndoReservation(ctx, pc, pod.UID, last || s.bindable); err != nil {
			// The claim stays with the pod, whose next attempt uses it.
			logger.Error(err, "unreserve", "resourceclaim", klog.KObj(pc.Claim), "pod", klog.KObj(pod))
		}
	}
}

// arrived ends the way of a pod that has given back what it could.
func (pl *Plugin) arrived(pod types.UID) {
	if _, unsettled := pl.ledger.Specials.IsUnsettled(pod); unsettled {
		pl.ledger.UnderWay.Stay(pod)
		return
	}
	pl.ledger.UnderWay.End(pod)
}
