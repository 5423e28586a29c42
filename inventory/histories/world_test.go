// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func (s *source) slice() *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: pick(s, "a", "a", "b", "c")}}
	slice.Spec.Driver = driver
	slice.Spec.Pool = resourceapi.ResourcePool{Name: "p", Generation: 1, ResourceSliceCount: 1}
	if slice.Name == "b" {
		slice.Spec.Pool.Name = "q"
	}
	if s.rarely() {
		slice.Spec.Pool = resourceapi.ResourcePool{Name: pick(s, "p", "q"), Generation: int64(1 + s.intn(2)), ResourceSliceCount: int64(s.intn(3))}
	}
	if s.often() {
		slice.Spec.AllNodes = new(true)
	} else {
		slice.Spec.NodeName = new(pick(s, "n1", "n2"))
	}
	for range pick(s, 0, 0, 1, 2) {
		set := resourceapi.CounterSet{Name: pick(s, "s0", "s1"), Counters: map[string]resourceapi.Counter{}}
		for range s.intn(3) {
			set.Counters[pick(s, "c0", "c1")] = resourceapi.Counter{Value: s.amount()}
		}
		slice.Spec.SharedCounters = append(slice.Spec.SharedCounters, set)
	}
	for i := range pick(s, 3, 2, 1, 0) {
		slice.Spec.Devices = append(slice.Spec.Devices, s.device(fmt.Sprint("d", i)))
	}
	return slice
}

func (s *source) device(name string) resourceapi.Device {
	d := resourceapi.Device{Name: name}
	if s.often() {
		d.AllowMultipleAllocations = new(s.often())
	}
	for name, q := range s.amountsBy() {
		if d.Capacity == nil {
			d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{}
		}
		d.Capacity[name] = resourceapi.DeviceCapacity{Value: q}
	}
	for _, name := range names(d.Capacity) {
		d.Capacity[name] = resourceapi.DeviceCapacity{Value: d.Capacity[name].Value, RequestPolicy: s.policy()}
	}
	if s.rarely() {
		consumes := resourceapi.DeviceCounterConsumption{CounterSet: pick(s, "s0", "s1"), Counters: map[string]resourceapi.Counter{pick(s, "c0", "c1"): {Value: s.amount()}}}
		d.ConsumesCounters = append(d.ConsumesCounters, consumes)
	}
	if s.rarely() {
		d.NodeAllocatableResources = map[v1.ResourceName]resourceapi.NodeAllocatableResource{v1.ResourceMemory: {
			Mapping:  &resourceapi.NodeAllocatableMapping{CapacityKey: new(s.name()), CapacityMultiplier: new(s.amount())},
			Overhead: &resourceapi.NodeAllocatableOverhead{PerPod: new(s.amount())},
		}}
	}
	if s.rarely() {
		d.Taints = []resourceapi.DeviceTaint{{Key: "broken", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	}
	return d
}

// policy is one that the API allows, but for its amounts.
func (s *source) policy() *resourceapi.CapacityRequestPolicy {
	least := s.amount()
	for least.Sign() < 0 {
		least = s.amount()
	}
	next := func(q resource.Quantity) resource.Quantity {
		q = q.DeepCopy()
		q.Add(resource.MustParse(pick(s, "1", "4", "1n")))
		return q
	}
	switch s.intn(6) {
	case 0:
		return &resourceapi.CapacityRequestPolicy{Default: &least}
	case 1:
		return &resourceapi.CapacityRequestPolicy{Default: &least, ValidValues: []resource.Quantity{least, next(least)}}
	case 2:
		valid := &resourceapi.CapacityRequestPolicyRange{Min: &least}
		if s.often() {
			valid.Max = new(next(least))
		} else {
			valid.Step = new(next(resource.Quantity{}))
		}
		return &resourceapi.CapacityRequestPolicy{Default: &least, ValidRange: valid}
	}
	return nil
}

func (s *source) rule() *resourceapi.DeviceTaintRule {
	rule := &resourceapi.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: pick(s, "r0", "r1")}}
	rule.Spec.Taint = resourceapi.DeviceTaint{Key: "away", Effect: pick(s, resourceapi.DeviceTaintEffectNone, resourceapi.DeviceTaintEffectNoSchedule)}
	if s.often() {
		rule.Spec.DeviceSelector = &resourceapi.DeviceTaintSelector{Device: new(pick(s, "d1", "d2"))}
	}
	return rule
}

// request is a claim that waits.
func (s *source) request(name string) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	for i := range pick(s, 1, 1, 1, 2) {
		exactly := &resourceapi.ExactDeviceRequest{DeviceClassName: "any", Count: pick[int64](s, 1, 1, 1, 2)}
		if s.rarely() {
			exactly.AllocationMode, exactly.Count = resourceapi.DeviceAllocationModeAll, 0
		}
		if amounts := s.amountsBy(); amounts != nil {
			exactly.Capacity = &resourceapi.CapacityRequirements{Requests: amounts}
		}
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, resourceapi.DeviceRequest{Name: fmt.Sprint("r", i), Exactly: exactly})
	}
	return claim
}

// taker is a claim that has what it has, whoever gave it.
func (s *source) taker(name string) *resourceapi.ResourceClaim {
	claim := s.request(name)
	if s.rarely() {
		return claim
	}
	claim.Status.Allocation = &resourceapi.AllocationResult{}
	for i := range s.intn(3) {
		r := resourceapi.DeviceRequestAllocationResult{Request: "r0", Driver: driver, Pool: pick(s, "p", "p", "q"), Device: pick(s, "d0", "d1", "d2", "never")}
		if s.often() {
			r.ShareID = new(types.UID(fmt.Sprint(name, "-", i)))
			r.ConsumedCapacity = s.amountsBy()
		}
		if s.rarely() {
			r.AdminAccess = new(s.often())
		}
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, r)
	}
	return claim
}
