// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package dropin_test

import (
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
)

// below is a capacity that settled adds, of which requests may ask for a negative amount.
const below = "below"

// settled is the problem as the stock allocator of 1.37 has to see it to answer as 1.38 does, and
// whether it differs at all:
//
//   - No version has build metadata.
//   - A device that cannot be shared, and of which there are shares, is allocated as a
//     whole. Nobody asks selectors about such a device, so that problems in which selectors
//     fail must not have one.
//   - Instead of a negative amount of a capacity, of which a policy could make an amount,
//     requests ask for that of another one without a policy. Devices have it along with the
//     first, and nobody takes of it unless asked.
func (p *problem) settled() (*problem, bool) {
	s := *p
	s.slices, s.claims = nil, nil
	s.state.AllocatedDevices = p.state.AllocatedDevices.Clone()
	changed, negative := false, false
	for _, claim := range p.claims {
		claim = claim.DeepCopy()
		for i := range claim.Spec.Devices.Requests {
			r := &claim.Spec.Devices.Requests[i]
			if r.Exactly != nil {
				changed = withoutBuilds(r.Exactly.DerivedAttributes) || changed
				negative = asksBelow(r.Exactly.Capacity) || negative
			}
			for k := range r.FirstAvailable {
				changed = withoutBuilds(r.FirstAvailable[k].DerivedAttributes) || changed
				negative = asksBelow(r.FirstAvailable[k].Capacity) || negative
			}
		}
		s.claims = append(s.claims, claim)
	}
	for _, slice := range p.slices {
		slice = slice.DeepCopy()
		for i := range slice.Spec.Devices {
			d := &slice.Spec.Devices[i]
			id := structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, d.Name)
			shared := p.features.ConsumableCapacity && ptr.Deref(d.AllowMultipleAllocations, false)
			if !shared && structured.IsDeviceAllocated(id, &p.state) && !s.state.AllocatedDevices.Has(id) {
				s.state.AllocatedDevices.Insert(id)
				changed = true
			}
			if _, found := d.Capacity["mem"]; found && negative {
				d.Capacity[below] = resourceapi.DeviceCapacity{Value: quantity("1"), RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: ptr.To(quantity("0"))}}
			}
			changed = withoutBuild(d) || changed
		}
		s.slices = append(s.slices, slice)
	}
	return &s, changed || negative
}

// asksBelow has the request ask for its negative amount elsewhere.
func asksBelow(c *resourceapi.CapacityRequirements) bool {
	if c == nil {
		return false
	}
	q, found := c.Requests["mem"]
	if !found || q.Sign() >= 0 {
		return false
	}
	c.Requests = map[resourceapi.QualifiedName]resource.Quantity{below: q}
	return true
}

func withoutBuilds(derived []resourceapi.DeviceDerivedAttribute) (changed bool) {
	for i := range derived {
		if plain := strings.NewReplacer("+a", "", "+b", "").Replace(derived[i].Expression); plain != derived[i].Expression {
			derived[i].Expression, changed = plain, true
		}
	}
	return changed
}

func withoutBuild(d *resourceapi.Device) (changed bool) {
	cut := func(version *string) {
		plain, _, built := strings.Cut(*version, "+")
		*version, changed = plain, changed || built
	}
	for _, a := range d.Attributes {
		if a.VersionValue != nil {
			cut(a.VersionValue)
		}
		for i := range a.VersionValues {
			cut(&a.VersionValues[i])
		}
	}
	return changed
}

// unsettle takes out of the stock allocator's answer what was added to the problem.
func unsettle(results []resourceapi.AllocationResult) {
	for i := range results {
		for _, r := range results[i].Devices.Results {
			delete(r.ConsumedCapacity, below)
		}
	}
}
