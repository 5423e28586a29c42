// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/simulate"
)

// Settle lets controllers and scheduler work until nothing moves. Everything is
// tried again after everything that moved.
func (b *Backend) Settle() error {
	for b.moved {
		b.moved = false
		b.evict()
		b.makeClaims()
		b.releaseClaims()
		b.reserveClaims()
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
	pods := slices.DeleteFunc(b.all().Pods, func(pod *v1.Pod) bool { return pod.Spec.NodeName != "" || claim.Ended(pod) })
	slices.SortFunc(pods, func(x, y *v1.Pod) int {
		return cmp.Compare(x.CreationTimestamp.Unix(), y.CreationTimestamp.Unix())
	})
	return pods
}

// schedule tries to place one pod. The error is for a bug of the allocator.
func (b *Backend) schedule(pod *v1.Pod) error {
	if pod.Status.NominatedNodeName != "" {
		return b.awaitBinding(pod)
	}
	world := b.world()
	known := world.Options()
	known.Visible = func(namespace string) bool { return namespace == pod.Namespace }
	v, err := world.Place(pod)
	if err != nil {
		return fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	b.last[pod.UID] = verdict{Verdict: v, known: known}
	if v.Best != nil {
		if broken := world.Check(v); len(broken) > 0 {
			return fmt.Errorf("pod %s on node %s: %v", pod.Name, v.Best.Node.Name, broken)
		}
	}
	b.giveUp(v)
	if v.Best != nil {
		b.commit(v)
	}
	return nil
}

// giveUp takes back the claims that the pod alone has and must not use.
func (b *Backend) giveUp(v *simulate.Verdict) {
	for ref := range claim.Refs(v.Pod) {
		kept := slices.ContainsFunc(v.Claims, func(c simulate.Claim) bool {
			return c.Object.Name == ref.Claim && c.Object.Status.Allocation != nil
		})
		if stored, found := b.claim(v.Pod.Namespace, ref.Claim); found && !kept && stored.Status.Allocation != nil {
			b.deallocate(stored)
		}
	}
}

// commit writes what the pod gets. It waits on its node until its devices are ready.
func (b *Backend) commit(v *simulate.Verdict) {
	ready := true
	for _, c := range v.Claims {
		if c.New {
			b.create(c.Object.DeepCopy())
		}
		stored, _ := b.claim(c.Object.Namespace, c.Object.Name)
		written := stored.DeepCopy()
		written.Status = *c.Object.Status.DeepCopy()
		if c.Object.Status.Allocation != stored.Status.Allocation {
			written.Status.Allocation.AllocationTimestamp = b.now()
		}
		b.put(written)
		ready = ready && claim.BindingOf(written).Ready()
	}
	if ready {
		b.bind(v.Placed, v.Best.Node.Name)
		return
	}
	pod := v.Placed.DeepCopy()
	pod.Spec.NodeName, pod.Status.NominatedNodeName = "", v.Best.Node.Name
	b.put(pod)
}
