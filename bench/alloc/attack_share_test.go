// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"
	"math/rand/v2"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// shareAttacks want parts of devices.
func shareAttacks() []*kind {
	return []*kind{
		{"shares", []size{{"devices", 4, 1, 256}, {"capacities", 2, 1, 31}, {"requests", 16, 1, 32}, {"alternatives", 1, 1, 8}, {"fill", 98, 50, 101}, seed},
			"devices=3 requests=6", packedShares},
		{"values", []size{{"devices", 256, 1, 256}, {"capacities", 31, 1, 31}, {"requests", 32, 1, 32}, {"alternatives", 8, 1, 8}, {"fill", 100, 50, 101}, seed},
			"devices=4 capacities=3 requests=4 alternatives=2", valueShares},
		{"held", []size{{"devices", 256, 1, 256}, {"capacities", 2, 1, 31}, {"holders", 2000, 1, 5000}, {"requests", 32, 1, 32}, {"alternatives", 8, 1, 8}, seed},
			"devices=4 holders=20 requests=4 alternatives=2", heldShares},
		{"all", []size{{"devices", 32, 1, 32}, {"capacities", 31, 1, 31}, {"claims", 8, 1, 20}, {"alternatives", 8, 1, 8}, seed},
			"devices=8 capacities=2 claims=2 alternatives=2", allShares},
	}
}

// capacity of every shared device, of which requests take parts.
const capacity = 1000

// shareable are devices with capacities under a policy.
func shareable(count, capacities int, policy func() *resourceapi.CapacityRequestPolicy) []resourceapi.Device {
	return plain(count, func(_ int, d *resourceapi.Device) {
		d.AllowMultipleAllocations = new(true)
		d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{}
		for c := range capacities {
			d.Capacity[capacityName(c)] = resourceapi.DeviceCapacity{Value: whole(capacity), RequestPolicy: policy()}
		}
	})
}

func capacityName(c int) resourceapi.QualifiedName {
	return resourceapi.QualifiedName(fmt.Sprintf("c%d", c))
}

func steps() *resourceapi.CapacityRequestPolicy {
	return &resourceapi.CapacityRequestPolicy{
		Default:    new(whole(1)),
		ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: new(whole(1)), Max: new(whole(capacity)), Step: new(whole(1))},
	}
}

// validValues is how many a policy may list.
const validValues = 10

func values() *resourceapi.CapacityRequestPolicy {
	p := &resourceapi.CapacityRequestPolicy{Default: new(whole(capacity / 10))}
	for i := range validValues {
		p.ValidValues = append(p.ValidValues, whole((i+1)*capacity/validValues))
	}
	return p
}

// parts asks for so much of each capacity, about the mean, more of one and less
// of the next.
func parts(rnd *rand.Rand, capacities, mean int) *resourceapi.CapacityRequirements {
	r := &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{}}
	deviation := 0
	for c := range capacities {
		if c%2 == 0 {
			deviation = rnd.IntN(mean+1) - mean/2
		}
		r.Requests[capacityName(c)] = whole(min(capacity, max(1, mean+deviation)))
		deviation = -deviation
	}
	return r
}

// packedShares want, all together, nearly everything.
func packedShares(p sizes, rnd *rand.Rand) *attack { return packed(p, rnd, steps) }

// valueShares are the same with policies that list values.
func valueShares(p sizes, rnd *rand.Rand) *attack { return packed(p, rnd, values) }

func packed(p sizes, rnd *rand.Rand, policy func() *resourceapi.CapacityRequestPolicy) *attack {
	mean := min(capacity, max(1, p["devices"]*capacity*p["fill"]/100/p["requests"]))
	c := grid("c", p["requests"], p["alternatives"], func(int, int) resourceapi.DeviceSubRequest {
		return resourceapi.DeviceSubRequest{Capacity: parts(rnd, p["capacities"], mean)}
	})
	return &attack{slices: published(shareable(p["devices"], p["capacities"], policy), nil), claims: []*resourceapi.ResourceClaim{c}}
}

// heldShares has thousands of claims with shares of the devices, which leave
// about half, and wants more than that of each.
func heldShares(p sizes, rnd *rand.Rand) *attack {
	a := &attack{slices: published(shareable(p["devices"], p["capacities"], steps), nil)}
	per := max(1, capacity*p["devices"]/p["holders"]/2)
	left := make([]int, p["devices"])
	for h := range p["holders"] {
		d := rnd.IntN(p["devices"])
		if left[d]+per > capacity {
			continue
		}
		left[d] += per
		a.held = append(a.held, holder(h, d, p["capacities"], per))
	}
	a.claims = []*resourceapi.ResourceClaim{grid("c", p["requests"], p["alternatives"], func(int, int) resourceapi.DeviceSubRequest {
		return resourceapi.DeviceSubRequest{Capacity: parts(rnd, p["capacities"], capacity/2)}
	})}
	return a
}

// holder is a claim with a share of a device.
func holder(n, device, capacities, amount int) *resourceapi.ResourceClaim {
	request := wanted("r", resourceapi.DeviceSubRequest{Capacity: &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{}}})
	result := resourceapi.DeviceRequestAllocationResult{
		Request: "r", Driver: gpuDriver, Pool: nodeName(0), Device: fmt.Sprintf("gpu-%04d", device),
		ShareID: new(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n))), ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{},
	}
	for c := range capacities {
		request.Exactly.Capacity.Requests[capacityName(c)] = whole(amount)
		result.ConsumedCapacity[capacityName(c)] = whole(amount)
	}
	held := claim(fmt.Sprintf("held-%d", n), request)
	held.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{result}}}
	return held
}

// allShares wants a part of all devices, in several claims and alternatives of
// which the last fit together as long as the devices go round.
func allShares(p sizes, rnd *rand.Rand) *attack {
	a := &attack{slices: published(shareable(p["devices"], p["capacities"], values), nil)}
	for i := range p["claims"] {
		a.claims = append(a.claims, grid(fmt.Sprintf("c%d", i), 1, p["alternatives"], func(_, alternative int) resourceapi.DeviceSubRequest {
			return resourceapi.DeviceSubRequest{
				AllocationMode: resourceapi.DeviceAllocationModeAll,
				Capacity:       parts(rnd, p["capacities"], max(1, capacity*(p["alternatives"]-alternative)/p["claims"]/4)),
			}
		}))
	}
	return a
}
