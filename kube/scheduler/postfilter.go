// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// PostFilter has allocations given up that keep the pod from being scheduled: those
// whose devices failed to become ready or must not be used any more, and one of those
// that only other nodes can use.
func (pl *Plugin) PostFilter(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	logger := klog.FromContext(ctx)
	s, err := stateOf(cs)
	if err != nil {
		return nil, failed(logger, err)
	}
	if s == nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	pl.refusals.tellRefusals(logger, s.attempt, pod)
	pl.pause(pod, s.attempt)
	freed, err := pl.deallocateBlocking(s, pod, pod.UID)
	switch {
	case err != nil:
		return nil, failed(logger, err)
	case freed != "":
		// The pod comes back when the claim has changed. Until then nobody
		// should be evicted for it.
		return nil, hopeless(logger, fmt.Sprintf("giving up the allocation of claim %s, so that it can be allocated anew", freed))
	case s.awaitsSome():
		// Preemption would look at the other nodes, also if pods were evicted on this one.
		return nil, hopeless(logger, "nobody is evicted while devices are being released")
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// pause begins a pause for the pod if the search gave up in the attempt.
func (pl *Plugin) pause(pod *v1.Pod, a *attempt) {
	if why := a.purses.attempt.gaveUp.Load(); why != nil {
		pl.ledger.Pauses.After(pod, a.question, *why)
	}
}

// deallocateBlocking has given up what can be given up without taking it from
// anybody but the consumer. It returns the name of a claim that becomes free, empty
// if there is none. One that is merely in the wrong place is enough: the next
// attempt shows what is still in the way.
func (pl *Plugin) deallocateBlocking(s *cycleState, pod *v1.Pod, consumer types.UID) (string, error) {
	freed := ""
	if s.extended != nil {
		var err error
		if freed, err = pl.specialClaims.RemoveBlocking(s.extended.Case, s.extended.blocks()); err != nil {
			return "", err
		}
	}
	for _, pc := range s.claims {
		if pc.Broken == nil && pc.Tainted == nil && (!pc.Unavailable || freed != "") {
			continue
		}
		if pc.Claim.Status.Allocation == nil || !claim.ReservedForNobodyBut(pc.Claim, consumer) {
			continue
		}
		if pc.Broken != nil {
			pl.ledger.Failures.Add(pc.Claim.UID, pc.Broken.Devices)
		}
		g := &givingUp{pl: pl, claim: pc.Claim, broken: pc.Broken != nil, tainted: pc.Tainted != nil, pod: pod, consumer: consumer}
		if err := pl.chores.Begin(pc.Claim.UID, g.do); err != nil {
			return "", err
		}
		freed = podclaim.NameOf(pc.Claim)
	}
	return freed, nil
}
