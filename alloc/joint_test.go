// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
)

// TestManyDevicesOfOneComponent: what a component can give is not cut off where there
// is more of it than a number of eight bits holds.
func TestManyDevicesOfOneComponent(t *testing.T) {
	for _, n := range []int{127, 128, 240, 255, 256, 257, 300} {
		devices := []resourceapi.Device{
			valued("a", 1), valued("b", 2), valued("c", 2),
		}
		for i := range n {
			devices = append(devices, resourceapi.Device{Name: fmt.Sprintf("p%d", i), ConsumesCounters: []resourceapi.DeviceCounterConsumption{
				{CounterSet: "card", Counters: map[string]resourceapi.Counter{"slices": {Value: units(1)}}},
			}})
		}
		pair := claimFor("pair", "u0", anyOf("r", 2))
		pair.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: ptr(resourceapi.FullyQualifiedName("a.example.com/v"))}}
		claims := []*resourceapi.ResourceClaim{pair, claimFor("one", "u1", anyOf("r", 8)), claimFor("other", "u2", anyOf("r", 8))}
		w := someDevices(claims, devices...)
		counters := w.Slices[0].DeepCopy()
		counters.Name = "counters"
		counters.Spec.Devices = nil
		counters.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "card", Counters: map[string]resourceapi.Counter{"slices": {Value: units(n)}}}}
		counters.Spec.Pool.ResourceSliceCount, w.Slices[0].Spec.Pool.ResourceSliceCount = 2, 2
		w.Slices = append(w.Slices, counters)
		if allocated(t, w, Listed) == nil {
			t.Errorf("%d devices of a card: nothing is allocated", n)
		}
	}
}

func valued(name string, v int64) resourceapi.Device {
	return resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"v": {IntValue: &v}}}
}
