// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/kube/scheduler/podclaim"
	"kerf.dev/kerf/kube/scheduler/special"
)

// simulation is a world in which some pods are gone and others are on their way
// to the node. Its zero value is the real one.
type simulation struct {
	removed sets.Set[types.UID]
	// nominated are the claims of pods that are nominated to the node, for
	// which devices have to be found there as well.
	nominated []*podclaim.Claim
}

func (s simulation) clone() simulation {
	return simulation{removed: maps.Clone(s.removed), nominated: slices.Clone(s.nominated)}
}

// preempting reports whether this is about what would fit if pods were evicted.
func (s *simulation) preempting() bool { return len(s.removed) > 0 }

// RemovePod simulates that a pod is gone.
func (pl *Plugin) RemovePod(ctx context.Context, cs fwk.CycleState, _ *v1.Pod, podInfo fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	s, err := stateOf(cs)
	if err != nil {
		return failed(klog.FromContext(ctx), err)
	}
	pod := podInfo.GetPod()
	if s == nil || !pl.lookup.usesDevices(pod) {
		return nil
	}
	if s.removed == nil {
		s.removed = sets.New[types.UID]()
	}
	s.removed.Insert(pod.UID)
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
	if s == nil || !pl.lookup.usesDevices(pod) {
		return nil
	}
	if s.removed.Has(pod.UID) {
		s.removed.Delete(pod.UID)
		return nil
	}
	claims, _, ok := pl.hints.waitingOn(pod, special.ByDevicesOf(node))
	if !ok {
		// It cannot be scheduled, so it needs no devices.
		return nil
	}
	for _, pc := range claims {
		if pl.manager.ResourceClaims().GetPendingAllocation(pc.Key()) == nil && !podclaim.HoldsClaim(s.claims, pc.Claim.UID) && !podclaim.HoldsClaim(s.nominated, pc.Claim.UID) {
			s.nominated = append(s.nominated, pc)
		}
	}
	return nil
}
