// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// Reserve takes the devices that Filter found on the node, in memory.
func (pl *Plugin) Reserve(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	logger := klog.FromContext(ctx)
	s, err := stateOf(cs)
	if err != nil {
		return failed(logger, err)
	}
	if s == nil {
		return nil
	}
	pl.ledger.Pauses.Forget(pod.UID)
	s.attempt = s.wayOn(nodeName)
	if s.problem != nil {
		found, ok := s.on(nodeName)
		if !ok || len(found.result.Claims) != len(s.wanted) {
			return failed(logger, fmt.Errorf("internal error: no devices were found on node %s", nodeName))
		}
		for i, pc := range s.wanted {
			pc.Pending = &found.result.Claims[i]
		}
		s.statuses = found.statuses
	} else {
		s.statuses = s.asks.Status.NodeAllocatableResourceClaimStatuses
	}
	if taken := claim.TakenByDevices(claim.WithStatuses(pod, s.statuses)); pl.gates.nodeResources && len(taken) > 0 {
		pl.ledger.InFlight.Add(nodeName, pod, taken)
	}
	group, err := groupStateOf(cs)
	if err != nil {
		return failed(logger, err)
	}
	pl.ledger.Exchanges.Turn.Lock()
	defer pl.ledger.Exchanges.Turn.Unlock()
	if taken := pl.ledger.Exchanges.AnyOf(s.claims); taken != "" {
		return refuse(logger, fwk.Unschedulable, "device "+taken+" was handed over to the claim that it was attached for")
	}
	if status := taintedStatus(logger, pl.taints.Hold(s.claims, pod)); !status.IsSuccess() {
		return status
	}
	pl.ledger.UnderWay.Begin(pod, s.claims)
	for _, pc := range s.claims {
		if pc.Pending == nil {
			continue
		}
		if err := pl.manager.ResourceClaims().SignalClaimPendingAllocation(pc.Key(), podclaim.AllocatedCopy(pc)); err != nil {
			return failed(logger, fmt.Errorf("internal error: signal the allocation of claim %s: %w", podclaim.NameOf(pc.Claim), err))
		}
		logger.V(5).Info("reserved devices", "resourceclaim", klog.KObj(pc.Claim), "uid", pc.Claim.UID, "allocation", klog.Format(pc.Pending))
		if group != nil {
			if group.pending[pc.Key()] == nil {
				group.pending[pc.Key()] = sets.New[types.UID]()
			}
			group.pending[pc.Key()].Insert(pod.UID)
		}
	}
	return nil
}
