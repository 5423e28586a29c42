// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/kube/informer"
	"kerf.dev/kerf/kube/scheduler/handover"
	"kerf.dev/kerf/kube/scheduler/ledger"
	"kerf.dev/kerf/kube/scheduler/podclaim"
	"kerf.dev/kerf/kube/scheduler/special"
)

// EventsToRegister returns what can make a pod schedulable that the plugin
// refused. The hints err on the side of trying again.
func (pl *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	nodeChanges, podChanges := fwk.Add|fwk.UpdateNodeLabel|fwk.UpdateNodeDeclaredFeature, fwk.Delete
	classChanges := fwk.Add | fwk.Update
	var more []fwk.ClusterEventWithHint
	if pl.gates.extended {
		classChanges |= fwk.Delete // an older one serves its resource then
		more = []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeAllocatable}, QueueingHintFn: pl.hints.afterAllocatableChange}}
	}
	if pl.gates.nodeResources {
		nodeChanges |= fwk.UpdateNodeAllocatable
		podChanges |= fwk.UpdatePodScaleDown
	}
	return append(more, []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: nodeChanges}, QueueingHintFn: pl.hints.afterNodeChange},
		{Event: fwk.ClusterEvent{Resource: fwk.ResourceClaim, ActionType: fwk.Add | fwk.Update | fwk.Delete}, QueueingHintFn: pl.hints.afterClaimChange, PreQueueingHintFn: pl.hints.podsForClaimChange},
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.UpdatePodGeneratedResourceClaim}, QueueingHintFn: pl.hints.afterPodChange},
		// Devices of a pod that could not be bound become free without a change of its claims.
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: podChanges}, QueueingHintFn: pl.hints.afterPodGone},
		{Event: fwk.ClusterEvent{Resource: fwk.DeviceClass, ActionType: classChanges}, QueueingHintFn: pl.hints.afterClassChange},
		// DeviceTaintRules arrive as changes of the slices that they concern.
		{Event: fwk.ClusterEvent{Resource: fwk.ResourceSlice, ActionType: fwk.Add | fwk.Update | fwk.Delete}, QueueingHintFn: pl.hints.afterSliceChange},
	}...), nil
}

// hints tells which pods an event could be of use for.
type hints struct {
	gates         gates
	manager       fwk.SharedDRAManager
	feed          *informer.Feed
	matcher       alloc.Matcher
	users         *ledger.Users
	dear          *dearExpressions
	lookup        *lookup
	specialClaims *special.Claims
}

// waiting returns the claims of a pod for which devices have to be found, and
// those that have some; ok is false if the pod cannot be scheduled yet, whatever
// the event.
func (h *hints) waiting(pod *v1.Pod) (wanted, allocated []*podclaim.Claim, ok bool) {
	return h.waitingOn(pod, special.Always)
}

// waitingOn is the same where devices serve those extended resources.
func (h *hints) waitingOn(pod *v1.Pod, byDevices func(v1.ResourceName) bool) (wanted, allocated []*podclaim.Claim, ok bool) {
	claims, err := h.lookup.claimsOf(pod)
	if err != nil {
		return nil, nil, false
	}
	if pc := h.specialClaims.WaitingFor(pod, byDevices); pc != nil {
		claims = append(claims, pc)
	}
	for _, pc := range claims {
		if pc.Claim.Status.Allocation == nil {
			wanted = append(wanted, pc)
		} else {
			allocated = append(allocated, pc)
		}
	}
	return wanted, allocated, true
}

func hint(queue bool) (fwk.QueueingHint, error) {
	if queue {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

// afterNodeChange wakes a pod if the node can be used by all claims that are
// allocated: then the others may find devices there.
func (h *hints) afterNodeChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	_, node, err := schedutil.As[*v1.Node](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	_, allocated, ok := h.waiting(pod)
	for _, pc := range allocated {
		if selector := pc.Claim.Status.Allocation.NodeSelector; ok && selector != nil {
			nodes, err := nodeaffinity.NewNodeSelector(selector)
			ok = err == nil && nodes.Match(node)
		}
	}
	return hint(ok)
}

// podsForClaimChange narrows down the pods to look at after a claim changed.
// Devices that became free can be for anybody, everything else concerns the users
// of the claim.
func (h *hints) podsForClaimChange(_ klog.Logger, oldObj, newObj any) (fwk.PreQueueingHintResult, error) {
	before, after, err := schedutil.As[*resourceapi.ResourceClaim](oldObj, newObj)
	if err != nil || deallocated(before, after) {
		return fwk.PreQueueingHintResult{AllPods: true}, nil
	}
	c := after
	if c == nil {
		c = before
	}
	pods, err := h.users.Of(c)
	if owner := claim.MarkedFor(c); owner != nil {
		pods = append(pods, types.NamespacedName{Namespace: c.Namespace, Name: owner.Name})
	}
	return fwk.PreQueueingHintResult{Pods: pods}, err
}

// deallocated reports whether devices became free. Deleted claims have normally
// been deallocated before.
func deallocated(before, after *resourceapi.ResourceClaim) bool {
	return before != nil && before.Status.Allocation != nil && (after == nil || after.Status.Allocation == nil)
}

// afterClaimChange wakes the users of a claim when its status changes or it
// appears, and others if devices became free that they could use.
func (h *hints) afterClaimChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := schedutil.As[*resourceapi.ResourceClaim](oldObj, newObj)
	if err != nil {
		// A claim that was deleted while nobody was watching.
		return fwk.Queue, nil
	}
	wanted, allocated, ok := h.waiting(pod)
	if !ok {
		return fwk.QueueSkip, nil
	}
	if before != nil && claim.IsSpecialOf(pod, before) {
		// It was in the way, whatever it held.
		return hint(after == nil || !apiequality.Semantic.DeepEqual(before.Status, after.Status))
	}
	uses := func(claim *resourceapi.ResourceClaim) bool {
		return claim != nil && slices.ContainsFunc(append(wanted, allocated...), func(pc *podclaim.Claim) bool { return pc.Claim.UID == claim.UID })
	}
	switch {
	case uses(after):
		return hint(before == nil || !apiequality.Semantic.DeepEqual(before.Status, after.Status))
	case deallocated(before, after):
		return hint(h.freedFor(before, wanted))
	}
	return fwk.QueueSkip, nil
}

// freedFor reports whether what the claim held could be of use for the claims:
// devices that match, or counters that such devices need.
func (h *hints) freedFor(freed *resourceapi.ResourceClaim, wanted []*podclaim.Claim) bool {
	if len(wanted) == 0 {
		return false
	}
	snapshot := h.feed.Latest()
	g, end := h.glance()
	defer end()
	for _, h := range inventory.HoldsOf(freed) {
		known := false
		for pool := range snapshot.PoolsNamed(h.Device.PoolID()) {
			if g.over(1) {
				return true
			}
			if device := pool.Device(h.Device.Device); device != nil {
				known = true
				if g.frees(pool, device, wanted) {
					return true
				}
			}
		}
		if !known {
			// It is not known what it is, or what it drew.
			return true
		}
	}
	return false
}

// frees reports whether the device, or one of the pool that draws from the same
// counters, could be of use for the claims.
func (g *glance) frees(pool *inventory.Pool, device *inventory.Device, wanted []*podclaim.Claim) bool {
	return slices.ContainsFunc(pool.Devices, func(d *inventory.Device) bool {
		if d != device && g.over(1+len(d.Draws)*len(device.Draws)/8) {
			return true
		}
		return (d == device || shareCounters(pool, d, device)) && g.anyWants(wanted, d)
	})
}

// shareCounters reports whether both devices draw from the same counter set.
func shareCounters(pool *inventory.Pool, a, b *inventory.Device) bool {
	return slices.ContainsFunc(a.Draws, func(x inventory.Draw) bool {
		return slices.ContainsFunc(b.Draws, func(y inventory.Draw) bool { return pool.Counters[x.Counter].Set == pool.Counters[y.Counter].Set })
	})
}

// afterPodChange wakes a pod when all its claims have been generated.
func (h *hints) afterPodChange(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	_, pod, err := schedutil.As[*v1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	_, _, ok := h.waiting(pod)
	return hint(ok)
}

// afterPodGone wakes pods if another one left a node, or the way to it, without
// having its claims allocated. Those that are allocated have an event of their
// own when that ends.
func (h *hints) afterPodGone(_ klog.Logger, _ *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	gone, _, err := schedutil.As[*v1.Pod](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if h.gates.nodeResources {
		return fwk.Queue, nil // it leaves room for what devices take of the node
	}
	unallocated, _, ok := h.waiting(gone)
	return hint(ok && len(unallocated) > 0)
}

// afterClassChange wakes the pods with a request for the class.
func (h *hints) afterClassChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, class, err := schedutil.As[*resourceapi.DeviceClass](oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if before != nil && class != nil && apiequality.Semantic.DeepEqual(before.Spec, class.Spec) {
		return fwk.QueueSkip, nil
	}
	if moved, err := h.specialClaims.ServesOtherwise(pod, before, class); err != nil || moved {
		return fwk.Queue, err
	}
	if class == nil {
		return fwk.QueueSkip, nil // nothing gets better without it
	}
	wanted, _, _ := h.waiting(pod)
	for _, pc := range wanted {
		for ask := range claim.Asks(&pc.Claim.Spec.Devices) {
			if ask.DeviceClassName == class.Name {
				return fwk.Queue, nil
			}
		}
	}
	return fwk.QueueSkip, nil
}

// afterSliceChange wakes the pods that could use devices of the slice, as it was
// or as it is: requests for all devices can also profit from fewer. A slice that
// is one of several may complete its pool, so that any device in it matters. Of devices
// that the pod's claims have the taints matter.
func (h *hints) afterSliceChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := schedutil.As[*resourceapi.ResourceSlice](oldObj, newObj)
	if err != nil {
		return fwk.Queue, fmt.Errorf("hint for a changed ResourceSlice: %w", err)
	}
	if before != nil && after != nil && apiequality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return fwk.QueueSkip, nil
	}
	wanted, allocated, _ := h.waiting(pod)
	if handover.TaintsChanged(before, after, allocated) {
		return fwk.Queue, nil
	}
	if len(wanted) == 0 {
		return fwk.QueueSkip, nil
	}
	return hint(h.sliceServes(before, wanted) || h.sliceServes(after, wanted))
}

func (h *hints) sliceServes(slice *resourceapi.ResourceSlice, wanted []*podclaim.Claim) bool {
	if slice == nil {
		return false
	}
	if slice.Spec.Pool.ResourceSliceCount != 1 {
		return true
	}
	g, end := h.glance()
	defer end()
	return slices.ContainsFunc(slice.Spec.Devices, func(spec resourceapi.Device) bool {
		id := inventory.DeviceID{Driver: slice.Spec.Driver, Pool: slice.Spec.Pool.Name, Device: spec.Name}
		return g.anyWants(wanted, &inventory.Device{ID: id, Spec: &spec, Slice: slice})
	})
}

// afterAllocatableChange wakes a pod when a device plugin has begun or ceased to
// offer something that it asks for, or offers another amount.
func (h *hints) afterAllocatableChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := schedutil.As[*v1.Node](oldObj, newObj)
	if err != nil || before == nil {
		return fwk.Queue, err
	}
	return hint(slices.ContainsFunc(claim.ExtendedResources(pod), func(name v1.ResourceName) bool {
		return !before.Status.Allocatable.Name(name, "").Equal(*after.Status.Allocatable.Name(name, ""))
	}))
}
