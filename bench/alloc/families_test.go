// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/structured"
)

// family is one kind of problem.
type family struct {
	name     string
	possible bool
	slices   []*resourceapi.ResourceSlice
	state    structured.AllocatedState
	claims   []*resourceapi.ResourceClaim
	// nodes are those that are tried; node 0 if there are none.
	nodes []*v1.Node
	// reused: the allocator is made once, not for each measurement.
	reused bool
}

func families() []family {
	all := slices.Concat(wholeDevices(), attributeGroups(), mixtures(), partitioned(), alternatives(), shares(), severalClaims(), clusters())
	for i := range all {
		if all[i].nodes == nil {
			all[i].nodes = []*v1.Node{node(0)}
		}
	}
	return all
}

func wholeDevices() []family {
	want := func(count int64, selectors ...string) []*resourceapi.ResourceClaim {
		return claims(request("gpus", "gpu", count, selectors...))
	}
	all := request("gpus", "gpu", 0)
	all.Exactly.AllocationMode = resourceapi.DeviceAllocationModeAll
	return []family{
		{name: "1 of 8", possible: true, slices: server(8), claims: want(1)},
		{name: "8 of 8", possible: true, slices: server(8), claims: want(8)},
		{name: "9 of 8", slices: server(8), claims: want(9)},
		{name: "1 of 8, selected by capacity and index", possible: true, slices: server(8), claims: want(1,
			`device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0`, `device.attributes["gpu.example.com"].index >= 4`)},
		{name: "32 of 64, 32 taken", possible: true, slices: server(64), state: taken(32), claims: want(32)},
		{name: "32 of 64, 33 taken", slices: server(64), state: taken(33), claims: want(32)},
		{name: "16 of 40, 25 taken", slices: server(40), state: taken(25), claims: want(16)},
		{name: "all of 8", possible: true, slices: server(8), claims: claims(all)},
		{name: "all of 8, one taken", slices: server(8), state: taken(1), claims: claims(all)},
	}
}

// numa is the attribute that grouped sets.
var numa = resourceapi.FullyQualifiedName(gpuDriver + "/" + numaNode)

// grouped are the slices of a node whose GPUs are on so many NUMA nodes.
func grouped(devices, groups int) []*resourceapi.ResourceSlice {
	return []*resourceapi.ResourceSlice{slice("gpus", gpuDriver, 0, 1, gpus(devices, func(i int, d *resourceapi.Device) {
		d.Attributes[numaNode] = number(i % groups)
	})...)}
}

// withNICs are the slices of a node with so many GPUs, and NICs on some of their
// PCIe roots.
func withNICs(count int, roots ...int) []*resourceapi.ResourceSlice {
	return append(server(count), slice("nics", nicDriver, 0, 1, nics(roots...)...))
}

func attributeGroups() []family {
	distinct := func(count int) []*resourceapi.ResourceClaim {
		var requests []resourceapi.DeviceRequest
		for i := range count {
			requests = append(requests, request(fmt.Sprintf("gpu-%d", i), "gpu", 1))
		}
		return constrained(claims(requests...), resourceapi.DeviceConstraint{DistinctAttribute: &numa})
	}
	alike := func(count int64) []*resourceapi.ResourceClaim {
		return constrained(claims(request("gpus", "gpu", count)), resourceapi.DeviceConstraint{MatchAttribute: &numa})
	}
	return []family{
		{name: "4 distinct over 4 values", possible: true, slices: grouped(16, 4), claims: distinct(4)},
		{name: "10 distinct over 4 values", slices: grouped(16, 4), claims: distinct(10)},
		{name: "5 alike in groups of 5", possible: true, slices: grouped(20, 4), claims: alike(5)},
		{name: "6 alike in groups of 5", slices: grouped(20, 4), claims: alike(6)},
		{name: "4 GPU+NIC pairs where 4 exist", possible: true, slices: withNICs(8, 1, 3, 5, 7), claims: pairs(4)},
		{name: "4 GPU+NIC pairs where 3 exist", slices: withNICs(8, 1, 3, 5), claims: pairs(4)},
	}
}

// mixtures have groups of several sizes, or other requests beside the groups.
func mixtures() []family {
	// each has requests for so many GPUs, the first of them from anywhere, the
	// others on one NUMA node each.
	each := func(free int, counts ...int64) []*resourceapi.ResourceClaim {
		var requests []resourceapi.DeviceRequest
		var constraints []resourceapi.DeviceConstraint
		for i, count := range counts {
			name := fmt.Sprintf("gpus-%d", i)
			requests = append(requests, request(name, "gpu", count))
			if i >= free {
				constraints = append(constraints, resourceapi.DeviceConstraint{Requests: []string{name}, MatchAttribute: &numa})
			}
		}
		return constrained(claims(requests...), constraints...)
	}
	index := resourceapi.FullyQualifiedName(gpuDriver + "/index")
	both := each(1, 8, 2)
	both[0].Spec.Devices.Constraints = append(both[0].Spec.Devices.Constraints, resourceapi.DeviceConstraint{Requests: []string{"gpus-1"}, MatchAttribute: &index})
	beside := func(count int64, groups int) []*resourceapi.ResourceClaim {
		all := pairs(groups)
		devices := &all[0].Spec.Devices
		devices.Requests = append([]resourceapi.DeviceRequest{request("gpus", "gpu", count)}, devices.Requests...)
		return all
	}
	var pairClaims []*resourceapi.ResourceClaim
	for i := range 6 {
		pair := pairs(1)
		pair[0].Name, pair[0].UID = fmt.Sprintf("c%d", i), types.UID(fmt.Sprintf("c%d", i))
		pairClaims = append(pairClaims, pair...)
	}
	return []family{
		{name: "3, 3, 3, 3 and 2 alike in groups of 4", slices: grouped(16, 4), claims: each(0, 3, 3, 3, 3, 2)},
		{name: "6 times 3 and 2 alike in groups of 7", slices: grouped(21, 3), claims: each(0, 3, 3, 3, 3, 3, 3, 2)},
		{name: "8 of any, then 5 alike in groups of 5", possible: true, slices: grouped(20, 4), claims: each(1, 8, 5)},
		{name: "8 of any, then 6 alike in groups of 5", slices: grouped(20, 4), claims: each(1, 8, 6)},
		{name: "8 of any, then 2 alike in two attributes", slices: grouped(20, 4), claims: both},
		{name: "8 GPU+NIC pairs where 8 exist", possible: true, slices: withNICs(10, 2, 3, 4, 5, 6, 7, 8, 9), claims: pairs(8)},
		{name: "8 GPU+NIC pairs where 7 exist", slices: withNICs(10, 2, 3, 4, 5, 6, 7, 8), claims: pairs(8)},
		{name: "8 GPU+NIC pairs, two NICs on one root", slices: withNICs(10, 2, 2, 3, 4, 5, 6, 7, 8), claims: pairs(8)},
		{name: "3 GPUs, then 6 pairs on 8 GPUs", slices: withNICs(8, 2, 3, 4, 5, 6, 7), claims: beside(3, 6)},
		{name: "6 claims of a pair where 5 exist", slices: withNICs(8, 3, 4, 5, 6, 7), claims: pairClaims},
	}
}

// pairs wants so many pairs of a GPU and a NIC, each on a PCIe root of its own.
func pairs(count int) []*resourceapi.ResourceClaim {
	root := resourceapi.FullyQualifiedName(pcieRoot)
	var requests []resourceapi.DeviceRequest
	var constraints []resourceapi.DeviceConstraint
	for i := range count {
		gpu, nic := fmt.Sprintf("gpu-%d", i), fmt.Sprintf("nic-%d", i)
		requests = append(requests, request(gpu, "gpu", 1), request(nic, "nic", 1))
		constraints = append(constraints, resourceapi.DeviceConstraint{Requests: []string{gpu, nic}, MatchAttribute: &root})
	}
	return constrained(claims(requests...), constraints...)
}

func partitioned() []family {
	parent := resourceapi.FullyQualifiedName(gpuDriver + "/parent")
	// couples wants so many pairs of partitions, each on one card.
	couples := func(count int) []*resourceapi.ResourceClaim {
		var requests []resourceapi.DeviceRequest
		var constraints []resourceapi.DeviceConstraint
		for i := range count {
			large, small := partition(1, "3g.40gb"), partition(1, "2g.20gb")
			large.Name, small.Name = fmt.Sprintf("large-%d", i), fmt.Sprintf("small-%d", i)
			requests = append(requests, large, small)
			constraints = append(constraints, resourceapi.DeviceConstraint{Requests: []string{large.Name, small.Name}, MatchAttribute: &parent})
		}
		return constrained(claims(requests...), constraints...)
	}
	return []family{
		{name: "1 partition of 1 card", possible: true, slices: partitions(1), claims: claims(partition(1, "3g.40gb"))},
		{name: "7 partitions fill 1 card", possible: true, slices: partitions(1), claims: claims(partition(7, "1g.10gb"))},
		{name: "8 partitions on 1 card", slices: partitions(1), claims: claims(partition(8, "1g.10gb"))},
		{name: "15 partitions fill 5 cards", possible: true, slices: partitions(5), claims: claims(partition(15, "2g.20gb"))},
		{name: "16 partitions on 5 cards", slices: partitions(5), claims: claims(partition(16, "2g.20gb"))},
		{name: "24 partitions fill 8 cards", possible: true, slices: partitions(8), claims: claims(partition(24, "2g.20gb"))},
		{name: "25 partitions on 8 cards", slices: partitions(8), claims: claims(partition(25, "2g.20gb"))},
		{name: "8 large, then 8 small on 8 cards", possible: true, slices: partitions(8), claims: claims(partition(8, "3g.40gb"), partition(8, "2g.20gb"))},
		{name: "12 small, then 8 large on 8 cards", possible: true, slices: partitions(8), claims: claims(partition(12, "1g.10gb"), partition(8, "4g.40gb"))},
		{name: "8 large, then 17 small on 8 cards", slices: partitions(8), claims: claims(partition(8, "3g.40gb"), partition(17, "2g.20gb"))},
		{name: "6 pairs on one card each of 5 cards", slices: partitions(5), claims: couples(6)},
	}
}

// alternatives are prioritized lists of which only the last entry exists.
func alternatives() []family {
	chain := func(requests, alternatives int, count int64) []*resourceapi.ResourceClaim {
		var all []resourceapi.DeviceRequest
		for r := range requests {
			request := resourceapi.DeviceRequest{Name: fmt.Sprintf("r%d", r)}
			for a := range alternatives {
				sub := resourceapi.DeviceSubRequest{
					Name: fmt.Sprintf("a%d", a), DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
					Selectors: []resourceapi.DeviceSelector{selecting(fmt.Sprintf(`device.attributes["gpu.example.com"].productName == "B%d00"`, a))},
				}
				if a == alternatives-1 {
					sub.Selectors, sub.Count = nil, count
				}
				request.FirstAvailable = append(request.FirstAvailable, sub)
			}
			all = append(all, request)
		}
		return claims(all...)
	}
	different := chain(4, 3, 2)
	different[0].Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{DistinctAttribute: &numa}}
	return []family{
		{name: "the last of 8 alternatives", possible: true, slices: server(8), claims: chain(1, 8, 1)},
		{name: "4 lists of 3 alternatives for 8", possible: true, slices: server(8), claims: chain(4, 3, 2)},
		{name: "4 lists of 3 alternatives for 7", slices: server(7), claims: chain(4, 3, 2)},
		{name: "4 lists, 8 distinct over 7 values", slices: grouped(14, 7), claims: different},
	}
}

func shares() []family {
	shared := func(devices int) []*resourceapi.ResourceSlice {
		return []*resourceapi.ResourceSlice{slice("gpus", gpuDriver, 0, 1, gpus(devices, func(_ int, d *resourceapi.Device) {
			d.AllowMultipleAllocations = new(true)
			d.Capacity = capacities{"memory": {
				Value: resource.MustParse("80Gi"),
				RequestPolicy: &resourceapi.CapacityRequestPolicy{
					Default:    new(resource.MustParse("1Gi")),
					ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: new(resource.MustParse("1Gi")), Step: new(resource.MustParse("1Gi"))},
				},
			}}
		})...)}
	}
	// want has so many shares of each size.
	want := func(shares int, sizes ...string) []*resourceapi.ResourceClaim {
		var all []resourceapi.DeviceRequest
		for _, size := range sizes {
			for range shares {
				r := request(fmt.Sprintf("share-%d", len(all)), "gpu", 1)
				r.Exactly.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse(size)}}
				all = append(all, r)
			}
		}
		return claims(all...)
	}
	return []family{
		{name: "8 shares fill 4 devices", possible: true, slices: shared(4), claims: want(8, "40Gi")},
		{name: "9 shares of 4 devices", slices: shared(4), claims: want(9, "40Gi")},
		{name: "25 shares where 24 fit on 8 devices", slices: shared(8), claims: want(25, "21Gi")},
		{name: "8 small, 8 large shares fill 8 devices", possible: true, slices: shared(8), claims: want(8, "30Gi", "50Gi")},
		{name: "8 shares of 3 sizes each, too many for 8", slices: shared(8), claims: want(8, "25Gi", "30Gi", "28Gi")},
	}
}

func severalClaims() []family {
	want := func(claims int, count int64) []*resourceapi.ResourceClaim {
		var all []*resourceapi.ResourceClaim
		for i := range claims {
			all = append(all, claim(fmt.Sprintf("c%d", i), request("gpus", "gpu", count)))
		}
		return all
	}
	return []family{
		{name: "4 claims of 2 on 8", possible: true, slices: server(8), claims: want(4, 2)},
		{name: "3 claims of 3 on 8", slices: server(8), claims: want(3, 3)},
	}
}

// many is the number of nodes of a large cluster.
const many = 2000

func clusters() []family {
	slices := servers(many)
	var nodes []*v1.Node
	for n := range many {
		nodes = append(nodes, node(n))
	}
	two, nine := claims(request("gpus", "gpu", 2)), claims(request("gpus", "gpu", 9))
	return []family{
		{name: "2000 nodes: one node, allocator reused", possible: true, slices: slices, claims: two, reused: true},
		{name: "2000 nodes: one node, allocator made", possible: true, slices: slices, claims: two},
		{name: "2000 nodes: all nodes, allocator made", possible: true, slices: slices, claims: two, nodes: nodes},
		{name: "2000 nodes: none of all nodes, allocator made", slices: slices, claims: nine, nodes: nodes},
	}
}
