// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/inventory"
)

// simulation is a world in which some pods are gone and others are on their way
// to the node. Its zero value is the real one.
type simulation struct {
	removed sets.Set[types.UID]
	// released are the claims of the removed pods.
	released map[types.UID]release
	// nominated are the claims of pods that are nominated to the node, for
	// which devices have to be found there as well.
	nominated []*podClaim
}

// release is what becomes free once all consumers of a claim are gone.
type release struct {
	consumers []types.UID
	holds     []inventory.Hold
}

func (s simulation) clone() simulation {
	return simulation{removed: maps.Clone(s.removed), released: maps.Clone(s.released), nominated: slices.Clone(s.nominated)}
}

// preempting reports whether this is about what would fit if pods were evicted.
func (s *simulation) preempting() bool { return len(s.removed) > 0 }

// freed returns what is free because nobody is left who uses it. Claims that
// the pod to be scheduled uses itself stay.
func (s *simulation) freed(own []*podClaim) []inventory.Hold {
	var freed []inventory.Hold
	for uid, r := range s.released {
		if s.removed.HasAll(r.consumers...) && !holdsClaim(own, uid) {
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
	if s == nil || !pl.usesDevices(pod) {
		return nil
	}
	if s.removed == nil {
		s.removed, s.released = sets.New[types.UID](), map[types.UID]release{}
	}
	s.removed.Insert(pod.UID)
	if r, ok := pl.releaseOfSpecial(pod); ok {
		s.released[placeholderUID(pod.UID)] = r
	}
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

// AddPod takes back what RemovePod did. Other pods that are added are nominated
// to the node and need devices of it.
func (pl *Plugin) AddPod(ctx context.Context, cs fwk.CycleState, _ *v1.Pod, podInfo fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	s, err := stateOf(cs)
	if err != nil {
		return failed(klog.FromContext(ctx), err)
	}
	pod := podInfo.GetPod()
	if s == nil || !pl.usesDevices(pod) {
		return nil
	}
	if s.removed.Has(pod.UID) {
		s.removed.Delete(pod.UID)
		return nil
	}
	claims, _, ok := pl.waitingOn(pod, byDevicesOf(node))
	if !ok {
		// It cannot be scheduled, so it needs no devices.
		return nil
	}
	for _, pc := range claims {
		if pl.manager.ResourceClaims().GetPendingAllocation(pc.key()) == nil && !holdsClaim(s.claims, pc.claim.UID) && !holdsClaim(s.nominated, pc.claim.UID) {
			s.nominated = append(s.nominated, pc)
		}
	}
	return nil
}

func holdsClaim(claims []*podClaim, uid types.UID) bool {
	return slices.ContainsFunc(claims, func(pc *podClaim) bool { return pc.claim.UID == uid })
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

// abandoned returns the devices of claims whose consumers are all gone, but for
// claims that the pod to be scheduled uses. They become free as soon as the claim
// controller has seen that; evicting pods for them would be premature.
func (pl *Plugin) abandoned(own []*podClaim) ([]inventory.Hold, error) {
	claims, err := pl.manager.ResourceClaims().List()
	if err != nil {
		return nil, err
	}
	var holds []inventory.Hold
	for _, claim := range claims {
		if claim.Status.Allocation == nil || len(claim.Status.ReservedFor) == 0 || holdsClaim(own, claim.UID) {
			continue
		}
		if !slices.ContainsFunc(claim.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool { return !pl.gone(claim.Namespace, r) }) {
			holds = append(holds, inventory.HoldsOf(claim)...)
		}
	}
	return holds, nil
}

// gone reports whether a consumer is a pod that does not exist any more or has
// come to its end.
func (pl *Plugin) gone(namespace string, consumer resourceapi.ResourceClaimConsumerReference) bool {
	if consumer.APIGroup != "" || consumer.Resource != "pods" {
		return false
	}
	pod, err := pl.users.lister.Pods(namespace).Get(consumer.Name)
	if err != nil {
		return apierrors.IsNotFound(err)
	}
	return pod.UID != consumer.UID || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}
