// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/inventory"
)

// These are about input that no API server has accepted, but dumps and manifests may
// have, and about nodes that gave more than they have.

// someDevices is a node with these devices and claims for one of class any.
func someDevices(claims []*resourceapi.ResourceClaim, devices ...resourceapi.Device) *World {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	slice.Spec.Driver, slice.Spec.Pool = "a.example.com", resourceapi.ResourcePool{Name: "p", Generation: 1, ResourceSliceCount: 1}
	slice.Spec.NodeName, slice.Spec.Devices = ptr("n1"), devices
	return &World{
		Node:    &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
		Classes: []*resourceapi.DeviceClass{{ObjectMeta: metav1.ObjectMeta{Name: "any"}}},
		Slices:  []*resourceapi.ResourceSlice{slice}, Claims: claims,
	}
}

func claimFor(name string, uid types.UID, requests ...resourceapi.DeviceRequest) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid}}
	claim.Spec.Devices.Requests = requests
	return claim
}

func anyOf(name string, count int64) resourceapi.DeviceRequest {
	return resourceapi.DeviceRequest{Name: name, Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "any", Count: count}}
}

// asking adds to a request that it wants as much of capacity mem.
func asking(r resourceapi.DeviceRequest, amount string) resourceapi.DeviceRequest {
	r.Exactly.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"mem": resource.MustParse(amount)}}
	return r
}

func TestCompileRefusesMalformed(t *testing.T) {
	alternatives := resourceapi.DeviceRequest{Name: "r", FirstAvailable: []resourceapi.DeviceSubRequest{
		{Name: "a", DeviceClassName: "any"}, {Name: "b", DeviceClassName: "any"}, {Name: "a", DeviceClassName: "any"},
	}}
	for _, tc := range []struct {
		name, field string
		claim       *resourceapi.ResourceClaim
	}{
		{"two requests of one name", "spec.devices.requests[1].name", claimFor("c", "1", anyOf("r", 1), anyOf("r", 2))},
		{"two alternatives of one name", "spec.devices.requests[0].firstAvailable[2].name", claimFor("c", "1", alternatives)},
		{"an amount without end", "spec.devices.requests[0].exactly.capacity.requests[mem]", claimFor("c", "1", asking(anyOf("r", 1), "1e999999999"))},
		{"a negative amount", "spec.devices.requests[0].exactly.capacity.requests[mem]", claimFor("c", "1", asking(anyOf("r", 1), "-5"))},
		{"hardly a negative amount", "spec.devices.requests[1].exactly.capacity.requests[mem]", claimFor("c", "1", anyOf("q", 1), asking(anyOf("r", 1), "-1n"))},
		{"a negative amount without end", "spec.devices.requests[0].exactly.capacity.requests[mem]", claimFor("c", "1", asking(anyOf("r", 1), "-1e999999999"))},
		{"less than no device", "spec.devices.requests[0].exactly.count", claimFor("c", "1", anyOf("r", -1))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := someDevices([]*resourceapi.ResourceClaim{tc.claim})
			_, err := Compile(w.Claims, w.Class, tableMatcher{}, Options{})
			if input := (*InputError)(nil); !errors.As(err, &input) || input.Object != "claim ns/c" || input.Field != tc.field {
				t.Errorf("error %v, want one about %s of claim ns/c", err, tc.field)
			}
		})
	}
}

// allocated is the result for the world, nil where there is none.
func allocated(t *testing.T, w *World, strategy Strategy) *Result {
	t.Helper()
	problem, err := Compile(w.Claims, w.Class, tableMatcher{}, Options{Strategy: strategy})
	if err != nil {
		t.Fatal(err)
	}
	out, err := problem.Allocate(w.View())
	if err != nil {
		t.Fatal(err)
	}
	if out.Result == nil {
		return nil
	}
	for _, violation := range Check(w.View(), w.Claims, w.Class, tableMatcher{}, nil, out.Result.Claims) {
		t.Errorf("%s: %s", strategy, violation)
	}
	return out.Result
}

// TestNodeOverdrawn: pods have more of the node's memory than there is, which a device
// without a need for it does not mind.
func TestNodeOverdrawn(t *testing.T) {
	takes := resourceapi.Device{Name: "takes", NodeAllocatableResources: map[v1.ResourceName]resourceapi.NodeAllocatableResource{
		v1.ResourceMemory: {Mapping: &resourceapi.NodeAllocatableMapping{DeviceMultiplier: ptr(resource.MustParse("1Gi"))}},
	}}
	claim := claimFor("c", "1", anyOf("r", 1), anyOf("s", 1))
	w := someDevices([]*resourceapi.ResourceClaim{claim}, takes, resourceapi.Device{Name: "other"}, resourceapi.Device{Name: "third"})
	w.Room = map[v1.ResourceName]inventory.Amount{v1.ResourceMemory: inventory.AmountOf(resource.MustParse("-1"))}
	for _, strategy := range []Strategy{BestFit, Spread, Listed} {
		claim.Spec.Devices.Requests[0].Exactly.Count = 1
		if allocated(t, w, strategy) == nil {
			t.Errorf("%s: refused, want the devices that take no memory", strategy)
		}
		claim.Spec.Devices.Requests[0].Exactly.Count = 2
		if result := allocated(t, w, strategy); result != nil {
			t.Errorf("%s: got %+v, want nothing for three devices", strategy, result)
		}
	}
}

// TestMappingWithoutMultiplier: the search takes a capacity without a multiplier once, and
// so does the check.
func TestMappingWithoutMultiplier(t *testing.T) {
	device := resourceapi.Device{Name: "d", Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"mem": {Value: units(4)}},
		NodeAllocatableResources: map[v1.ResourceName]resourceapi.NodeAllocatableResource{
			v1.ResourceMemory: {Mapping: &resourceapi.NodeAllocatableMapping{CapacityKey: ptr(resourceapi.QualifiedName("mem"))}},
			v1.ResourceCPU:    {Mapping: &resourceapi.NodeAllocatableMapping{}},
		}}
	w := someDevices([]*resourceapi.ResourceClaim{claimFor("c", "1", anyOf("r", 1))}, device)
	for left, fits := range map[int]bool{3: false, 4: true} {
		w.Room = map[v1.ResourceName]inventory.Amount{v1.ResourceMemory: inventory.AmountOf(units(left))}
		if result := allocated(t, w, BestFit); (result != nil) != fits {
			t.Errorf("with %d left: got %+v, want that it fits: %t", left, result, fits)
		}
	}
}

// TestNegativeCapacity: nothing is consumed of a device that is had as a whole.
func TestNegativeCapacity(t *testing.T) {
	device := resourceapi.Device{Name: "d", Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"mem": {Value: units(-1)}}}
	if allocated(t, someDevices([]*resourceapi.ResourceClaim{claimFor("c", "1", anyOf("r", 1))}, device), BestFit) == nil {
		t.Error("the device is not given out")
	}
}

// TestNegativeRequests has one of the requests and alternatives of a world ask for less than
// nothing: no policy of a device makes that an amount.
func TestNegativeRequests(t *testing.T) {
	chosen := 0
	for seed := range uint64(800) {
		w := Generate(SeededBytes(seed), WithAll)
		before := solveWorld(t, w, BestFit)
		field, name := askForLess(w, int(seed))
		if field == "" {
			continue
		}
		_, err := Compile(w.Claims, w.Class, tableMatcher{}, Options{})
		input := (*InputError)(nil)
		if !errors.As(err, &input) || input.Object != "claim ns/claim0" || input.Field != field || !strings.Contains(input.Problem, "is -") {
			t.Errorf("seed %d: error %v, want one about %s", seed, err, field)
		}
		if before.Result == nil || !slices.ContainsFunc(before.Result.Claims[0].Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool { return r.Request == name }) {
			continue
		}
		chosen++
		if !slices.ContainsFunc(Check(w.View(), w.Claims, w.Class, tableMatcher{}, w.Containers, before.Result.Claims), func(v Violation) bool {
			return strings.Contains(v.Problem, "negative amount of mem") || strings.Contains(v.Problem, "has no capacity")
		}) {
			t.Errorf("seed %d: Check accepts devices for %s", seed, field)
		}
	}
	if chosen < 100 {
		t.Errorf("%d results are for the request, want 100 or more", chosen)
	}
}

// askForLess changes the n-th request or alternative of the first claim, and returns the field
// and the name that results have for it.
func askForLess(w *World, n int) (field, name string) {
	amount := &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"mem": units(-1 - n%3)}}
	fields, names := []string{}, []string{}
	for i := range w.Claims[0].Spec.Devices.Requests {
		r := &w.Claims[0].Spec.Devices.Requests[i]
		path := fmt.Sprintf("spec.devices.requests[%d].", i)
		if r.Exactly != nil {
			fields, names = append(fields, path+"exactly"), append(names, r.Name)
		}
		for k, sub := range r.FirstAvailable {
			fields, names = append(fields, fmt.Sprintf("%sfirstAvailable[%d]", path, k)), append(names, r.Name+"/"+sub.Name)
		}
	}
	if len(fields) == 0 {
		return "", ""
	}
	field, name = fields[n%len(fields)], names[n%len(fields)]
	for i := range w.Claims[0].Spec.Devices.Requests {
		r := &w.Claims[0].Spec.Devices.Requests[i]
		if r.Exactly != nil && r.Name == name {
			r.Exactly.Capacity = amount
		}
		for k := range r.FirstAvailable {
			if r.Name+"/"+r.FirstAvailable[k].Name == name {
				r.FirstAvailable[k].Capacity = amount
			}
		}
	}
	return field + ".capacity.requests[mem]", name
}

// TestSharesWithoutUID: claims of manifests have no UID, and their shares of a device are
// told apart.
func TestSharesWithoutUID(t *testing.T) {
	device := resourceapi.Device{Name: "d", AllowMultipleAllocations: ptr(true)}
	seen := map[types.UID]bool{}
	for _, claim := range []*resourceapi.ResourceClaim{claimFor("a", "", anyOf("r", 1)), claimFor("b", "", anyOf("r", 1)), claimFor("b", "1", anyOf("r", 1))} {
		result := allocated(t, someDevices([]*resourceapi.ResourceClaim{claim}, device), BestFit)
		if result == nil {
			t.Fatal("no share is given out")
		}
		id := *result.Claims[0].Devices.Results[0].ShareID
		if seen[id] {
			t.Errorf("claim %s with UID %q: share %s is that of another claim", claim.Name, claim.UID, id)
		}
		seen[id] = true
	}
}
