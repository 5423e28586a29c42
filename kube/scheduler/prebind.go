// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// PreBindPreFlight tells whether PreBind has something to do.
func (pl *Plugin) PreBindPreFlight(ctx context.Context, cs fwk.CycleState, _ *v1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	result := &fwk.PreBindPreFlightResult{AllowParallel: true}
	s, err := stateOf(cs)
	if err != nil {
		return result, failed(klog.FromContext(ctx), err)
	}
	if s == nil || len(s.claims) == 0 && len(s.unused()) == 0 {
		return result, fwk.NewStatus(fwk.Skip)
	}
	return result, nil
}

// PreBind writes allocations and reservations and waits until the devices are
// ready. If it fails the framework calls Unreserve and the pod is retried.
func (pl *Plugin) PreBind(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	logger := klog.FromContext(ctx)
	s, err := stateOf(cs)
	if err != nil {
		return failed(logger, err)
	}
	if s == nil {
		return nil
	}
	pl.ledger.underWay.binds(ctx, pod.UID)
	if status := taintedStatus(logger, pl.taints.taintedSince(s.claims)); !status.IsSuccess() {
		return status
	}
	if err := pl.specialClaims.prepareSpecial(ctx, s, pod); err != nil {
		return pl.unprepared(logger, s.attempt, pod, err)
	}
	for _, pc := range s.claims {
		if pl.lookup.reservedFor(pod, pc.claim) {
			continue
		}
		if err := pl.writer.bindClaim(ctx, pc); err != nil {
			return failed(logger, err)
		}
	}
	pl.taints.releaseDevices(s.attempt, pod)
	if err := pl.specialClaims.awaitSpecial(ctx, s.attempt); err != nil {
		return failed(logger, err)
	}
	if status := pl.handover.awaitDevices(ctx, s.attempt, pod, nodeName); !status.IsSuccess() {
		return status
	}
	if err := pl.status.writeStatus(ctx, s.attempt, pod); err != nil {
		return failed(logger, err)
	}
	for _, pc := range s.claims {
		pl.ledger.failures.forget(pc.key())
		if pc.pending != nil {
			// From here on the claim itself says what it holds.
			pl.manager.ResourceClaims().MaybeRemoveClaimPendingAllocation(pc.key(), true)
		}
	}
	pl.ledger.underWay.end(pod.UID)
	s.bindable = true
	return nil
}
