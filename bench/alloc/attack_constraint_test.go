// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"
	"math/rand/v2"

	resourceapi "k8s.io/api/resource/v1"
)

// constraintAttacks tie devices to each other.
func constraintAttacks() []*kind {
	return []*kind{
		{"lists", []size{{"devices", 256, 1, 2048}, {"values", 23, 1, 23}, {"domain", 256, 2, 4096}, {"requests", 8, 1, 32}, {"count", 1, 1, 32}, seed},
			"devices=16 values=4 domain=8 requests=2", matchingLists},
		{"strings", []size{{"devices", 256, 1, 256}, {"values", 47, 1, 47}, {"requests", 32, 1, 32}, {"alternatives", 8, 1, 8}, seed},
			"devices=16 values=8 requests=4 alternatives=2", longLists},
		{"distinct", []size{{"devices", 256, 1, 2048}, {"values", 4, 1, 47}, {"domain", 64, 2, 1024}, {"requests", 32, 1, 32}, {"alternatives", 1, 1, 8}, seed},
			"devices=16 values=2 domain=8 requests=4", distinctLists},
		{"colours", []size{{"devices", 256, 1, 256}, {"colours", 6, 2, 32}, {"requests", 32, 4, 32}, {"constraints", 32, 1, 32}, {"width", 6, 2, 32}, seed},
			"devices=16 colours=3 requests=6 constraints=4 width=3", colouring},
		{"chains", []size{{"devices", 256, 1, 256}, {"claims", 16, 1, 50}, {"requests", 2, 2, 32}, {"groups", 17, 1, 256}, seed},
			"devices=16 claims=3 groups=4", chains},
	}
}

// some are different values out of so many.
func some(rnd *rand.Rand, count, of int, prefix string) resourceapi.DeviceAttribute {
	var values []string
	for _, v := range rnd.Perm(max(count, of))[:count] {
		values = append(values, fmt.Sprintf("%s-%050d", prefix, v))
	}
	return resourceapi.DeviceAttribute{StringValues: values}
}

// matchingLists wants devices that share a value of each of two lists.
func matchingLists(p sizes, rnd *rand.Rand) *attack {
	devices := plain(p["devices"], func(_ int, d *resourceapi.Device) {
		d.Attributes["a0"], d.Attributes["a1"] = some(rnd, p["values"], p["domain"], "a"), some(rnd, p["values"], p["domain"], "b")
	})
	c := grid("c", p["requests"], 1, func(int, int) resourceapi.DeviceSubRequest {
		return resourceapi.DeviceSubRequest{Count: int64(min(p["count"], max(1, 32/p["requests"])))}
	})
	c.Spec.Devices.Constraints = matching(2)
	return &attack{slices: published(devices, nil), claims: []*resourceapi.ResourceClaim{c}, alpha: true}
}

// longLists has lists as long as may be, in which all devices share but the last
// value differs, and selectors that walk through them.
func longLists(p sizes, rnd *rand.Rand) *attack {
	devices := plain(p["devices"], func(_ int, d *resourceapi.Device) {
		d.Attributes["a0"] = some(rnd, p["values"], p["values"]+p["devices"], "a")
	})
	n := 0
	c := grid("c", p["requests"], p["alternatives"], func(int, int) resourceapi.DeviceSubRequest {
		n++
		return resourceapi.DeviceSubRequest{Selectors: []resourceapi.DeviceSelector{
			selecting(fmt.Sprintf(`!device.attributes["gpu.example.com"].a0.includes("none-%d")`, n)),
		}}
	})
	c.Spec.Devices.Constraints = matching(1)
	return &attack{slices: published(devices, nil), claims: []*resourceapi.ResourceClaim{c}, alpha: true}
}

// distinctLists wants devices whose lists have nothing in common.
func distinctLists(p sizes, rnd *rand.Rand) *attack {
	devices := plain(p["devices"], func(_ int, d *resourceapi.Device) {
		d.Attributes["a0"] = some(rnd, p["values"], p["domain"], "a")
	})
	c := grid("c", p["requests"], p["alternatives"], func(int, int) (sub resourceapi.DeviceSubRequest) { return sub })
	c.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{DistinctAttribute: new(own("a0"))}}
	return &attack{slices: published(devices, nil), claims: []*resourceapi.ResourceClaim{c}, alpha: true}
}

// colouring is a graph whose cliques must be coloured.
func colouring(p sizes, rnd *rand.Rand) *attack {
	devices := plain(p["devices"], func(i int, d *resourceapi.Device) { d.Attributes["a0"] = number(i % p["colours"]) })
	c := grid("c", p["requests"], 1, func(int, int) (sub resourceapi.DeviceSubRequest) { return sub })
	for range p["constraints"] {
		var names []string
		for _, r := range rnd.Perm(p["requests"])[:min(p["width"], p["colours"], p["requests"])] {
			names = append(names, fmt.Sprintf("r%d", r))
		}
		c.Spec.Devices.Constraints = append(c.Spec.Devices.Constraints, resourceapi.DeviceConstraint{Requests: names, DistinctAttribute: new(own("a0"))})
	}
	return &attack{slices: published(devices, nil), claims: []*resourceapi.ResourceClaim{c}}
}

// chains are claims whose devices share a value, in groups that are a little too
// small.
func chains(p sizes, rnd *rand.Rand) *attack {
	devices := plain(p["devices"], func(_ int, d *resourceapi.Device) {
		d.Attributes["a0"], d.Attributes["a1"] = number(rnd.IntN(p["groups"])), number(rnd.IntN(p["groups"]))
	})
	a := &attack{slices: published(devices, nil)}
	for i := range p["claims"] {
		c := grid(fmt.Sprintf("c%d", i), p["requests"], 1, func(int, int) resourceapi.DeviceSubRequest {
			return resourceapi.DeviceSubRequest{Count: int64(max(1, min(32/p["requests"], p["devices"]/p["claims"]/p["requests"])))}
		})
		for r := range p["requests"] - 1 {
			c.Spec.Devices.Constraints = append(c.Spec.Devices.Constraints, resourceapi.DeviceConstraint{
				Requests: []string{fmt.Sprintf("r%d", r), fmt.Sprintf("r%d", r+1)}, MatchAttribute: new(own(fmt.Sprintf("a%d", r%2))),
			})
		}
		a.claims = append(a.claims, c)
	}
	return a
}
