// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"fmt"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/inventory"
)

// TestAmounts: nodes whose devices are too small for the same request share a line,
// which names the most that any of them has, whatever their order, and few amounts.
func TestAmounts(t *testing.T) {
	two := resource.MustParse("2")
	asks := func(capacities ...string) *resourceapi.ResourceClaim {
		requests := map[resourceapi.QualifiedName]resource.Quantity{}
		for _, name := range capacities {
			requests[resourceapi.QualifiedName(name)] = resource.MustParse("4")
		}
		r := request("gpu", 1)
		r.Exactly.Capacity = &resourceapi.CapacityRequirements{Requests: requests}
		return claim(r)
	}
	with := func(capacity string, values ...string) []*inventory.Device {
		var devices []*inventory.Device
		for i, v := range values {
			spec := resourceapi.Device{Name: fmt.Sprint("gpu-", i)}
			if v != "" {
				c := resourceapi.DeviceCapacity{Value: resource.MustParse(strings.TrimPrefix(v, "policy "))}
				if strings.HasPrefix(v, "policy ") {
					c.RequestPolicy = &resourceapi.CapacityRequestPolicy{ValidRange: &resourceapi.CapacityRequestPolicyRange{Max: &two}}
				}
				spec.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{resourceapi.QualifiedName(capacity): c}
			}
			devices = append(devices, &inventory.Device{ID: inventory.DeviceID{Driver: "gpu.example.com", Pool: "n", Device: spec.Name}, Spec: &spec})
		}
		return devices
	}
	for want, c := range map[string]struct {
		claim *resourceapi.ResourceClaim
		nodes [][]*inventory.Device
	}{
		"memory: 4 asked, 3 at most":           {asks("memory"), [][]*inventory.Device{with("memory", "1", "3"), with("memory", "2", "")}},
		"memory: 4 asked, no device has it":    {asks("memory"), [][]*inventory.Device{with("cores", "1", "3"), with("", "")}},
		"memory: 4 asked, 2 at most by policy": {asks("memory"), [][]*inventory.Device{with("memory", "policy 8", "1"), with("memory", "policy 9")}},
		"memory: 4 asked":                      {asks("memory"), [][]*inventory.Device{with("memory", strings.Split(strings.Repeat("1 ", 2000)+"1", " ")...), with("memory", "2")}},
		"a: 4 asked, 1 at most; b: 4 asked, 1 at most; c: 4 asked, 1 at most and 2 more": {
			asks("a", "b", "c", "d", "e"), [][]*inventory.Device{without("a"), without("b"), without("c"), without("d"), without("e")},
		},
	} {
		for _, reverse := range []bool{false, true} {
			causes := map[string]explain.Cause{}
			for i, devices := range c.nodes {
				if reverse {
					i = len(c.nodes) - i
				}
				r := &alloc.Refusal{
					Requests: []alloc.RequestReport{{RequestRef: gpu, Wants: 1, Dropped: map[alloc.Stage][]*inventory.Device{alloc.StageCapacity: devices}}},
					Conflict: alloc.Conflict{Kind: alloc.TooFew, Requests: []alloc.RequestRef{gpu}},
				}
				causes[fmt.Sprint("n", i)] = explain.CauseOf(r, explain.Options{Claims: []*resourceapi.ResourceClaim{c.claim}})
			}
			lines := explain.Group(causes)
			if len(lines) != 1 || !strings.Contains(lines[0].Reason+"; ", "; "+want+"; ") {
				t.Errorf("got %v, want %s", lines, want)
			}
		}
	}
}

// without is a device that has enough of all capacities but one.
func without(name string) []*inventory.Device {
	spec := resourceapi.Device{Name: "gpu", Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{}}
	for _, each := range []string{"a", "b", "c", "d", "e"} {
		spec.Capacity[resourceapi.QualifiedName(each)] = resourceapi.DeviceCapacity{Value: resource.MustParse("9")}
	}
	spec.Capacity[resourceapi.QualifiedName(name)] = resourceapi.DeviceCapacity{Value: resource.MustParse("1")}
	return []*inventory.Device{{ID: inventory.DeviceID{Driver: "gpu.example.com", Pool: "n", Device: "gpu"}, Spec: &spec}}
}
