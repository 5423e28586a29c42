// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
)

// Attempt is what trying to place a pod on a node gave.
type Attempt struct {
	Node *v1.Node
	// Barred says why the pod cannot go to the node, whatever its devices;
	// Outcome is then empty.
	Barred string
	// Claims are the claims that Outcome allocates.
	Claims  []*Claim
	Outcome alloc.Outcome

	problem  *alloc.Problem
	view     *inventory.View
	snapshot *inventory.Snapshot
}

// Search is what an attempt to place a pod goes by.
type Search struct {
	Snapshot *inventory.Snapshot
	Matcher  alloc.Matcher
	Options  alloc.Options
	// Avoid are devices that are used only where nothing else can be had.
	Avoid []inventory.Hold
}

// Attempt tries to place a pod on every node of the state, in the order of their
// names. The error says why the pod cannot be tried at all.
func (s *State) Attempt(pod *v1.Pod, search Search) ([]Attempt, error) {
	var allocated, open []*Claim
	for i, claim := range s.PodClaims(pod) {
		switch {
		case claim == nil:
			return nil, fmt.Errorf("%s", missingClaim(&pod.Spec.ResourceClaims[i]))
		case claim.Status.Allocation != nil:
			allocated = append(allocated, claim)
		default:
			open = append(open, claim)
		}
	}
	problem, err := alloc.Compile(open, s.Class, search.Matcher, search.Options)
	if err != nil {
		return nil, err
	}
	var attempts []Attempt
	for _, node := range s.Nodes {
		a := Attempt{Node: node, Claims: open, problem: problem, view: search.Snapshot.View(node), snapshot: search.Snapshot}
		if a.Barred, err = s.bar(pod, node, allocated); err != nil {
			return nil, err
		}
		if a.Barred == "" {
			if err := a.allocate(search.Avoid); err != nil {
				return nil, err
			}
		}
		attempts = append(attempts, a)
	}
	return attempts, nil
}

// allocate looks for devices that need not be avoided, then for any.
func (a *Attempt) allocate(avoid []inventory.Hold) (err error) {
	if len(avoid) > 0 {
		if a.Outcome, err = a.problem.Allocate(a.view.WhatIf(nil, avoid)); err != nil || a.Outcome.Result != nil {
			return err
		}
	}
	a.Outcome, err = a.problem.Allocate(a.view)
	return err
}

func missingClaim(r *v1.PodResourceClaim) string {
	if r.ResourceClaimName != nil {
		return fmt.Sprintf("resourceclaim %q not found", *r.ResourceClaimName)
	}
	return fmt.Sprintf("resourceclaim for %q from template %q not created yet", r.Name, *r.ResourceClaimTemplateName)
}

// bar says why a pod may not go to a node, empty where it may. It knows node
// affinity and allocated claims; taints and resources of nodes are left to a real
// scheduler.
func (s *State) bar(pod *v1.Pod, node *v1.Node, allocated []*Claim) (string, error) {
	matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	switch {
	case err != nil:
		return "", fmt.Errorf("pod %s: node affinity: %w", refOf(pod), err)
	case !matches:
		return "the pod does not want the node", nil
	case node.Spec.Unschedulable:
		return "the node is unschedulable", nil
	}
	for _, claim := range allocated {
		usable, err := s.usableOn(claim)
		if err != nil {
			return "", err
		}
		if !slices.Contains(usable, anyNode) && !slices.Contains(usable, node.Name) {
			return fmt.Sprintf("claim %s is allocated for %s", claimRef(claim), fold(usable)), nil
		}
	}
	return "", nil
}
