// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// mostCountable is more than there is of anything, and little enough to add up those of
// a cluster: 10^24.
var mostCountable = AmountOf(resource.MustParse("1e24"))

// Uncounted is what is wrong with a quantity that is not [Countable].
const Uncounted = "more than 1e24, which nobody can compute with"

// Countable reports whether a quantity can be computed with. An API server stores
// 1e999999999, and resource.Quantity never ends comparing it with anything. Without a
// quantity there is nothing to count.
func Countable(q *resource.Quantity) bool {
	if q == nil {
		return true
	}
	amount := AmountOf(*q)
	return amount.Cmp(mostCountable) <= 0 && amount.Cmp(Amount{}.Sub(mostCountable)) >= 0
}

// checkCountable reports whether the amounts of a slice are countable, and fails the pool
// where one is not. The devices of such a slice are left out: whoever compares the amount,
// be it a selector of somebody else, would not end.
func (p *Pool) checkCountable(slice *resourceapi.ResourceSlice) bool {
	u := uncountable{}
	for i := range slice.Spec.SharedCounters {
		u.counters(slice.Spec.SharedCounters[i].Counters, "spec.sharedCounters[%d]", i)
	}
	for i := range slice.Spec.Devices {
		u.device(i, &slice.Spec.Devices[i])
	}
	if len(u.fields) > 0 {
		p.fail(&PoolProblem{Kind: Uncountable, Name: slice.Name, Field: slices.Min(u.fields), Slices: []string{slice.Name}})
	}
	return len(u.fields) == 0
}

// uncountable collects the paths of quantities that are not countable. Paths are only
// written for those: there are none.
type uncountable struct{ fields []string }

func (u *uncountable) look(q *resource.Quantity, path string, args ...any) {
	if !Countable(q) {
		u.fields = append(u.fields, fmt.Sprintf(path, args...))
	}
}

func (u *uncountable) counters(of map[string]resourceapi.Counter, path string, args ...any) {
	for name, c := range of {
		if !Countable(&c.Value) {
			u.fields = append(u.fields, fmt.Sprintf(path, args...)+".counters["+name+"].value")
		}
	}
}

func (u *uncountable) device(i int, d *resourceapi.Device) {
	for k := range d.ConsumesCounters {
		u.counters(d.ConsumesCounters[k].Counters, "spec.devices[%d].consumesCounters[%d]", i, k)
	}
	for name, c := range d.Capacity {
		u.look(&c.Value, "spec.devices[%d].capacity[%s].value", i, name)
		if c.RequestPolicy != nil {
			u.policy(i, name, c.RequestPolicy)
		}
	}
	for name, r := range d.NodeAllocatableResources {
		if m := r.Mapping; m != nil {
			u.look(m.CapacityMultiplier, "spec.devices[%d].nodeAllocatableResources[%s].mapping.capacityMultiplier", i, name)
			u.look(m.DeviceMultiplier, "spec.devices[%d].nodeAllocatableResources[%s].mapping.deviceMultiplier", i, name)
		}
		if o := r.Overhead; o != nil {
			u.look(o.PerPod, "spec.devices[%d].nodeAllocatableResources[%s].overhead.perPod", i, name)
			u.look(o.PerContainer, "spec.devices[%d].nodeAllocatableResources[%s].overhead.perContainer", i, name)
		}
	}
}

func (u *uncountable) policy(i int, name resourceapi.QualifiedName, p *resourceapi.CapacityRequestPolicy) {
	u.look(p.Default, "spec.devices[%d].capacity[%s].requestPolicy.default", i, name)
	for k := range p.ValidValues {
		u.look(&p.ValidValues[k], "spec.devices[%d].capacity[%s].requestPolicy.validValues[%d]", i, name, k)
	}
	if r := p.ValidRange; r != nil {
		u.look(r.Min, "spec.devices[%d].capacity[%s].requestPolicy.validRange.min", i, name)
		u.look(r.Max, "spec.devices[%d].capacity[%s].requestPolicy.validRange.max", i, name)
		u.look(r.Step, "spec.devices[%d].capacity[%s].requestPolicy.validRange.step", i, name)
	}
}
