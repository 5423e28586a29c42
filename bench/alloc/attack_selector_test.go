// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

// selectorAttacks make CEL work.
func selectorAttacks() []*kind {
	return []*kind{
		{"cel", []size{{"devices", 8, 1, 256}, {"requests", 1, 1, 32}, {"alternatives", 8, 1, 8}, {"selectors", 4, 1, 32}, {"fits", 0, 0, 8}, seed},
			"devices=2 alternatives=2 selectors=1", dearSelectors},
		{"regexes", []size{{"devices", 8, 1, 256}, {"alternatives", 8, 1, 8}, {"selectors", 4, 1, 32}, {"rounds", 40_000, 1, 40_000}, seed},
			"devices=2 alternatives=2 selectors=1 rounds=100", dearRegexes},
		{"derived", []size{{"devices", 256, 1, 256}, {"claims", 1, 1, 20}, {"requests", 1, 1, 32}, seed},
			"devices=4", dearDerived},
		{"failing", []size{{"devices", 256, 1, 256}, {"requests", 32, 1, 32}, {"alternatives", 8, 1, 8}, {"selectors", 1, 1, 32}, seed},
			"devices=16 requests=4", failingSelectors},
		{"selectors", []size{{"devices", 256, 1, 256}, {"requests", 32, 1, 32}, {"alternatives", 8, 1, 8}, {"selectors", 8, 1, 32}, seed},
			"devices=16 requests=4 selectors=2", manySelectors},
		{"versions", []size{{"devices", 256, 1, 256}, {"requests", 32, 1, 32}, {"alternatives", 8, 1, 8}, {"selectors", 1, 1, 32}, seed},
			"devices=16 requests=4", versionSelectors},
	}
}

// dear is an expression near the limit of the estimated cost, true on all
// devices; those of different n differ in their text.
func dear(n int) string { return nested(n, 200_000, "true") }

// nested evaluates the body at most so many times, in nested loops over lists.
func nested(n, rounds int, body string) string {
	for depth, most := 0, 12; rounds > 1 || depth == 0; depth++ {
		length := min(rounds, most)
		digits := make([]string, length)
		for i := range digits {
			digits[i] = strconv.Itoa(n % 10)
			n /= 10
		}
		body = fmt.Sprintf("[%s].all(v%d,%s)", strings.Join(digits, ","), depth, body)
		rounds /= length
	}
	return body
}

// dearRegexes compile a regular expression again and again. The estimated cost,
// which goes by its length, is a thousand times too low; package selector charges more.
func dearRegexes(p sizes, rnd *rand.Rand) *attack {
	n := rnd.IntN(1000)
	c := grid("c", 1, p["alternatives"], func(int, int) (sub resourceapi.DeviceSubRequest) {
		for range p["selectors"] {
			n++
			sub.Selectors = append(sub.Selectors, selecting(nested(n, p["rounds"], `["(a|b|c){900}"].all(r,!"d".matches(r))`)))
		}
		return sub
	})
	return &attack{slices: published(plain(p["devices"], nil), nil), claims: []*resourceapi.ResourceClaim{c}}
}

// dearSelectors has alternatives that cost as much as may be and, from one on, fit.
func dearSelectors(p sizes, rnd *rand.Rand) *attack {
	n := rnd.IntN(1000)
	c := grid("c", p["requests"], p["alternatives"], func(_, alternative int) (sub resourceapi.DeviceSubRequest) {
		for s := range p["selectors"] {
			n++
			expression := dear(n)
			if s == p["selectors"]-1 && alternative < p["fits"] {
				expression = "!" + expression
			}
			sub.Selectors = append(sub.Selectors, selecting(expression))
		}
		return sub
	})
	return &attack{slices: published(plain(p["devices"], nil), nil), claims: []*resourceapi.ResourceClaim{c}}
}

// dearDerived has a derived attribute that costs as much as may be. It differs on
// all devices but must match on two.
func dearDerived(p sizes, rnd *rand.Rand) *attack {
	a := &attack{slices: published(plain(p["devices"], nil), nil), alpha: true}
	for i := range p["claims"] {
		n := rnd.IntN(1000) * 100
		c := grid(fmt.Sprintf("c%d", i), p["requests"], 1, func(request, _ int) (sub resourceapi.DeviceSubRequest) {
			sub.Count = int64(max(1, min(2, 32/p["requests"])))
			if request == 0 {
				sub.DerivedAttributes = []resourceapi.DeviceDerivedAttribute{{Name: "derived/a", Expression: dear(n+i) + ` ? device.attributes["gpu.example.com"].uuid : ""`}}
			}
			return sub
		})
		c.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{Requests: []string{"r0"}, MatchAttribute: new(resourceapi.FullyQualifiedName("derived/a"))}}
		a.claims = append(a.claims, c)
	}
	return a
}

// failingSelectors read what no device has.
func failingSelectors(p sizes, rnd *rand.Rand) *attack {
	n := rnd.IntN(1000)
	c := grid("c", p["requests"], p["alternatives"], func(int, int) (sub resourceapi.DeviceSubRequest) {
		for range p["selectors"] {
			n++
			sub.Selectors = append(sub.Selectors, selecting(fmt.Sprintf(`device.attributes["gpu.example.com"].missing != "%d"`, n)))
		}
		return sub
	})
	return &attack{slices: published(plain(p["devices"], nil), nil), claims: []*resourceapi.ResourceClaim{c}}
}

// manySelectors are all different, so that remembering them helps nobody. The
// last of each alternative but the last one fails.
func manySelectors(p sizes, rnd *rand.Rand) *attack {
	n := rnd.IntN(1000)
	c := grid("c", p["requests"], p["alternatives"], func(_, alternative int) (sub resourceapi.DeviceSubRequest) {
		for s := range p["selectors"] {
			n++
			operator := "!="
			if s == p["selectors"]-1 && alternative < p["alternatives"]-1 {
				operator = "=="
			}
			sub.Selectors = append(sub.Selectors, selecting(fmt.Sprintf(`device.attributes["gpu.example.com"].uuid %s "%d"`, operator, n)))
		}
		return sub
	})
	return &attack{slices: published(plain(p["devices"], nil), nil), claims: []*resourceapi.ResourceClaim{c}}
}

// versionSelectors compare versions, of which devices have as many as may be.
func versionSelectors(p sizes, rnd *rand.Rand) *attack {
	devices := plain(p["devices"], func(i int, d *resourceapi.Device) {
		for k := range 30 {
			version := fmt.Sprintf("%d.%d.%d-alpha.%d", rnd.IntN(100), rnd.IntN(100), i, k)
			d.Attributes[resourceapi.QualifiedName(fmt.Sprintf("v%d", k))] = resourceapi.DeviceAttribute{VersionValue: &version}
		}
	})
	n := 0
	c := grid("c", p["requests"], p["alternatives"], func(int, int) (sub resourceapi.DeviceSubRequest) {
		for range p["selectors"] {
			n++
			sub.Selectors = append(sub.Selectors, selecting(fmt.Sprintf(`device.attributes["gpu.example.com"].v%d.isGreaterThan(semver("99.99.%d"))`, n%30, n)))
		}
		return sub
	})
	return &attack{slices: published(devices, nil), claims: []*resourceapi.ResourceClaim{c}}
}
