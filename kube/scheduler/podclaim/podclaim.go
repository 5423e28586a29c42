// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package podclaim

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

// Claim is a claim of the pod that is being scheduled. The fields below Claim
// are fixed after PreFilter, unless stated otherwise.
type Claim struct {
	// Entry is the pod's reference to the claim, the first of several; Entries
	// has the names of all, and References counts the containers that use them.
	Entry      *v1.PodResourceClaim
	Entries    []string
	References int
	// Claim as it was in PreFilter, then as PreBind wrote or saw it. It is
	// read-only.
	Claim *resourceapi.ResourceClaim
	// Special is set for the claim that serves extended resources.
	Special *Special
	// Consumer is the pod or its PodGroup.
	Consumer resourceapi.ResourceClaimConsumerReference
	// Nodes limits an existing allocation, nil where all nodes will do.
	Nodes *nodeaffinity.NodeSelector
	// Broken says why the devices of an existing allocation will not become
	// ready.
	Broken *BindingError
	// Tainted says why no further pod may use an existing allocation.
	Tainted *JoinError
	// Pending is the allocation that PreBind has to write. Reserve sets it, or
	// PreFilter if another pod of the group found it.
	Pending *resourceapi.AllocationResult
	// Others are consumers beside consumer that the claim had before its devices
	// were exchanged: PreBind has to write them too.
	Others []resourceapi.ResourceClaimConsumerReference
	// Exclusive is set where only one pod may use the existing allocation.
	Exclusive bool
	// Unavailable is set by Filter, holding the mutex of the attempt, if the
	// existing allocation cannot be used on some node.
	Unavailable bool
	// Touched is set by PreBind before it reserves the claim.
	Touched bool
}

// Allocation returns the existing or pending allocation, nil where there is none.
func (pc *Claim) Allocation() *resourceapi.AllocationResult {
	if pc.Claim.Status.Allocation != nil {
		return pc.Claim.Status.Allocation
	}
	return pc.Pending
}

// Key is what everything that is remembered about a claim is filed under.
func (pc *Claim) Key() types.UID {
	if pc.Special != nil {
		return pc.Special.Placeholder
	}
	return pc.Claim.UID
}

// Allocated has an element for each entry of the pod that refers to the claim.
func (pc *Claim) Allocated(result *resourceapi.AllocationResult, devices []*inventory.Device) []claim.Allocated {
	var list []claim.Allocated
	if pc.Special != nil {
		return []claim.Allocated{{Containers: pc.Special.containers, Claim: pc.Claim.Name, Results: result.Devices.Results, Devices: devices}}
	}
	for _, entry := range pc.Entries {
		list = append(list, claim.Allocated{Entry: entry, Claim: pc.Claim.Name, Results: result.Devices.Results, Devices: devices})
	}
	return list
}

// AllocatedCopy returns the claim as it will be once the allocation is written.
func AllocatedCopy(pc *Claim) *resourceapi.ResourceClaim {
	claim := pc.Claim.DeepCopy()
	if !slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
		claim.Finalizers = append(claim.Finalizers, resourceapi.Finalizer)
	}
	claim.Status.Allocation = pc.Pending
	if pc.Special != nil {
		claim.Name = placeholderName
	}
	return claim
}

// NameOf returns namespace/name, as kubectl users write it.
func NameOf(claim *resourceapi.ResourceClaim) string { return claim.Namespace + "/" + claim.Name }

// DevicesIn lists the devices of an allocation.
func DevicesIn(allocation *resourceapi.AllocationResult) []inventory.DeviceID {
	var devices []inventory.DeviceID
	for _, r := range allocation.Devices.Results {
		devices = append(devices, inventory.IDOf(&r))
	}
	return devices
}

// SameAllocation reports whether two allocations are the same apart from when
// they were made.
func SameAllocation(a, b *resourceapi.AllocationResult) bool {
	if a == nil || b == nil {
		return a == b
	}
	return apiequality.Semantic.DeepEqual(a.Devices, b.Devices) && apiequality.Semantic.DeepEqual(a.NodeSelector, b.NodeSelector)
}

// Consumes reports whether the claim is reserved for the consumer.
func Consumes(claim *resourceapi.ResourceClaim, consumer types.UID) bool {
	return slices.ContainsFunc(claim.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool { return r.UID == consumer })
}

// HoldsClaim reports whether the claim with the UID is one of them.
func HoldsClaim(claims []*Claim, uid types.UID) bool {
	return slices.ContainsFunc(claims, func(pc *Claim) bool { return pc.Claim.UID == uid })
}

// SpecsOf returns the claims themselves.
func SpecsOf(claims []*Claim) []*resourceapi.ResourceClaim {
	specs := make([]*resourceapi.ResourceClaim, len(claims))
	for i, pc := range claims {
		specs[i] = pc.Claim
	}
	return specs
}
