// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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
	all := slices.Concat(wholeDevices(), attributeGroups(), partitioned(), alternatives(), shares(), severalClaims(), clusters())
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

func attributeGroups() []family {
	grouped := func(devices, groups int) []*resourceapi.ResourceSlice {
		return []*resourceapi.ResourceSlice{slice("gpus", gpuDriver, 0, 1, gpus(devices, func(i int, d *resourceapi.Device) {
			d.Attributes[numaNode] = number(i % groups)
		})...)}
	}
	numa := resourceapi.FullyQualifiedName(gpuDriver + "/" + numaNode)
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
	withNICs := func(roots ...int) []*resourceapi.ResourceSlice {
		return append(server(8), slice("nics", nicDriver, 0, 1, nics(roots...)...))
	}
	return []family{
		{name: "4 distinct over 4 values", possible: true, slices: grouped(16, 4), claims: distinct(4)},
		{name: "10 distinct over 4 values", slices: grouped(16, 4), claims: distinct(10)},
		{name: "5 alike in groups of 5", possible: true, slices: grouped(20, 4), claims: alike(5)},
		{name: "6 alike in groups of 5", slices: grouped(20, 4), claims: alike(6)},
		{name: "4 GPU+NIC pairs where 4 exist", possible: true, slices: withNICs(1, 3, 5, 7), claims: pairs(4)},
		{name: "4 GPU+NIC pairs where 3 exist", slices: withNICs(1, 3, 5), claims: pairs(4)},
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
	return []family{
		{name: "the last of 8 alternatives", possible: true, slices: server(8), claims: chain(1, 8, 1)},
		{name: "4 lists of 3 alternatives for 8", possible: true, slices: server(8), claims: chain(4, 3, 2)},
		{name: "4 lists of 3 alternatives for 7", slices: server(7), claims: chain(4, 3, 2)},
	}
}

func shares() []family {
	shared := []*resourceapi.ResourceSlice{slice("gpus", gpuDriver, 0, 1, gpus(4, func(_ int, d *resourceapi.Device) {
		d.AllowMultipleAllocations = new(true)
		d.Capacity = capacities{"memory": {
			Value: resource.MustParse("80Gi"),
			RequestPolicy: &resourceapi.CapacityRequestPolicy{
				Default:    new(resource.MustParse("1Gi")),
				ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: new(resource.MustParse("1Gi")), Step: new(resource.MustParse("1Gi"))},
			},
		}}
	})...)}
	want := func(shares int) []*resourceapi.ResourceClaim {
		var all []resourceapi.DeviceRequest
		for i := range shares {
			r := request(fmt.Sprintf("share-%d", i), "gpu", 1)
			r.Exactly.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("40Gi")}}
			all = append(all, r)
		}
		return claims(all...)
	}
	return []family{
		{name: "8 shares fill 4 devices", possible: true, slices: shared, claims: want(8)},
		{name: "9 shares of 4 devices", slices: shared, claims: want(9)},
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
