// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	schedulingapi "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// PodGroupPostFilter does for the pods of a group what PostFilter does for one
// pod. If that frees nothing it gives up the claims of the group itself, as long
// as no pod of the group uses them. Its reason goes into the conditions of the group
// and of those pods that would fit: it says for how many devices suffice.
func (pl *Plugin) PodGroupPostFilter(ctx context.Context, cycle fwk.PodGroupCycleState, info fwk.PodGroupInfo, _ fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	logger := klog.FromContext(ctx)
	if err := pl.pauseGroup(cycle, info); err != nil {
		return nil, failed(logger, err)
	}
	constrained := pl.gates.topologyWorkloads && info.GetPodGroup() != nil && info.GetPodGroup().Spec.SchedulingConstraints != nil
	if info.GetType() == fwk.CompositePodGroupKeyType || constrained {
		// Several placements are tried for these groups. A claim that is in
		// the way of one may serve another.
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	group, err := readGroupState(cycle)
	if err != nil {
		return nil, failed(logger, err)
	}
	if group == nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	freed, stuck := "", (*v1.Pod)(nil)
	for _, pod := range info.GetUnscheduledPods() {
		s := group.attempts[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}]
		if s == nil {
			pl.tellShort(logger, group, pod)
			continue
		}
		pl.refusals.tellRefusals(logger, s.attempt, pod)
		name, err := pl.deallocateBlocking(s, pod, pod.UID)
		if err != nil {
			return nil, failed(logger, err)
		}
		if name != "" {
			freed = name
		} else {
			stuck = pod
		}
	}
	if stuck != nil && pl.gates.workloadClaims {
		name, err := pl.releaseGroupClaim(group, stuck)
		if err != nil {
			return nil, failed(logger, err)
		}
		if name != "" {
			freed = name
		}
	}
	var reasons []string
	if group.short != "" {
		reasons = append(reasons, group.short)
	}
	if freed != "" {
		reasons = append(reasons, fmt.Sprintf("giving up the allocation of claim %s for the group", freed))
	}
	return nil, fwk.NewStatus(fwk.Unschedulable, reasons...)
}

// tellShort tells a pod that was not tried, because the group is lost without it, how many
// fit. What it reads in its condition is settled by then and says only that the group is:
// the package's documentation has the reason.
func (pl *Plugin) tellShort(logger klog.Logger, group *groupState, pod *v1.Pod) {
	if group.short != "" {
		pl.handle.EventRecorder().WithLogger(logger).Eventf(pod, nil, v1.EventTypeWarning, "DevicesUnavailable", "Scheduling", "%s", group.short)
	}
}

// pauseGroup begins pauses for those pods of a group for which the search gave up.
func (pl *Plugin) pauseGroup(cycle fwk.PodGroupCycleState, info fwk.PodGroupInfo) error {
	group, err := readGroupState(cycle)
	if err != nil || group == nil {
		return err
	}
	for _, pod := range info.GetUnscheduledPods() {
		if s := group.attempts[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}]; s != nil {
			pl.pause(pod, s.attempt)
		}
	}
	return nil
}

// releaseGroupClaim has one claim given up that is reserved for the PodGroup, and
// returns its name, empty if there is none. More pods may exist than the group
// needs at least; as long as none is scheduled nobody uses the claims. That stays
// so until it is done, for no attempt uses a claim that is being given up; if this
// knowledge is old a later cycle gives them up.
func (pl *Plugin) releaseGroupClaim(group *groupState, pod *v1.Pod) (string, error) {
	podGroup, err := pl.lookup.podGroupOf(pod)
	if err != nil || podGroup == nil {
		return "", err
	}
	scheduled, err := pl.handle.PodGroupManager().PodGroupStates().Get(podGroup.Namespace, podGroup.Name)
	if err != nil {
		return "", err
	}
	if scheduled.ScheduledPodsCount() > 0 {
		return "", nil
	}
	for _, s := range group.attempts {
		if name, err := pl.deallocateBlocking(s, nil, podGroup.UID); name != "" || err != nil {
			return name, err
		}
	}
	for i := range podGroup.Spec.ResourceClaims {
		name, err := pl.unreserveGroupClaim(podGroup, &podGroup.Spec.ResourceClaims[i])
		if name != "" || err != nil {
			return name, err
		}
	}
	return "", nil
}

// unreserveGroupClaim has the PodGroup removed from the consumers of one of its
// claims. The next cycle can then move the claim elsewhere.
func (pl *Plugin) unreserveGroupClaim(podGroup *schedulingapi.PodGroup, entry *schedulingapi.PodGroupResourceClaim) (string, error) {
	name, checkOwner, err := resourceclaim.NameFromPodGroup(podGroup, entry)
	if err != nil || name == nil {
		return "", err
	}
	claim, err := pl.manager.ResourceClaims().Get(podGroup.Namespace, *name)
	if err != nil {
		return "", err
	}
	if checkOwner && !metav1.IsControlledBy(claim, podGroup) {
		return "", nil
	}
	if claim.Status.Allocation == nil || !podclaim.Consumes(claim, podGroup.UID) {
		return "", nil
	}
	return podclaim.NameOf(claim), pl.chores.Begin(claim.UID, func(ctx context.Context) error {
		updated, err := pl.writer.RemoveConsumer(ctx, claim, podGroup.UID)
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil // it is gone, or another one of its name is there
		}
		if err == nil {
			pl.writer.Observe(ctx, &podclaim.Claim{Claim: claim}, updated)
		}
		return err
	})
}
