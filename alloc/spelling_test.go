// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kerf.dev/kerf/inventory"
)

type (
	capacities = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity
	amounts    = map[resourceapi.QualifiedName]resource.Quantity
)

func askingFor(r resourceapi.DeviceRequest, requests amounts) resourceapi.DeviceRequest {
	r.Exactly.Capacity = &resourceapi.CapacityRequirements{Requests: requests}
	return r
}

// TestSpellings: a name without a domain is the driver's, on the side of the device as
// well as on that of the request.
func TestSpellings(t *testing.T) {
	const full = "a.example.com/mem"
	policy := &resourceapi.CapacityRequestPolicy{Default: ptr(units(1)), ValidValues: []resource.Quantity{units(1), units(4)}}
	for name, tc := range map[string]struct {
		published capacities
		requests  amounts
		// want is what is consumed, of a device that can be shared; nil for a refusal.
		want map[resourceapi.QualifiedName]string
	}{
		"as published":            {capacities{"mem": {Value: units(8)}}, amounts{"mem": units(3)}, map[resourceapi.QualifiedName]string{"mem": "3"}},
		"request with domain":     {capacities{"mem": {Value: units(8)}}, amounts{full: units(3)}, map[resourceapi.QualifiedName]string{"mem": "3"}},
		"device with domain":      {capacities{full: {Value: units(8)}}, amounts{"mem": units(3)}, map[resourceapi.QualifiedName]string{full: "3"}},
		"too much":                {capacities{full: {Value: units(8)}}, amounts{"mem": units(9)}, nil},
		"policy":                  {capacities{"mem": {Value: units(8), RequestPolicy: policy}}, amounts{full: units(3)}, map[resourceapi.QualifiedName]string{"mem": "4"}},
		"policy says no":          {capacities{full: {Value: units(8), RequestPolicy: policy}}, amounts{"mem": units(5)}, nil},
		"default":                 {capacities{full: {Value: units(8), RequestPolicy: policy}}, amounts{}, map[resourceapi.QualifiedName]string{full: "1"}},
		"another domain asked":    {capacities{"mem": {Value: units(8)}}, amounts{"b.example.com/mem": units(3)}, nil},
		"another domain has":      {capacities{"b.example.com/mem": {Value: units(8)}}, amounts{"mem": units(3)}, nil},
		"both asked":              {capacities{"mem": {Value: units(8)}}, amounts{"mem": units(3), full: units(3)}, nil},
		"both asked, with domain": {capacities{full: {Value: units(8)}}, amounts{"mem": units(3), full: units(3)}, nil},
		"both asked, both there":  {capacities{"mem": {Value: units(8)}, full: {Value: units(8)}}, amounts{"mem": units(3), full: units(3)}, nil},
		"of two drivers": {
			capacities{"mem": {Value: units(8)}, "b.example.com/mem": {Value: units(2)}}, amounts{"mem": units(3), "b.example.com/mem": units(1)},
			map[resourceapi.QualifiedName]string{"mem": "3", "b.example.com/mem": "1"},
		},
		"both there, more with domain":    {capacities{"mem": {Value: units(2)}, full: {Value: units(8)}}, amounts{"mem": units(3)}, map[resourceapi.QualifiedName]string{full: "3"}},
		"both there, less with domain":    {capacities{"mem": {Value: units(8)}, full: {Value: units(2)}}, amounts{"mem": units(3)}, nil},
		"both there, nothing asked":       {capacities{"mem": {Value: units(8)}, full: {Value: units(2)}}, nil, map[resourceapi.QualifiedName]string{full: "2"}},
		"a domain that begins the same":   {capacities{"mem": {Value: units(8)}}, amounts{"a.example.com.au/mem": units(3)}, nil},
		"a domain that is only the start": {capacities{"a.example.com": {Value: units(8)}}, amounts{full: units(3)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, shared := range []bool{true, false} {
				device := resourceapi.Device{Name: "d", AllowMultipleAllocations: &shared, Capacity: tc.published}
				w := someDevices([]*resourceapi.ResourceClaim{claimFor("c", "1", askingFor(anyOf("r", 1), tc.requests))}, device)
				var got map[resourceapi.QualifiedName]string
				if result := allocated(t, w, BestFit); result != nil {
					got = map[resourceapi.QualifiedName]string{}
					for name, q := range result.Claims[0].Devices.Results[0].ConsumedCapacity {
						got[name] = q.String()
					}
				}
				want := tc.want
				if !shared && want != nil {
					want = map[resourceapi.QualifiedName]string{}
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("shared %t: consumed (-want +got):\n%s", shared, diff)
				}
			}
		})
	}
}

// TestSpellingOfMapping: what a device takes of its node is told by a capacity, whichever
// way the mapping and what is consumed spell it.
func TestSpellingOfMapping(t *testing.T) {
	for _, key := range []resourceapi.QualifiedName{"mem", "a.example.com/mem"} {
		for _, has := range []resourceapi.QualifiedName{"mem", "a.example.com/mem"} {
			device := resourceapi.Device{Name: "d", AllowMultipleAllocations: ptr(true), Capacity: capacities{has: {Value: units(8)}},
				NodeAllocatableResources: map[v1.ResourceName]resourceapi.NodeAllocatableResource{
					v1.ResourceMemory: {Mapping: &resourceapi.NodeAllocatableMapping{CapacityKey: &key, CapacityMultiplier: ptr(units(1))}},
				}}
			w := someDevices([]*resourceapi.ResourceClaim{claimFor("c", "1", askingFor(anyOf("r", 1), amounts{"mem": units(4)}))}, device)
			for left, fits := range map[int]bool{3: false, 4: true} {
				w.Room = map[v1.ResourceName]inventory.Amount{v1.ResourceMemory: inventory.AmountOf(units(left))}
				if result := allocated(t, w, BestFit); (result != nil) != fits {
					t.Errorf("%s by %s, with %d left: got %+v, want that it fits: %t", has, key, left, result, fits)
				}
			}
			results := []resourceapi.DeviceRequestAllocationResult{{ConsumedCapacity: amounts{"mem": units(4)}}}
			mapped, _ := NodeFootprint(results, w.View().Pools[0].Devices)
			if len(mapped) != 1 || mapped[0].Quantity.Value() != 4 {
				t.Errorf("%s by %s: the footprint is %v, want 4 of memory", has, key, mapped)
			}
		}
	}
}

// TestManyCapacities: a device may have as many capacities as the API allows, and a
// request may name them all.
func TestManyCapacities(t *testing.T) {
	const most = resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice
	has, wants := capacities{}, amounts{}
	for i := range most {
		has[resourceapi.QualifiedName(fmt.Sprint("c", i))] = resourceapi.DeviceCapacity{Value: units(10 + i)}
		wants[resourceapi.QualifiedName(fmt.Sprint("a.example.com/c", i))] = units(4)
	}
	device := resourceapi.Device{Name: "d", AllowMultipleAllocations: ptr(true), Capacity: has}
	request := func(name string) resourceapi.DeviceRequest { return askingFor(anyOf(name, 1), wants) }
	w := someDevices([]*resourceapi.ResourceClaim{claimFor("c", "1", request("r"), request("s"))}, device)
	result := allocated(t, w, BestFit)
	if result == nil {
		t.Fatal("two shares are refused")
	}
	for _, r := range result.Claims[0].Devices.Results {
		if len(r.ConsumedCapacity) != most {
			t.Errorf("a share has %d capacities, want %d", len(r.ConsumedCapacity), most)
		}
	}
	holder := claimFor("c", "1")
	holder.Status.Allocation = &result.Claims[0]
	w.Held = []*resourceapi.ResourceClaim{holder}
	for _, v := range CheckCluster(w.Slices, w.Held) {
		t.Error(v)
	}
	w.Claims = []*resourceapi.ResourceClaim{claimFor("e", "2", request("r"))}
	if got := allocated(t, w, BestFit); got != nil {
		t.Errorf("a third share is given: %+v", got)
	}
	for _, name := range slices.Sorted(maps.Keys(wants)) {
		wants[name] = units(2)
	}
	if allocated(t, w, BestFit) == nil {
		t.Error("a small share is refused")
	}
	// One too many, and one that is not there.
	wants["c32"] = units(1)
	if got := allocated(t, w, BestFit); got != nil {
		t.Errorf("a share of a capacity that the device has not is given: %+v", got)
	}
}

// TestSpellingOfShares: shares count for the capacity whichever way the driver spelt it
// when they were given out.
func TestSpellingOfShares(t *testing.T) {
	for _, has := range []resourceapi.QualifiedName{"mem", "a.example.com/mem"} {
		for _, held := range []resourceapi.QualifiedName{"mem", "a.example.com/mem"} {
			for asked, fits := range map[int]bool{6: true, 7: false} {
				holder := claimFor("holder", "0")
				share := resourceapi.DeviceRequestAllocationResult{Request: "r", Driver: "a.example.com", Pool: "p", Device: "d", ShareID: ptr(shareA), ConsumedCapacity: amounts{held: units(4)}}
				holder.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{share}}}
				device := resourceapi.Device{Name: "d", AllowMultipleAllocations: ptr(true), Capacity: capacities{has: {Value: units(10)}}}
				w := someDevices([]*resourceapi.ResourceClaim{claimFor("c", "1", asking(anyOf("r", 1), fmt.Sprint(asked)))}, device)
				w.Held = []*resourceapi.ResourceClaim{holder}
				result := allocated(t, w, BestFit)
				if (result != nil) != fits {
					t.Errorf("%d beside 4, held as %s of %s: got %+v, want that it fits: %t", asked, held, has, result, fits)
				}
				// Whoever gave out 7 of 6 is told.
				over := claimFor("over", "2")
				over.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{share}}}
				over.Status.Allocation.Devices.Results[0].ShareID = ptr(shareB)
				over.Status.Allocation.Devices.Results[0].ConsumedCapacity = amounts{has: units(asked)}
				if found := CheckCluster(w.Slices, []*resourceapi.ResourceClaim{holder, over}); (len(found) == 0) != fits {
					t.Errorf("%d beside 4, held as %s of %s: the cluster's check finds %v", asked, held, has, found)
				}
			}
		}
	}
}
