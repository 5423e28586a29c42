// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	v1helper "k8s.io/kubernetes/pkg/apis/core/v1/helper"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/kube/informer"
	"kerf.dev/kerf/kube/scheduler/ledger"
	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// Devices can take resources of their node (KEP-5517). How much depends on which
// ones they are, so NodeResourcesFit cannot tell before they are chosen. The
// search leaves out those that the node has no room for, and this file checks the
// pod as a whole and writes its status, from which everybody else, the kubelet
// included, learns what it takes.

// nodeRoom accounts for what devices take of their nodes.
type nodeRoom struct {
	gates    gates
	handle   fwk.Handle
	manager  fwk.SharedDRAManager
	feed     *informer.Feed
	lookup   *lookup
	users    *ledger.Users
	inFlight *ledger.InFlight
	// untold is nil where devices take nothing of nodes, or serve no extended resources.
	untold *ledger.Untold
}

// accountPod works out what the claims that are allocated take of a node, and
// refuses the pod if it cannot share one of them.
func (r *nodeRoom) accountPod(ctx context.Context, a *attempt, pod *v1.Pod, group *groupState) *fwk.Status {
	a.asks = pod
	if !r.gates.nodeResources {
		return nil
	}
	logger := klog.FromContext(ctx)
	if a.snapshot == nil {
		var err error
		if a.snapshot, err = r.feed.Snapshot(ctx); err != nil {
			return failed(logger, err)
		}
	}
	for _, pc := range a.claims {
		if pc.Allocation() == nil {
			continue
		}
		devices := a.snapshot.DevicesOf(pc.Allocation())
		pc.Exclusive = slices.ContainsFunc(devices, func(d *inventory.Device) bool { return d != nil && alloc.MapsNodeResources(d) })
		if pc.Exclusive && r.hasOtherUsers(pc, pod, group) {
			return hopeless(logger, fmt.Sprintf("node allocatable resource claim %s has a mapped device and cannot be shared across pods", pc.Claim.Name))
		}
		a.allocated = append(a.allocated, pc.Allocated(pc.Allocation(), devices)...)
	}
	a.stale = len(pod.Status.NodeAllocatableResourceClaimStatuses) > 0
	a.asks = claim.WithStatuses(pod, claim.Statuses(pod, a.allocated))
	return nil
}

// hasOtherUsers reports whether another pod has the claim, or is about to.
func (r *nodeRoom) hasOtherUsers(pc *podclaim.Claim, pod *v1.Pod, group *groupState) bool {
	if len(pc.Claim.Status.ReservedFor) > 0 && !r.lookup.reservedFor(pod, pc.Claim) {
		return true
	}
	if group != nil {
		for uid := range group.pending[pc.Claim.UID] {
			if uid != pod.UID {
				return true
			}
		}
	}
	return false
}

// account adds what the search found to what the pod takes of the node.
func (a *attempt) account(f *finding) {
	allocated := slices.Clip(a.allocated) // several nodes are looked at at once
	for i, pc := range a.wanted {
		allocated = append(allocated, pc.Allocated(&f.result.Claims[i], f.result.Devices[i])...)
	}
	f.statuses = claim.Statuses(a.asks, allocated)
}

// checkRoom checks that the node has room for a pod together with what its
// devices take, which its status says, and that the pod allows them that. Where
// devices have no part in it, NodeResourcesFit has checked it.
func (r *nodeRoom) checkRoom(logger klog.Logger, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if len(pod.Status.NodeAllocatableResourceClaimStatuses) == 0 && len(r.inFlight.On(node)) == 0 {
		return nil
	}
	if name, field := claim.OverBudget(pod); name != "" {
		return hopeless(logger, overBudget(name, field))
	}
	requested := claim.PodRequests(pod)
	free, code := r.free(node), fwk.Unschedulable
	allocatable := amounts(node.GetAllocatable())
	var reasons []string
	for _, name := range claim.Lacking(requested, free) {
		if !isNodeResource(name) {
			continue
		}
		reasons = append(reasons, "Insufficient "+string(name))
		if wants := inventory.AmountOf(requested[name]); wants.Cmp(allocatable[name]) > 0 {
			code = fwk.UnschedulableAndUnresolvable
		}
	}
	if len(reasons) == 0 {
		return nil
	}
	logger.V(5).Info("no room for the pod on the node", "node", klog.KObj(node.Node()), "reasons", reasons)
	return fwk.NewStatus(code, reasons...)
}

func overBudget(name v1.ResourceName, field string) string {
	return fmt.Sprintf("pod level %s for %s is insufficient to cover the aggregated container and node-allocatable DRA %s", strings.TrimSuffix(field, "s"), name, field)
}

// free is what the pods on the node, and those on the way to it, leave.
func (r *nodeRoom) free(node fwk.NodeInfo) ledger.Resources {
	left := amounts(node.GetAllocatable())
	for _, taken := range []ledger.Resources{amounts(node.GetRequested()), r.inFlight.On(node)} {
		for name, amount := range taken {
			left[name] = left[name].Sub(amount)
		}
	}
	return left
}

// amounts has the resources that devices can take.
func amounts(r fwk.Resource) ledger.Resources {
	of := func(v int64) inventory.Amount {
		return inventory.AmountOf(*resource.NewQuantity(v, resource.DecimalSI))
	}
	all := ledger.Resources{
		v1.ResourceCPU:              inventory.AmountOf(*resource.NewMilliQuantity(r.GetMilliCPU(), resource.DecimalSI)),
		v1.ResourceMemory:           of(r.GetMemory()),
		v1.ResourceEphemeralStorage: of(r.GetEphemeralStorage()),
	}
	for name, v := range r.GetScalarResources() {
		if isNodeResource(name) {
			all[name] = of(v)
		}
	}
	return all
}

// isNodeResource reports whether devices can take the resource.
func isNodeResource(name v1.ResourceName) bool {
	return name == v1.ResourceCPU || name == v1.ResourceMemory || name == v1.ResourceEphemeralStorage || v1helper.IsHugePageResourceName(name)
}

// settleInFlight forgets pods that have arrived, and recalls those that have not said all.
func (r *nodeRoom) settleInFlight(ctx context.Context) {
	r.recallUntold(ctx)
	for _, name := range r.inFlight.Nodes() {
		node, err := r.handle.SnapshotSharedLister().NodeInfos().Get(name)
		if err != nil { // that is how it says that there is no such node
			r.inFlight.Forget(name)
			continue
		}
		r.inFlight.Settle(node, func(namespace, name string, uid types.UID) bool {
			return r.users.Gone(namespace, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: name, UID: uid})
		})
	}
}

// clearStatuses takes back what writeStatus said of them.
func (w *statusWriter) clearStatuses(ctx context.Context, a *attempt, pod *v1.Pod) {
	if !a.stated {
		return
	}
	if err := w.write(ctx, pod, podNews{statuses: []v1.NodeAllocatableResourceClaimStatus{}}); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		// The next attempt replaces them.
		klog.FromContext(ctx).Error(err, "unreserve: take back what the devices take of the node", "pod", klog.KObj(pod))
		return
	}
	a.stated = false
}
