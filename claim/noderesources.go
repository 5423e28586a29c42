// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
)

// Allocated is what a pod has, or is about to get, by one entry of its
// spec.resourceClaims.
type Allocated struct {
	Entry string
	// Claim is the name of the claim.
	Claim string
	// Containers use it, where it is not one of the pod's spec.
	Containers []string
	Results    []resourceapi.DeviceRequestAllocationResult
	// Devices are those of Results; nil for those that nobody knows any more.
	Devices []*inventory.Device
}

// Statuses returns what the devices of a pod take of the resources of its
// node, as pod.status.nodeAllocatableResourceClaimStatuses has it (KEP-5517): by
// claim, without claims that take nothing.
func Statuses(pod *v1.Pod, allocated []Allocated) []v1.NodeAllocatableResourceClaimStatus {
	var statuses []v1.NodeAllocatableResourceClaimStatus
	for _, a := range allocated {
		containers := a.Containers
		if a.Entry != "" {
			containers = referring(pod, a.Entry)
		}
		if i := slices.IndexFunc(statuses, func(s v1.NodeAllocatableResourceClaimStatus) bool { return s.ResourceClaimName == a.Claim }); i >= 0 {
			statuses[i].Containers = append(statuses[i].Containers, containers...)
			continue
		}
		mapping, overhead := alloc.NodeFootprint(a.Results, a.Devices)
		if len(mapping) > 0 || len(overhead) > 0 {
			statuses = append(statuses, v1.NodeAllocatableResourceClaimStatus{ResourceClaimName: a.Claim, Containers: containers, Mapping: mapping, Overhead: overhead})
		}
	}
	slices.SortFunc(statuses, func(a, b v1.NodeAllocatableResourceClaimStatus) int {
		return cmp.Compare(a.ResourceClaimName, b.ResourceClaimName)
	})
	return statuses
}

// WithSpecial returns the pod with what the devices of its special claim take of its node
// in its status, too; the pod itself does not change. API servers of Kubernetes 1.37 do
// not let the status say so: they look for the claim's name in the pod's
// resourceClaims alone (kubernetes/kubernetes#141467). Devices are those of the claim.
func WithSpecial(pod *v1.Pod, claim *resourceapi.ResourceClaim, devices []*inventory.Device) *v1.Pod {
	said := pod.Status.NodeAllocatableResourceClaimStatuses
	if !NamesSpecial(pod, claim) || claim.Status.Allocation == nil || Says(said, claim.Name) {
		return pod
	}
	special := Statuses(pod, []Allocated{{
		Containers: ContainersIn(pod.Status.ExtendedResourceClaimStatus.RequestMappings),
		Claim:      claim.Name, Results: claim.Status.Allocation.Devices.Results, Devices: devices,
	}})
	if len(special) == 0 {
		return pod
	}
	return WithStatuses(pod, append(slices.Clip(said), special...))
}

// Says reports whether there is an entry for the claim.
func Says(statuses []v1.NodeAllocatableResourceClaimStatus, claim string) bool {
	return slices.ContainsFunc(statuses, func(s v1.NodeAllocatableResourceClaimStatus) bool { return s.ResourceClaimName == claim })
}

// WithheldFrom reports whether another pod uses an allocated claim that has a device
// which maps resources of its node. Pods cannot share such a claim (KEP-5517).
func WithheldFrom(pod *v1.Pod, claim *resourceapi.ResourceClaim, snapshot *inventory.Snapshot) bool {
	status := &claim.Status
	if status.Allocation == nil || len(status.ReservedFor) == 0 || ReservedFor(claim, pod) {
		return false
	}
	return slices.ContainsFunc(snapshot.DevicesOf(status.Allocation), func(d *inventory.Device) bool {
		return d != nil && alloc.MapsNodeResources(d)
	})
}

// WithStatuses returns the pod with other claim statuses; the pod itself does not
// change.
func WithStatuses(pod *v1.Pod, statuses []v1.NodeAllocatableResourceClaimStatus) *v1.Pod {
	changed := *pod
	changed.Status.NodeAllocatableResourceClaimStatuses = statuses
	return &changed
}

// PodRequests is what a pod requests of its node, with what its devices take of it
// according to its status.
func PodRequests(pod *v1.Pod) v1.ResourceList {
	return resourcehelper.PodRequests(complete(pod), resourcehelper.PodResourcesOptions{UseStatusResources: true, UseDRANodeAllocatableResourceClaimStatus: true})
}

// Lacking lists the resources of which more is wanted than is left, sorted.
func Lacking(wants v1.ResourceList, left map[v1.ResourceName]inventory.Amount) []v1.ResourceName {
	var names []v1.ResourceName
	for _, name := range slices.Sorted(maps.Keys(wants)) {
		if wanted := inventory.AmountOf(wants[name]); wanted.Sign() > 0 && wanted.Cmp(left[name]) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// Amounts are quantities that can be computed with, whatever their size.
func Amounts(list v1.ResourceList) map[v1.ResourceName]inventory.Amount {
	all := make(map[v1.ResourceName]inventory.Amount, len(list))
	for name, q := range list {
		all[name] = inventory.AmountOf(q)
	}
	return all
}

func subtract(from, taken map[v1.ResourceName]inventory.Amount) {
	for name, amount := range taken {
		from[name] = from[name].Sub(amount)
	}
}

// TakenByDevices is what the devices of a pod add to what it requests, according to
// its status. What a budget for the whole pod covers is not added.
func TakenByDevices(pod *v1.Pod) map[v1.ResourceName]inventory.Amount {
	taken := Amounts(PodRequests(pod))
	subtract(taken, Amounts(PodRequests(WithStatuses(pod, nil))))
	maps.DeleteFunc(taken, func(_ v1.ResourceName, amount inventory.Amount) bool { return amount.Sign() == 0 })
	return taken
}

// Room returns what further devices of a pod may take of a node that has so much
// left without the pod: what the pod does not request already. Where it sets a
// budget for all its containers (Pod.spec.resources, KEP-2837) devices have to
// stay within that.
func Room(pod *v1.Pod, free map[v1.ResourceName]inventory.Amount) map[v1.ResourceName]inventory.Amount {
	requested := PodRequests(pod)
	room := make(map[v1.ResourceName]inventory.Amount, len(free))
	for name, left := range free {
		room[name] = left.Sub(inventory.AmountOf(requested[name]))
	}
	for name, left := range budgetLeft(pod) {
		room[name] = left
	}
	return room
}

// withinContainers sums up containers and devices, whatever the budget of the pod.
var withinContainers = resourcehelper.PodResourcesOptions{SkipPodLevelResources: true, UseDRANodeAllocatableResourceClaimStatus: true}

// budgetLeft is what containers and devices leave of the requests of the pod as a
// whole.
func budgetLeft(pod *v1.Pod) map[v1.ResourceName]inventory.Amount {
	left := map[v1.ResourceName]inventory.Amount{}
	if pod.Spec.Resources == nil {
		return left
	}
	used := resourcehelper.AggregateContainerRequests(pod, withinContainers)
	for name, budget := range pod.Spec.Resources.Requests {
		if resourcehelper.IsSupportedPodLevelResource(name) {
			left[name] = inventory.AmountOf(budget).Sub(inventory.AmountOf(used[name]))
		}
	}
	return left
}

// HasBudget reports whether the pod limits what its containers and devices request
// together of a resource.
func HasBudget(pod *v1.Pod, name v1.ResourceName) bool {
	_, limited := budgetLeft(pod)[name]
	return limited
}

// OverBudget returns the resource of which the devices of a pod, according to its
// status, take more than the pod as a whole may have, and the field at fault;
// empty where there is none. The API server cannot check that: it depends on the
// devices.
func OverBudget(pod *v1.Pod) (name v1.ResourceName, field string) {
	if pod.Spec.Resources == nil || len(pod.Status.NodeAllocatableResourceClaimStatuses) == 0 {
		return "", ""
	}
	left := budgetLeft(pod)
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if left[name].Sign() < 0 {
			return name, "requests"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pod.Spec.Resources.Limits)) {
		most := largestLimit(pod, name)
		if strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
			// Huge pages cannot be overcommitted: limits of containers add up.
			total := resourcehelper.AggregateContainerLimits(pod, withinContainers)
			most = inventory.AmountOf(total[name])
		}
		if most.Cmp(inventory.AmountOf(pod.Spec.Resources.Limits[name])) > 0 {
			return name, "limits"
		}
	}
	return "", ""
}

// largestLimit is the largest limit of a container, with its devices.
func largestLimit(pod *v1.Pod, name v1.ResourceName) inventory.Amount {
	var most inventory.Amount
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		limit, limited := c.Resources.Limits[name]
		if !limited {
			continue
		}
		devices := resourcehelper.GetContainerDRAAllocations(pod, c.Name)
		if sum := inventory.AmountOf(limit).Add(inventory.AmountOf(devices[name])); sum.Cmp(most) > 0 {
			most = sum
		}
	}
	return most
}
