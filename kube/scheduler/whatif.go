// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"slices"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
)

// filterPreempting tells whether the pod would fit if pods were evicted. Nobody
// reads the reason if it would not.
func (pl *Plugin) filterPreempting(logger klog.Logger, s *cycleState, view *inventory.View) *fwk.Status {
	abandoned, err := s.abandoned()
	if err != nil {
		return failed(logger, fmt.Errorf("look for abandoned claims: %w", err))
	}
	_, outcome, err := s.searchFor(pl.problemWith(s), view.WhatIf(append(s.freed(s.claims), abandoned...), nil))
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
func (pl *Plugin) filterYielding(logger klog.Logger, s *cycleState, view *inventory.View, node fwk.NodeInfo) *fwk.Status {
	found, outcome, err := s.searchFor(pl.problemWith(s), view)
	if err != nil || outcome.Result == nil {
		alone, own, ownErr := s.search(view)
		if alone.result == nil || ownErr != nil {
			return pl.statusOf(logger, s.attempt, view, own, ownErr)
		}
		return hopeless(logger, noDevices+": devices are kept for pods that are nominated to the node")
	}
	found.yields = true
	found.result = lastOf(found.result, len(s.wanted))
	return pl.accept(logger, s.attempt, node, found)
}

// problemWith returns the problem of the pod's claims and of those of pods that
// are nominated to the node. A nominated pod with claims that nobody can satisfy
// needs no devices.
func (pl *Plugin) problemWith(s *cycleState) *alloc.Problem {
	if len(s.nominated) == 0 {
		return s.problem
	}
	problem, err := pl.compile(append(slices.Clone(s.nominated), s.wanted...))
	if err != nil {
		return s.problem
	}
	return problem
}

// lastOf returns the part of a result for the last n claims. The cost stays that
// of all.
func lastOf(r *alloc.Result, n int) *alloc.Result {
	first := len(r.Claims) - n
	return &alloc.Result{Claims: r.Claims[first:], Devices: r.Devices[first:], Cost: r.Cost}
}
