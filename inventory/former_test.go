// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"
)

// TestLastKnown: a driver replaces two slices, one after the other. The device in the
// second has its taint all the time.
func TestLastKnown(t *testing.T) {
	worn := resourceapi.Device{Name: "d1", Taints: []resourceapi.DeviceTaint{{Key: "worn", Effect: resourceapi.DeviceTaintEffectNoSchedule}}}
	first := slice("a", revision(1, 2), with(resourceapi.Device{Name: "d0"}))
	allocation := &resourceapi.AllocationResult{}
	for _, name := range []string{"d0", "d1"} {
		allocation.Devices.Results = append(allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{Driver: first.Spec.Driver, Pool: first.Spec.Pool.Name, Device: name})
	}
	inv := New()
	check := func(when string, want string) {
		t.Helper()
		for range 2 {
			got := ""
			for _, d := range inv.Snapshot().LastKnown(allocation) {
				switch {
				case d == nil:
					got += " gone"
				case len(d.Taints) > 0:
					got += " tainted"
				default:
					got += " fine"
				}
			}
			if got != want {
				t.Errorf("%s: got%s, want%s", when, got, want)
			}
			inv.SetHolds("x", []Hold{{Device: DeviceID{Driver: first.Spec.Driver, Pool: first.Spec.Pool.Name, Device: "d0"}}})
		}
	}
	check("nothing is published", " gone gone")
	inv.SetSlice(first)
	inv.SetSlice(slice("b", revision(1, 2), with(worn)))
	check("all is published", " fine tainted")
	inv.SetSlice(slice("a", revision(2, 2), with(resourceapi.Device{Name: "d0"})))
	check("the first is replaced", " fine tainted")
	inv.SetSlice(slice("b", revision(2, 2)))
	check("the second is replaced", " fine gone")
	inv.SetSlice(slice("b", revision(2, 2), with(resourceapi.Device{Name: "d1"})))
	check("the device is back", " fine fine")
}
