// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/scenario"
)

// attempt is what trying to place a pod on a node gave.
type attempt struct {
	node *v1.Node
	view *inventory.View
	// barred says why the pod cannot go to the node, whatever its devices;
	// outcome is then empty.
	barred string
	claims []*scenario.Claim // that outcome allocates
	// containers counts those of the pod that refer to each of claims.
	containers []int
	outcome    alloc.Outcome
	// holders and namespace serve to say who is in the way.
	holders   func(inventory.DeviceID) []inventory.Holder
	namespace string
}

// try tries to place a pod on every node, in the order of their names. The error
// says why the pod cannot be tried at all.
func (b *Backend) try(state *scenario.State, pod *v1.Pod) ([]attempt, error) {
	var allocated, open []*scenario.Claim
	var containers []int
	for ref, c := range state.PodClaims(pod) {
		if c == nil {
			return nil, fmt.Errorf("%s", missingClaim(ref.Entry))
		}
		tainted := b.untolerated(c)
		switch {
		case len(tainted) > 0:
			return nil, errors.New(explain.NotJoinable(c, tainted, explain.Options{}))
		case claim.WithheldFrom(pod, c, b.inventory.Snapshot()):
			return nil, fmt.Errorf("claim %s has a mapped device and cannot be shared across pods", c.Name)
		case c.Status.Allocation != nil:
			allocated = append(allocated, c)
		default:
			open = append(open, c)
			containers = append(containers, claim.References(pod, ref.Name()))
		}
	}
	options := b.options
	options.Containers = containers
	problem, err := alloc.Compile(open, state.Class, b.matcher, options)
	if err != nil {
		return nil, err
	}
	snapshot, avoid, asks := b.inventory.Snapshot(), b.avoided(open), b.accounted(state, pod)
	var attempts []attempt
	for _, node := range state.Nodes {
		a := attempt{node: node, view: snapshot.View(node), claims: open, containers: containers, holders: snapshot.Holders, namespace: pod.Namespace}
		if a.barred, err = bar(state, pod, node, allocated); err != nil {
			return nil, err
		}
		left := left(state, node, pod)
		if left != nil {
			a.view.Room = claim.Room(asks, left)
		}
		if a.barred == "" {
			a.barred = tooLittle(asks, left)
		}
		if a.barred == "" {
			if err := a.allocate(problem, avoid); err != nil {
				return nil, err
			}
		}
		attempts = append(attempts, a)
	}
	return attempts, nil
}

// untolerated is what keeps pods from joining a claim.
func (b *Backend) untolerated(c *scenario.Claim) []claim.Tainted {
	if c.Status.Allocation == nil {
		return nil
	}
	return claim.Untolerated(c, b.inventory.Snapshot().LastKnown(c.Status.Allocation), nil)
}

// allocate looks for devices that need not be avoided, then for any.
func (a *attempt) allocate(problem *alloc.Problem, avoid []inventory.Hold) (err error) {
	if len(avoid) > 0 {
		if a.outcome, err = problem.Allocate(a.view.WhatIf(nil, avoid)); err != nil || a.outcome.Result != nil {
			return err
		}
	}
	a.outcome, err = problem.Allocate(a.view)
	return err
}

func missingClaim(r *v1.PodResourceClaim) string {
	if r.ResourceClaimName != nil {
		return fmt.Sprintf("resourceclaim %q not found", *r.ResourceClaimName)
	}
	return fmt.Sprintf("resourceclaim for %q from template %q not created yet", r.Name, *r.ResourceClaimTemplateName)
}

// bar says why a pod may not go to a node, empty where it may. It knows node
// affinity and allocated claims; taints of nodes are left to a real scheduler.
func bar(state *scenario.State, pod *v1.Pod, node *v1.Node, allocated []*scenario.Claim) (string, error) {
	matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	switch {
	case err != nil:
		return "", fmt.Errorf("pod %s: node affinity: %w", pod.Name, err)
	case !matches:
		return "the pod does not want the node", nil
	case node.Spec.Unschedulable:
		return "the node is unschedulable", nil
	}
	for _, claim := range allocated {
		usable, err := state.UsableOn(claim)
		if err != nil {
			return "", err
		}
		if !slices.Contains(usable, scenario.AnyNode) && !slices.Contains(usable, node.Name) {
			return fmt.Sprintf("claim %s is allocated for %s", claim.Name, strings.Join(usable, " ")), nil
		}
	}
	return "", nil
}

// reason says why a pod cannot be placed, the way the scheduler does: what is to
// be said of several nodes is said once.
func reason(attempts []attempt, err error) string {
	var bad *alloc.InputError
	switch {
	case errors.As(err, &bad):
		return explain.Input(bad)
	case err != nil:
		return err.Error()
	}
	causes := map[string]explain.Cause{}
	for i := range attempts {
		a := &attempts[i]
		causes[a.node.Name] = explain.Because(a.barred)
		if a.barred == "" {
			causes[a.node.Name], _ = explain.OutcomeCause(a.outcome, explain.Options{
				Claims: a.claims, View: a.view, Holders: a.holders, Visible: func(of string) bool { return of == a.namespace },
			})
		}
	}
	text := fmt.Sprintf("0/%d nodes are available", len(attempts))
	for _, line := range explain.Group(causes) {
		text += "; " + line.String()
	}
	return text
}

// effort sums up the work of the attempts.
func effort(attempts []attempt) scenario.Effort {
	var e scenario.Effort
	for i := range attempts {
		e.Steps += attempts[i].outcome.Steps
		e.GaveUp = e.GaveUp || attempts[i].outcome.GaveUp != nil
	}
	return e
}
