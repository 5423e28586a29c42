// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/nodedeclaredfeatures/features/draoptionalnodeoperations"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// Filter refuses nodes that cannot use the existing allocations of the pod's
// claims, and those without devices for the other claims. What it finds is kept
// for Reserve.
func (pl *Plugin) Filter(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, nodeInfo fwk.NodeInfo) *fwk.Status {
	logger := klog.FromContext(ctx)
	s, err := stateOf(cs)
	if err != nil {
		return failed(logger, err)
	}
	if s == nil {
		return pl.room.checkRoom(logger, pod, nodeInfo)
	}
	s, status := pl.wayTo(logger, s, nodeInfo)
	if !status.IsSuccess() {
		return status
	}
	node := nodeInfo.Node()
	if status := s.checkAllocated(logger, node); !status.IsSuccess() {
		return status
	}
	if s.problem == nil {
		return pl.room.checkRoom(logger, s.asks, nodeInfo)
	}
	if ctx.Err() != nil {
		return hopeless(logger, fmt.Sprintf("asked by caller to stop allocating devices: %v", context.Cause(ctx)))
	}
	if found, ok := s.on(node.Name); ok && found.yields {
		// The framework asks again without the pods that are nominated to the
		// node. What was found together with theirs leaves them their devices.
		return nil
	}
	view := s.snapshot.View(node)
	if pl.gates.nodeResources {
		view.Room = claim.Room(s.asks, pl.room.free(nodeInfo))
	}
	if s.preempting() {
		return pl.filterPreempting(ctx, s, view, nodeInfo)
	}
	if len(s.nominated) > 0 {
		return pl.filterYielding(ctx, s, view, nodeInfo)
	}
	if s.gang != nil {
		return pl.filterGang(ctx, s, view, nodeInfo)
	}
	found, outcome, err := s.search(ctx, view)
	if outcome.Result != nil {
		return pl.accept(logger, s.attempt, nodeInfo, found)
	}
	return pl.statusOf(ctx, s, view, outcome, err)
}

// accept keeps what was found for a node, unless that has no room for the pod
// with these devices.
func (pl *Plugin) accept(logger klog.Logger, a *attempt, node fwk.NodeInfo, found finding) *fwk.Status {
	if pl.gates.nodeResources {
		a.account(&found)
		if status := pl.room.checkRoom(logger, claim.WithStatuses(a.asks, found.statuses), node); !status.IsSuccess() {
			return status
		}
	}
	a.record(node.Node().Name, found)
	return nil
}

// statusOf turns the outcome on a node into a status.
func (pl *Plugin) statusOf(ctx context.Context, s *cycleState, view *inventory.View, outcome alloc.Outcome, err error) *fwk.Status {
	logger := klog.FromContext(ctx)
	switch {
	case err != nil:
		return failed(logger, fmt.Errorf("node %s: %w", view.Node.Name, err))
	case outcome.Refusal != nil:
		return pl.refusals.refuseDevices(ctx, s, outcome.Refusal, view)
	case outcome.GaveUp != nil:
		return hopeless(logger, explain.GaveUp(outcome.GaveUp))
	}
	return nil
}

// checkAllocated checks what is allocated already, or about to be.
func (a *attempt) checkAllocated(logger klog.Logger, node *v1.Node) *fwk.Status {
	for _, pc := range a.claims {
		var reason string
		switch {
		case pc.Nodes != nil && !pc.Nodes.Match(node):
			reason = fmt.Sprintf("resourceclaim not available on the node: claim %s is allocated for other nodes", podclaim.NameOf(pc.Claim))
		case skipsNodeOperations(pc.Allocation()) && !slices.Contains(node.Status.DeclaredFeatures, draoptionalnodeoperations.DRAOptionalNodeOperationsFeatureGate):
			reason = fmt.Sprintf("resourceclaim not available on the node: claim %s needs a node that declares the feature %s", podclaim.NameOf(pc.Claim), draoptionalnodeoperations.DRAOptionalNodeOperationsFeatureGate)
		default:
			continue
		}
		a.mutex.Lock()
		pc.Unavailable = true
		a.mutex.Unlock()
		return hopeless(logger, reason)
	}
	return nil
}

// skipsNodeOperations reports whether some device needs a kubelet that knows
// about skipNodeOperations (DRAOptionalNodeOperations).
func skipsNodeOperations(allocation *resourceapi.AllocationResult) bool {
	return allocation != nil && slices.ContainsFunc(allocation.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool {
		return len(r.SkipNodeOperations) > 0
	})
}

// search looks for devices that did not fail the claims before, then for any.
func (a *attempt) search(ctx context.Context, view *inventory.View) (finding, alloc.Outcome, error) {
	if len(view.Pools) == 0 {
		// Claims without requests are satisfied everywhere.
		outcome, err := a.deviceless()
		return finding{result: outcome.Result}, outcome, err
	}
	return a.searchFor(ctx, a.purses.attempt, a.problem, view)
}

func (a *attempt) searchFor(ctx context.Context, purse *purse, problem *alloc.Problem, view *inventory.View) (finding, alloc.Outcome, error) {
	if len(a.avoid) > 0 {
		outcome, err := purse.allocate(ctx, problem, view.WhatIf(nil, a.avoid))
		if err != nil || outcome.Result != nil {
			return finding{result: outcome.Result}, outcome, err
		}
	}
	outcome, err := purse.allocate(ctx, problem, view)
	return finding{result: outcome.Result, again: len(a.avoid) > 0}, outcome, err
}
