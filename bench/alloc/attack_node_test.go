// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodeAttacks are about taints, pools and what a node has left.
func nodeAttacks() []*kind {
	return []*kind{
		{"taints", []size{{"devices", 256, 1, 256}, {"rules", 500, 1, 1000}, {"requests", 32, 1, 32}, {"alternatives", 8, 1, 8}, seed},
			"devices=8 rules=10 requests=4 alternatives=2", taintedDevices},
		{"room", []size{{"devices", 256, 1, 256}, {"resources", 4, 1, 4}, {"fill", 97, 10, 200}, {"requests", 32, 1, 32}, {"alternatives", 8, 1, 8}, seed},
			"devices=8 requests=3 alternatives=2", scarceRoom},
		{"pools", []size{{"devices", 256, 1, 256}, {"broken", 128, 0, 256}, {"requests", 32, 1, 32}, {"alternatives", 8, 1, 8}, seed},
			"devices=16 broken=8 requests=3 alternatives=2", brokenPools},
	}
}

// taintedDevices have as many taints as may be, tolerated one by one, and further
// ones of rules.
func taintedDevices(p sizes, rnd *rand.Rand) *attack {
	key := func(i int) string { return fmt.Sprintf("example.com/taint-%d", i) }
	devices := plain(p["devices"], func(_ int, d *resourceapi.Device) {
		for i := range resourceapi.DeviceTaintsMaxLength {
			d.Taints = append(d.Taints, resourceapi.DeviceTaint{Key: key(i), Value: "v", Effect: resourceapi.DeviceTaintEffectNoSchedule, TimeAdded: &metav1.Time{}})
		}
	})
	a := &attack{slices: published(devices, nil)}
	for r := range p["rules"] {
		rule := &resourceapi.DeviceTaintRule{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("rule-%04d", r)},
			Spec: resourceapi.DeviceTaintRuleSpec{
				DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: new(gpuDriver)},
				Taint:          resourceapi.DeviceTaint{Key: key(r % resourceapi.DeviceTaintsMaxLength), Value: "v", Effect: resourceapi.DeviceTaintEffectNoSchedule, TimeAdded: &metav1.Time{}},
			},
		}
		if r%4 == 0 {
			rule.Spec.DeviceSelector.Device = new(fmt.Sprintf("gpu-%04d", rnd.IntN(p["devices"])))
			rule.Spec.Taint.Key = "example.com/other"
		}
		a.rules = append(a.rules, rule)
	}
	a.claims = []*resourceapi.ResourceClaim{grid("c", p["requests"], p["alternatives"], func(int, int) (sub resourceapi.DeviceSubRequest) {
		for i := range resourceapi.DeviceTolerationsMaxLength {
			sub.Tolerations = append(sub.Tolerations, resourceapi.DeviceToleration{Key: key(i), Operator: resourceapi.DeviceTolerationOpEqual, Value: "v"})
		}
		return sub
	})}
	return a
}

// nodeResources are those that devices can stand for.
var nodeResources = []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, "hugepages-2Mi", "hugepages-1Gi"}

// scarceRoom has devices that take different amounts of what the node has, which
// is about enough for the smallest of them.
func scarceRoom(p sizes, rnd *rand.Rand) *attack {
	devices := plain(p["devices"], func(_ int, d *resourceapi.Device) {
		d.NodeAllocatableResources = map[v1.ResourceName]resourceapi.NodeAllocatableResource{}
		share := rnd.IntN(1000)
		for i, name := range nodeResources[:p["resources"]] {
			if i%2 == 1 {
				share = 1000 - share
			}
			d.NodeAllocatableResources[name] = resourceapi.NodeAllocatableResource{
				Mapping:  &resourceapi.NodeAllocatableMapping{DeviceMultiplier: new(whole(1000 + share))},
				Overhead: &resourceapi.NodeAllocatableOverhead{PerPod: new(whole(rnd.IntN(100))), PerContainer: new(whole(rnd.IntN(100)))},
			}
		}
	})
	a := &attack{slices: published(devices, nil), room: v1.ResourceList{}, alpha: true}
	for _, name := range nodeResources {
		a.room[name] = whole(1500 * p["requests"] * p["fill"] / 100)
	}
	a.claims = []*resourceapi.ResourceClaim{grid("c", p["requests"], p["alternatives"], func(int, int) (sub resourceapi.DeviceSubRequest) { return sub })}
	return a
}

// brokenPools have a device each; the first ones are broken, in every way.
func brokenPools(p sizes, _ *rand.Rand) *attack {
	a := &attack{}
	for i, d := range plain(p["devices"], described(30, 1)) {
		s := published([]resourceapi.Device{d}, nil)[0]
		s.Name, s.Spec.Pool.Name = fmt.Sprintf("slice-%04d", i), fmt.Sprintf("pool-%04d", i)
		a.slices = append(a.slices, s)
		if i >= p["broken"] {
			continue
		}
		switch i % 3 {
		case 0: // incomplete
			s.Spec.Pool.ResourceSliceCount = 2
		case 1: // published twice
			again := s.DeepCopy()
			again.Name += "-again"
			s.Spec.Pool.ResourceSliceCount, again.Spec.Pool.ResourceSliceCount = 2, 2
			a.slices = append(a.slices, again)
		case 2: // no such counter set
			s.Spec.Devices[0].ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "none", Counters: map[string]resourceapi.Counter{"c": {Value: whole(1)}}}}
		}
	}
	c := grid("c", p["requests"], p["alternatives"], func(request, alternative int) (sub resourceapi.DeviceSubRequest) {
		if request == 0 && alternative < p["alternatives"]-1 {
			sub.AllocationMode = resourceapi.DeviceAllocationModeAll
		}
		return sub
	})
	c.Spec.Devices.Constraints = matching(30)
	a.claims = []*resourceapi.ResourceClaim{c}
	return a
}
