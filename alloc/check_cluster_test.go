// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestCheckClusterOfRivals: claims are judged by what their nodes publish, where two
// nodes publish a pool of one name; a device of one name is held once.
func TestCheckClusterOfRivals(t *testing.T) {
	publish := func(node string, generation int64, draws string, devices ...string) []*resourceapi.ResourceSlice {
		spec := resourceapi.ResourceSliceSpec{
			Driver: "d", NodeName: &node, Pool: resourceapi.ResourcePool{Name: "p", Generation: generation, ResourceSliceCount: 2},
		}
		counters, partitions := &resourceapi.ResourceSlice{Spec: spec}, &resourceapi.ResourceSlice{Spec: spec}
		counters.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "s", Counters: map[string]resourceapi.Counter{"c": {Value: resource.MustParse("4")}}}}
		for _, device := range devices {
			partitions.Spec.Devices = append(partitions.Spec.Devices, resourceapi.Device{Name: device, ConsumesCounters: []resourceapi.DeviceCounterConsumption{{
				CounterSet: "s", Counters: map[string]resourceapi.Counter{"c": {Value: resource.MustParse(draws)}},
			}}})
		}
		return []*resourceapi.ResourceSlice{counters, partitions}
	}
	held := func(name, node, device string) *resourceapi.ResourceClaim {
		a := &resourceapi.AllocationResult{NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{node}}},
		}}}}
		a.Devices.Results = []resourceapi.DeviceRequestAllocationResult{{Driver: "d", Pool: "p", Device: device}}
		return &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Status: resourceapi.ResourceClaimStatus{Allocation: a}}
	}
	published := append(publish("n1", 1, "2", "d0", "d1"), publish("n2", 9, "4", "d0", "d2")...)
	for name, tc := range map[string]struct {
		claims []*resourceapi.ResourceClaim
		want   string
	}{
		"each its own":       {[]*resourceapi.ResourceClaim{held("a", "n1", "d0"), held("b", "n1", "d1"), held("c", "n2", "d2")}, ""},
		"one name twice":     {[]*resourceapi.ResourceClaim{held("a", "n1", "d0"), held("b", "n2", "d0")}, "d0 of pool d/p is also held by claim ns/a"},
		"of another node":    {[]*resourceapi.ResourceClaim{held("a", "n1", "d2")}, "no ResourceSlice publishes d/p/d2"},
		"too much of a node": {[]*resourceapi.ResourceClaim{held("a", "n2", "d0"), held("b", "n2", "d2")}, "devices in use draw 8, more than the 4 published"},
	} {
		t.Run(name, func(t *testing.T) {
			expectViolation(t, CheckCluster(published, tc.claims), tc.want)
		})
	}
}
