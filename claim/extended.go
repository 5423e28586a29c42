// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kerf.dev/kerf/inventory"
)

// Extended resources can be served by devices (KEP-5004): a pod that asks for some
// gets one special claim, made for it, with the devices of the classes that the
// resources are mapped to.

// ExtendedResources lists the resources of a pod that a class could serve, sorted.
func ExtendedResources(pod *v1.Pod) []v1.ResourceName {
	names := map[v1.ResourceName]struct{}{}
	for _, c := range containersOf(pod) {
		for name, amount := range requested(c) {
			if IsExtended(name) && amount.Sign() > 0 {
				names[name] = struct{}{}
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// IsExtended reports whether a resource is one that a class could serve. It follows
// the API: names of other domains than Kubernetes' own, and those
// of classes.
func IsExtended(name v1.ResourceName) bool {
	if strings.HasPrefix(string(name), resourceapi.ResourceDeviceClassPrefix) {
		return true
	}
	return strings.Contains(string(name), "/") && !strings.Contains(string(name), v1.ResourceDefaultNamespacePrefix) && !strings.HasPrefix(string(name), v1.DefaultResourceRequestsPrefix)
}

// Serves reports whether the class names the resource, or is named by it.
func Serves(class *resourceapi.DeviceClass, name v1.ResourceName) bool {
	explicit := class.Spec.ExtendedResourceName != nil && *class.Spec.ExtendedResourceName == string(name)
	return explicit || string(name) == resourceapi.ResourceDeviceClassPrefix+class.Name
}

// ClassServing returns the class whose devices serve a resource, nil where there is
// none: of those that name it the first by [CompareClasses].
func ClassServing(name v1.ResourceName, classes iter.Seq[*resourceapi.DeviceClass]) *resourceapi.DeviceClass {
	var serving *resourceapi.DeviceClass
	for class := range classes {
		if !Serves(class, name) {
			continue
		}
		if serving == nil || CompareClasses(class, serving) < 0 {
			serving = class
		}
	}
	return serving
}

// CompareClasses orders classes that name the same resource, the one that serves it
// first: the newest, then the first by name. A class of a manifest was not created yet:
// it will be newer than all that have a timestamp, and as old as others without one.
func CompareClasses(a, b *resourceapi.DeviceClass) int {
	exists := func(class *resourceapi.DeviceClass) int {
		if class.CreationTimestamp.IsZero() {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(exists(a), exists(b)), b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// Demand is what a pod wants of a resource that a class serves.
type Demand struct {
	Resource v1.ResourceName
	Class    string
	// Amount is the number of devices that the pod needs at a time.
	Amount int64
	// Requests ask for that many devices together; Mappings tells which
	// container gets those of which request.
	Requests []resourceapi.DeviceRequest
	Mappings []v1.ContainerExtendedResourceRequest
}

// Demands lists what a pod wants of the extended resources that classes serve, by the
// name of the resource.
func Demands(pod *v1.Pod, classes iter.Seq[*resourceapi.DeviceClass]) []Demand {
	var demands []Demand
	for _, name := range ExtendedResources(pod) {
		if class := ClassServing(name, classes); class != nil {
			demands = append(demands, DemandFor(pod, name, class.Name))
		}
	}
	return demands
}

// ByDevices returns the demands that devices have to serve where device plugins offer
// what they do: of a resource that a plugin offers, the plugin gives.
func ByDevices(demands []Demand, offered func(v1.ResourceName) bool) []Demand {
	return slices.DeleteFunc(slices.Clone(demands), func(d Demand) bool { return offered(d.Resource) })
}

// ResourcesOf names what demands are for, which tells ways of serving a pod apart.
func ResourcesOf(demands []Demand) string {
	names := make([]string, len(demands))
	for i, d := range demands {
		names[i] = string(d.Resource)
	}
	return strings.Join(names, " ")
}

// DemandFor divides what the containers of a pod want of a resource into requests.
// Containers that never run at the same time share devices, and each gets exactly as
// many as it asks for: a request has the devices that the same containers use.
func DemandFor(pod *v1.Pod, name v1.ResourceName, class string) Demand {
	containers := containersOf(pod)
	parcels := parcelsOf(pod, containers, name)
	d := Demand{Resource: name, Class: class}
	names := map[int]int{} // requests by the container that they are named after
	for _, p := range parcels {
		request := fmt.Sprintf("container-%d-request-%d", p.owner, position(containers[p.owner], name))
		if n := names[p.owner]; n > 0 {
			request = fmt.Sprintf("%s-%d", request, n)
		}
		names[p.owner]++
		d.Amount += p.count
		d.Requests = append(d.Requests, resourceapi.DeviceRequest{Name: request, Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: p.count,
		}})
		for _, user := range p.users {
			d.Mappings = append(d.Mappings, v1.ContainerExtendedResourceRequest{
				ContainerName: containers[user].Name, ResourceName: string(name), RequestName: request,
			})
		}
	}
	return d
}

func containersOf(pod *v1.Pod) []*v1.Container {
	var all []*v1.Container
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			all = append(all, &list[i])
		}
	}
	return all
}

// requested is what a container requests. A limit counts where there is no request: the
// API server fills that in, manifests may lack it.
func requested(c *v1.Container) v1.ResourceList {
	all := c.Resources.Requests
	for name, limit := range c.Resources.Limits {
		if _, found := all[name]; found {
			continue
		}
		if all = maps.Clone(all); all == nil {
			all = v1.ResourceList{}
		}
		all[name] = limit
	}
	return all
}

// ManyDevices is more than any claim can have and any node offers, and small enough
// to be added up. Who wants more of an extended resource is taken to want that many.
const ManyDevices = 1 << 32

var manyDevices = resource.NewQuantity(ManyDevices, resource.DecimalSI)

// amountOf counts beyond manyDevices no further: the API has quantities that are no
// int64.
func amountOf(c *v1.Container, name v1.ResourceName) int64 {
	amount := requested(c)[name]
	if inventory.AmountOf(amount).Cmp(inventory.AmountOf(*manyDevices)) > 0 {
		return manyDevices.Value()
	}
	return amount.Value()
}

// complete returns the pod with the requests that the API server fills in, the pod
// itself where nothing is missing.
func complete(pod *v1.Pod) *v1.Pod {
	lacks := func(c *v1.Container) bool { return len(requested(c)) > len(c.Resources.Requests) }
	if !slices.ContainsFunc(containersOf(pod), lacks) {
		return pod
	}
	pod = pod.DeepCopy()
	for _, c := range containersOf(pod) {
		c.Resources.Requests = requested(c)
	}
	return pod
}

// position is that of a resource among those that a container requests.
func position(c *v1.Container, name v1.ResourceName) int {
	return slices.Index(slices.Sorted(maps.Keys(requested(c))), name)
}

// parcel is a number of devices that the same containers use, one after the other.
type parcel struct {
	// owner is the container that it is named after.
	owner int
	count int64
	users []int
}

// parcelsOf gives each container that stays, sidecars included, devices of its own.
// Containers that come to an end before those start borrow them, and share what they
// need beyond that.
func parcelsOf(pod *v1.Pod, containers []*v1.Container, name v1.ResourceName) []parcel {
	var parcels, extra []parcel
	for i, c := range containers {
		if n := amountOf(c, name); n > 0 && stays(pod, i) {
			parcels = append(parcels, parcel{owner: i, count: n, users: []int{i}})
		}
	}
	for i, c := range containers {
		n := amountOf(c, name)
		if n <= 0 || stays(pod, i) {
			continue
		}
		parcels, n = lend(parcels, n, i, func(owner int) bool { return owner > i })
		extra, n = lend(extra, n, i, func(int) bool { return true })
		if n > 0 {
			extra = append(extra, parcel{owner: i, count: n, users: []int{i}})
		}
	}
	parcels = append(parcels, extra...)
	slices.SortStableFunc(parcels, func(a, b parcel) int { return cmp.Compare(a.owner, b.owner) })
	return parcels
}

// stays reports whether a container runs as long as the pod does.
func stays(pod *v1.Pod, i int) bool {
	if i >= len(pod.Spec.InitContainers) {
		return true
	}
	policy := pod.Spec.InitContainers[i].RestartPolicy
	return policy != nil && *policy == v1.ContainerRestartPolicyAlways
}

// lend lets a container use up to n devices of the parcels that are idle while it
// runs, by their owner. A parcel of which it needs a part is divided. It returns how
// many are missing.
func lend(parcels []parcel, n int64, user int, idle func(owner int) bool) (left []parcel, missing int64) {
	for _, p := range parcels {
		switch {
		case n == 0 || !idle(p.owner):
			left = append(left, p)
		case p.count > n:
			left = append(left, parcel{p.owner, n, append(slices.Clone(p.users), user)}, parcel{p.owner, p.count - n, slices.Clone(p.users)})
			n = 0
		default:
			left = append(left, parcel{p.owner, p.count, append(slices.Clone(p.users), user)})
			n -= p.count
		}
	}
	return left, n
}
