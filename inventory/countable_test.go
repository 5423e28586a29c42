// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestCountable(t *testing.T) {
	for text, want := range map[string]bool{
		"0": true, "-1": true, "1n": true, "80Gi": true, "9223372036854775807": true, "1e24": true, "-1e24": true, "0e999999999": true,
		"1e25": false, "-1e25": false, "1e100": false, "1e999999999": false, "-1e2147483647": false,
	} {
		if q := resource.MustParse(text); Countable(&q) != want {
			t.Errorf("%s is countable: %t, want %t", text, !want, want)
		}
	}
	if !Countable(nil) {
		t.Error("nothing is not countable")
	}
}

// TestUncountablePool: wherever in a slice an amount is that no computation ends with,
// its pool offers nothing and says why, and the devices are not there for a selector to
// look at.
func TestUncountablePool(t *testing.T) {
	huge := resource.MustParse("1e999999999")
	counters := map[string]resourceapi.Counter{"memory": {Value: huge}}
	capacity := func(c resourceapi.DeviceCapacity) func(*resourceapi.ResourceSlice) {
		return func(s *resourceapi.ResourceSlice) {
			s.Spec.Devices[0].Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": c}
		}
	}
	policy := func(p resourceapi.CapacityRequestPolicy) func(*resourceapi.ResourceSlice) {
		return capacity(resourceapi.DeviceCapacity{RequestPolicy: &p})
	}
	resources := func(r resourceapi.NodeAllocatableResource) func(*resourceapi.ResourceSlice) {
		return func(s *resourceapi.ResourceSlice) {
			s.Spec.Devices[0].NodeAllocatableResources = map[v1.ResourceName]resourceapi.NodeAllocatableResource{"cpu": r}
		}
	}
	one := resource.MustParse("1")
	const ofCapacity, ofCPU = "spec.devices[0].capacity[memory]", "spec.devices[0].nodeAllocatableResources[cpu]"
	for field, spoil := range map[string]func(*resourceapi.ResourceSlice){
		"spec.sharedCounters[0].counters[memory].value": func(s *resourceapi.ResourceSlice) {
			s.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "more", Counters: counters}}
		},
		"spec.devices[0].consumesCounters[0].counters[memory].value": func(s *resourceapi.ResourceSlice) {
			s.Spec.Devices[0].ConsumesCounters[0].Counters = counters
		},
		ofCapacity + ".value":                         capacity(resourceapi.DeviceCapacity{Value: huge}),
		ofCapacity + ".requestPolicy.default":         policy(resourceapi.CapacityRequestPolicy{Default: &huge}),
		ofCapacity + ".requestPolicy.validValues[1]":  policy(resourceapi.CapacityRequestPolicy{ValidValues: []resource.Quantity{one, huge}}),
		ofCapacity + ".requestPolicy.validRange.min":  policy(resourceapi.CapacityRequestPolicy{ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: &huge}}),
		ofCapacity + ".requestPolicy.validRange.max":  policy(resourceapi.CapacityRequestPolicy{ValidRange: &resourceapi.CapacityRequestPolicyRange{Max: &huge}}),
		ofCapacity + ".requestPolicy.validRange.step": policy(resourceapi.CapacityRequestPolicy{ValidRange: &resourceapi.CapacityRequestPolicyRange{Step: &huge}}),
		ofCPU + ".mapping.capacityMultiplier":         resources(resourceapi.NodeAllocatableResource{Mapping: &resourceapi.NodeAllocatableMapping{CapacityMultiplier: &huge}}),
		ofCPU + ".mapping.deviceMultiplier":           resources(resourceapi.NodeAllocatableResource{Mapping: &resourceapi.NodeAllocatableMapping{DeviceMultiplier: &huge}}),
		ofCPU + ".overhead.perPod":                    resources(resourceapi.NodeAllocatableResource{Overhead: &resourceapi.NodeAllocatableOverhead{PerPod: &huge}}),
		ofCPU + ".overhead.perContainer":              resources(resourceapi.NodeAllocatableResource{Overhead: &resourceapi.NodeAllocatableOverhead{PerContainer: &huge}}),
	} {
		t.Run(field, func(t *testing.T) {
			slices := halves()
			spoil(slices[1])
			pool := NewPool(PoolID{Driver: "d", Pool: "p"}, slices, nil)
			if pool.Problem == nil || pool.Problem.Kind != Uncountable || pool.Problem.Name != "devices" || pool.Problem.Field != field {
				t.Errorf("problem %+v, want %s of slice devices", pool.Problem, field)
			}
			if len(pool.Devices) > 0 {
				t.Errorf("devices %v, want none", pool.Devices)
			}
		})
	}
}
