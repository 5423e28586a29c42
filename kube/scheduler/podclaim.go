// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
)

// podClaim is a claim of the pod that is being scheduled. The fields below claim
// are fixed after PreFilter, unless stated otherwise.
type podClaim struct {
	// entry is the pod's reference to the claim, the first of several; entries
	// has the names of all, and references counts the containers that use them.
	entry      *v1.PodResourceClaim
	entries    []string
	references int
	// claim as it was in PreFilter, then as PreBind wrote or saw it. It is
	// read-only.
	claim *resourceapi.ResourceClaim
	// special is set for the claim that serves extended resources.
	special *special
	// consumer is the pod or its PodGroup.
	consumer resourceapi.ResourceClaimConsumerReference
	// nodes limits an existing allocation, nil where all nodes will do.
	nodes *nodeaffinity.NodeSelector
	// broken says why the devices of an existing allocation will not become
	// ready.
	broken *bindingError
	// tainted says why no further pod may use an existing allocation.
	tainted *joinError
	// pending is the allocation that PreBind has to write. Reserve sets it, or
	// PreFilter if another pod of the group found it.
	pending *resourceapi.AllocationResult
	// others are consumers beside consumer that the claim had before its devices
	// were exchanged: PreBind has to write them too.
	others []resourceapi.ResourceClaimConsumerReference
	// exclusive is set where only one pod may use the existing allocation.
	exclusive bool
	// unavailable is set by Filter, holding the mutex of the attempt, if the
	// existing allocation cannot be used on some node.
	unavailable bool
	// touched is set by PreBind before it reserves the claim.
	touched bool
}

// allocation returns the existing or pending allocation, nil where there is none.
func (pc *podClaim) allocation() *resourceapi.AllocationResult {
	if pc.claim.Status.Allocation != nil {
		return pc.claim.Status.Allocation
	}
	return pc.pending
}

// key is what is remembered about a claim is filed under.
func (pc *podClaim) key() types.UID {
	if pc.special != nil {
		return pc.special.placeholder
	}
	return pc.claim.UID
}

// allocated has an element for each entry of the pod that refers to the claim.
func (pc *podClaim) allocated(result *resourceapi.AllocationResult, devices []*inventory.Device) []claim.Allocated {
	var list []claim.Allocated
	if pc.special != nil {
		return []claim.Allocated{{Containers: pc.special.containers, Claim: pc.claim.Name, Results: result.Devices.Results, Devices: devices}}
	}
	for _, entry := range pc.entries {
		list = append(list, claim.Allocated{Entry: entry, Claim: pc.claim.Name, Results: result.Devices.Results, Devices: devices})
	}
	return list
}

// allocatedCopy returns the claim as it will be once the allocation is written.
func allocatedCopy(pc *podClaim) *resourceapi.ResourceClaim {
	claim := pc.claim.DeepCopy()
	if !slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
		claim.Finalizers = append(claim.Finalizers, resourceapi.Finalizer)
	}
	claim.Status.Allocation = pc.pending
	if pc.special != nil {
		claim.Name = placeholderName
	}
	return claim
}

// nameOf returns namespace/name, as kubectl users write it.
func nameOf(claim *resourceapi.ResourceClaim) string { return claim.Namespace + "/" + claim.Name }

func devicesIn(allocation *resourceapi.AllocationResult) []inventory.DeviceID {
	var devices []inventory.DeviceID
	for _, r := range allocation.Devices.Results {
		devices = append(devices, inventory.IDOf(&r))
	}
	return devices
}

// sameAllocation reports whether two allocations are the same apart from when
// they were made.
func sameAllocation(a, b *resourceapi.AllocationResult) bool {
	if a == nil || b == nil {
		return a == b
	}
	return apiequality.Semantic.DeepEqual(a.Devices, b.Devices) && apiequality.Semantic.DeepEqual(a.NodeSelector, b.NodeSelector)
}

// consumes reports whether the claim is reserved for the consumer.
func consumes(claim *resourceapi.ResourceClaim, consumer types.UID) bool {
	return slices.ContainsFunc(claim.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool { return r.UID == consumer })
}

func holdsClaim(claims []*podClaim, uid types.UID) bool {
	return slices.ContainsFunc(claims, func(pc *podClaim) bool { return pc.claim.UID == uid })
}

// specsOf returns the claims themselves.
func specsOf(claims []*podClaim) []*resourceapi.ResourceClaim {
	specs := make([]*resourceapi.ResourceClaim, len(claims))
	for i, pc := range claims {
		specs[i] = pc.claim
	}
	return specs
}
