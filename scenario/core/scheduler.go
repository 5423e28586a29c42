// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/claim"
)

// Settle lets controllers and scheduler work until nothing moves. Everything is
// tried again after everything that moved.
func (b *Backend) Settle() error {
	for b.moved {
		b.moved = false
		b.makeClaims(b.state())
		b.releaseClaims(b.state())
		for _, pod := range b.queue() {
			if err := b.schedule(pod); err != nil {
				return err
			}
		}
	}
	return nil
}

// queue returns the pods without a node in the order of their creation.
func (b *Backend) queue() []*v1.Pod {
	var pods []*v1.Pod
	for _, pod := range b.state().Pods {
		if pod.Spec.NodeName == "" && !claim.Ended(pod) {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, c *v1.Pod) int { return cmp.Compare(b.born[keyOf(a)], b.born[keyOf(c)]) })
	return pods
}

// schedule tries to place one pod. The error is for a bug of the allocator.
func (b *Backend) schedule(pod *v1.Pod) error {
	state := b.state()
	if b.awaitBinding(state, pod) {
		return nil
	}
	attempts, err := b.try(state, pod)
	b.last[pod.UID] = verdict{attempts: attempts, err: err}
	best := b.choose(attempts)
	if best == nil {
		return nil
	}
	if err := b.verify(best); err != nil {
		return fmt.Errorf("pod %s on node %s: %w", pod.Name, best.node.Name, err)
	}
	b.commit(pod, best)
	return nil
}

// choose returns the attempt of the least cost, the first among equal ones.
func (b *Backend) choose(attempts []attempt) *attempt {
	var best *attempt
	for i := range attempts {
		a := &attempts[i]
		if a.outcome.Result != nil && (best == nil || b.options.Strategy.Compare(a.outcome.Result.Cost, best.outcome.Result.Cost) < 0) {
			best = a
		}
	}
	return best
}

// verify has alloc's checker look at a result before it is used.
func (b *Backend) verify(a *attempt) error {
	var broken []error
	for _, v := range alloc.Check(a.view, a.claims, b.state().Class, b.matcher, a.containers, a.outcome.Result.Claims) {
		broken = append(broken, errors.New(v.String()))
	}
	return errors.Join(broken...)
}

// commit writes the allocations and reserves all claims for the pod, which then
// goes to the node unless it has to wait for its devices.
func (b *Backend) commit(pod *v1.Pod, a *attempt) {
	for i, claim := range a.claims {
		claim = claim.DeepCopy()
		claim.Status.Allocation = a.outcome.Result.Claims[i].DeepCopy()
		b.put(claim)
	}
	for _, claim := range b.state().PodClaims(pod) {
		if !slices.ContainsFunc(claim.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool { return r.UID == pod.UID }) {
			claim = claim.DeepCopy()
			claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{
				Resource: "pods", Name: pod.Name, UID: pod.UID,
			})
			b.put(claim)
		}
	}
	pod = b.accounted(b.state(), pod).DeepCopy()
	pod.Status.NominatedNodeName = a.node.Name
	b.put(pod)
}
