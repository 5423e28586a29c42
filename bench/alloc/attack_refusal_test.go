// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"
	"math/rand/v2"

	resourceapi "k8s.io/api/resource/v1"
)

// refusalAttacks have claims as large as may be, mostly for a few devices.
func refusalAttacks() []*kind {
	large := func(devices, claims int) []size {
		return []size{{"devices", devices, 1, 256}, {"claims", claims, 1, 100}, {"requests", 32, 1, 32}, {"alternatives", 8, 1, 8}, {"constraints", 30, 1, 30}, {"values", 1, 0, 256}, seed}
	}
	return []*kind{
		{"refusal", large(8, 6), "claims=2 requests=4 alternatives=2", largeClaims},
		{"partitions", large(234, 20), "devices=18 claims=2 requests=4 alternatives=2 constraints=4", largePartitionClaims},
		{"admin", large(256, 6), "devices=18 claims=2 requests=4 alternatives=2 constraints=4", adminClaims},
	}
}

// described gives devices attributes of so many values each; with none they do
// not have them.
func described(count, values int) func(int, *resourceapi.Device) {
	return func(n int, d *resourceapi.Device) {
		for i := range count {
			if values > 0 {
				d.Attributes[resourceapi.QualifiedName(fmt.Sprintf("a%d", i))] = number(n % values)
			}
		}
	}
}

// fill makes claims of requests for one device each, all alike in many attributes.
func fill(p sizes) []*resourceapi.ResourceClaim {
	var all []*resourceapi.ResourceClaim
	for i := range p["claims"] {
		c := grid(fmt.Sprintf("c%d", i), p["requests"], p["alternatives"], func(int, int) (sub resourceapi.DeviceSubRequest) { return sub })
		c.Spec.Devices.Constraints = matching(p["constraints"])
		all = append(all, c)
	}
	return all
}

// largeClaims are for plain devices.
func largeClaims(p sizes, _ *rand.Rand) *attack {
	return &attack{slices: published(plain(p["devices"], described(p["constraints"], p["values"])), nil), claims: fill(p)}
}

// largePartitionClaims are for partitions of seven-slice cards.
func largePartitionClaims(p sizes, _ *rand.Rand) *attack {
	sets, devices := cut(max(1, p["devices"]/18))
	for i := range devices {
		devices[i].Attributes = attributes{"uuid": text(devices[i].Name)}
		devices[i].Capacity = nil
		described(p["constraints"], p["values"])(i, &devices[i])
	}
	return &attack{slices: published(devices, sets), claims: fill(p)}
}

// adminClaims have admin access to devices, beside claims that take them.
func adminClaims(p sizes, _ *rand.Rand) *attack {
	a := largeClaims(p, nil)
	for i, c := range a.claims {
		if i%2 == 0 {
			continue
		}
		for k := range c.Spec.Devices.Requests {
			r := &c.Spec.Devices.Requests[k]
			*r = wanted(r.Name, resourceapi.DeviceSubRequest{})
			r.Exactly.AdminAccess = new(true)
		}
	}
	return a
}
