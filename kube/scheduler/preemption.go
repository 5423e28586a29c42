// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/inventory"
)

// simulation is a world in which some pods are gone. Its zero value is the real
// one.
type simulation struct {
	removed sets.Set[types.UID]
	// released are the claims of the removed pods.
	released map[types.UID]release
}

// release is what becomes free once all consumers of a claim are gone.
type release struct {
	consumers []types.UID
	holds     []inventory.Hold
}

func (s simulation) clone() simulation {
	return simulation{removed: maps.Clone(s.removed), released: maps.Clone(s.released)}
}

// simulated reports whether the world differs from the real one.
func (s *simulation) simulated() bool { return len(s.removed) > 0 }

// freed returns what is free because nobody is left who uses it. Claims that
// the pod to be scheduled uses itself stay.
func (s *simulation) freed(own []*podClaim) []inventory.Hold {
	var freed []inventory.Hold
	for uid, r := range s.released {
		if s.removed.HasAll(r.consumers...) && !slices.ContainsFunc(own, func(pc *podClaim) bool { return pc.claim.UID == uid }) {
			freed = append(freed, r.holds...)
		}
	}
	return freed
}

// RemovePod simulates that a pod is gone.
func (pl *Plugin) RemovePod(ctx context.Context, cs fwk.CycleState, _ *v1.Pod, podInfo fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	s, err := stateOf(cs)
	if err != nil {
		return failed(klog.FromContext(ctx), err)
	}
	pod := podInfo.GetPod()
	if s == nil || len(pod.Spec.ResourceClaims) == 0 {
		return nil
	}
	if s.removed == nil {
		s.removed, s.released = sets.New[types.UID](), map[types.UID]release{}
	}
	s.removed.Insert(pod.UID)
	for name := range resourceclaim.PodClaims(pod) {
		claim, err := pl.manager.ResourceClaims().Get(pod.Namespace, name)
		if err != nil {
			// Not known any more, so it holds nothing.
			continue
		}
		if r, ok := pl.releaseOf(claim, pod); ok {
			s.released[claim.UID] = r
		}
	}
	return nil
}

// AddPod takes back what RemovePod did. Nothing else is known about the devices
// that a pod would take which is not running yet.
func (pl *Plugin) AddPod(ctx context.Context, cs fwk.CycleState, _ *v1.Pod, podInfo fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	s, err := stateOf(cs)
	if err != nil {
		return failed(klog.FromContext(ctx), err)
	}
	if s != nil {
		s.removed.Delete(podInfo.GetPod().UID)
	}
	return nil
}

// releaseOf returns what the claim would give back, ok is false if nothing.
func (pl *Plugin) releaseOf(claim *resourceapi.ResourceClaim, pod *v1.Pod) (r release, ok bool) {
	if claim.Status.Allocation != nil {
		for _, consumer := range claim.Status.ReservedFor {
			// That of a PodGroup is none of a pod and stays with the claim.
			r.consumers = append(r.consumers, consumer.UID)
		}
		r.holds = inventory.HoldsOf(claim)
		return r, len(r.holds) > 0
	}
	// The pod is on its way to its node. Within a group others may have
	// reserved the claim as well, which cannot be seen here.
	pending := pl.manager.ResourceClaims().GetPendingAllocation(claim.UID)
	if pending == nil || pod.Spec.SchedulingGroup != nil {
		return release{}, false
	}
	inFlight := *claim
	inFlight.Status.Allocation = pending
	return release{consumers: []types.UID{pod.UID}, holds: inventory.HoldsOf(&inFlight)}, true
}
