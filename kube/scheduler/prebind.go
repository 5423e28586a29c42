// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/kube/scheduler/handover"
	"kerf.dev/kerf/kube/scheduler/podclaim"
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
	pl.ledger.UnderWay.Binds(ctx, pod.UID)
	if status := taintedStatus(logger, pl.taints.Since(s.claims)); !status.IsSuccess() {
		return status
	}
	if err := pl.specialClaims.Prepare(ctx, s.special, s.unused(), pod); err != nil {
		return pl.unprepared(logger, s.attempt, pod, err)
	}
	for _, pc := range s.claims {
		if pl.lookup.reservedFor(pod, pc.Claim) {
			continue
		}
		if err := pl.writer.BindClaim(ctx, pc); err != nil {
			return failed(logger, err)
		}
	}
	pl.taints.Release(s.claims, pod)
	if err := pl.specialClaims.Await(ctx, s.special); err != nil {
		return failed(logger, err)
	}
	if status := pl.awaitDevices(ctx, s.attempt, pod, nodeName); !status.IsSuccess() {
		return status
	}
	if err := pl.status.writeStatus(ctx, s.attempt, pod); err != nil {
		return failed(logger, err)
	}
	for _, pc := range s.claims {
		pl.ledger.Failures.Forget(pc.Key())
		if pc.Pending != nil {
			// From here on the claim itself says what it holds.
			pl.manager.ResourceClaims().MaybeRemoveClaimPendingAllocation(pc.Key(), true)
		}
	}
	pl.ledger.UnderWay.End(pod.UID)
	s.bindable = true
	return nil
}

// awaitDevices waits until the devices are ready, and handed over where they had to arrive.
func (pl *Plugin) awaitDevices(ctx context.Context, a *attempt, pod *v1.Pod, nodeName string) *fwk.Status {
	logger := klog.FromContext(ctx)
	again, err := pl.handover.Await(ctx, a.claims, pod, nodeName)
	broken := (*podclaim.BindingError)(nil)
	if !errors.As(err, &broken) {
		return taintedStatus(logger, err)
	}
	status := refuse(logger, fwk.Unschedulable, broken.Error())
	if again {
		pl.ledger.Retries.Expect(pod.UID, status.Message())
	}
	return status
}

// taintedStatus is what becomes of the pod: the change of the device's slice that follows
// from the rule, and that of any other, brings it back.
func taintedStatus(logger klog.Logger, err error) *fwk.Status {
	tainted, join := (*handover.TaintedError)(nil), (*podclaim.JoinError)(nil)
	if errors.As(err, &tainted) || errors.As(err, &join) {
		return refuse(logger, fwk.Unschedulable, err.Error())
	}
	return fwk.AsStatus(err)
}
