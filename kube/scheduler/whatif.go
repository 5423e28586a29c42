// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// filterPreempting tells whether the pod would fit if pods were evicted. Nobody
// reads the reason if it would not.
func (pl *Plugin) filterPreempting(ctx context.Context, s *cycleState, view *inventory.View, node fwk.NodeInfo) *fwk.Status {
	logger := klog.FromContext(ctx)
	if pl.keepers.evicts(s.asks, node) || s.evictsElsewhere(view.Node.Name) {
		return fwk.NewStatus(fwk.Unschedulable, noDevices)
	}
	kept, err := s.tenures()
	if err != nil {
		return failed(logger, fmt.Errorf("look for devices that would become free: %w", err))
	}
	_, outcome, err := s.searchFor(ctx, s.purses.dryRuns(), s.problemWith(pl.compiler), view.WhatIf(kept.freed(view, s.removed), nil))
	switch {
	case err != nil:
		return failed(logger, fmt.Errorf("node %s: %w", view.Node.Name, err))
	case outcome.Result == nil:
		return fwk.NewStatus(fwk.Unschedulable, noDevices)
	}
	return nil
}

// filterYielding looks for devices that leave enough for the pods that are
// nominated to the node: somebody was evicted for them.
func (pl *Plugin) filterYielding(ctx context.Context, s *cycleState, view *inventory.View, node fwk.NodeInfo) *fwk.Status {
	kept := noDevices + ": devices are kept for pods that are nominated to the node"
	found, status := pl.searchTogether(ctx, s, s.problemWith(pl.compiler), view, fwk.UnschedulableAndUnresolvable, kept)
	if !status.IsSuccess() {
		return status
	}
	found.yields = true
	all := len(found.result.Claims)
	found.result = part(found.result, all-len(s.wanted), all)
	return pl.accept(klog.FromContext(ctx), s.attempt, node, found)
}

// searchTogether looks for devices for the pod and for others that have to find
// theirs on the node as well. Where it finds some for the pod alone, they are kept
// for the others.
func (pl *Plugin) searchTogether(ctx context.Context, s *cycleState, problem *alloc.Problem, view *inventory.View, code fwk.Code, kept string) (finding, *fwk.Status) {
	found, outcome, err := s.searchFor(ctx, s.purses.attempt, problem, view)
	if err == nil && outcome.Result != nil {
		return found, nil
	}
	alone, own, ownErr := s.search(ctx, view)
	if alone.result == nil || ownErr != nil {
		return finding{}, pl.statusOf(ctx, s, view, own, ownErr)
	}
	return finding{}, refuse(klog.FromContext(ctx), code, kept)
}

// problemWith returns the problem of the pod's claims and of those of pods that
// are nominated to the node. A nominated pod with claims that nobody can satisfy
// needs no devices.
func (s *cycleState) problemWith(c *podclaim.Compiler) *alloc.Problem {
	if len(s.nominated) == 0 {
		return s.problem
	}
	problem, err := c.Compile(append(slices.Clone(s.nominated), s.wanted...))
	if err != nil {
		return s.problem
	}
	return problem
}

// part returns a result for some of its claims. The cost stays that of all.
func part(r *alloc.Result, first, end int) *alloc.Result {
	return &alloc.Result{Claims: r.Claims[first:end], Devices: r.Devices[first:end], Cost: r.Cost}
}
