// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/inventory"
)

// manyClaims are so many, of requests for one device each; change is told of each claim.
func manyClaims(claims, requests int, change func(n int, c *resourceapi.ResourceClaim)) []*resourceapi.ResourceClaim {
	var all []*resourceapi.ResourceClaim
	for n := range claims {
		c := claimFor(fmt.Sprintf("c%d", n), types.UID(fmt.Sprint(n)))
		for r := range requests {
			c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, anyOf(fmt.Sprintf("r%d", r), 1))
		}
		if change != nil {
			change(n, c)
		}
		all = append(all, c)
	}
	return all
}

// numbered are devices whose attribute v is their number modulo something.
func numbered(count, modulus int) []resourceapi.Device {
	devices := make([]resourceapi.Device, count)
	for i := range devices {
		devices[i].Name = fmt.Sprintf("d%d", i)
		devices[i].Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"v": {IntValue: ptr(int64(i % modulus))}}
	}
	return devices
}

// TestFirstClaimsRefuse: where one of the first claims cannot be satisfied, the others are
// not looked at, and the reason is a smallest one. Claims may be empty.
func TestFirstClaimsRefuse(t *testing.T) {
	const of = 5 // devices have each value
	alike := func(at int) func(int, *resourceapi.ResourceClaim) {
		return func(n int, c *resourceapi.ResourceClaim) {
			switch n {
			case 0:
				c.Spec.Devices.Requests = nil
			case at:
				c.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: ptr(resourceapi.FullyQualifiedName("a.example.com/v"))}}
			}
		}
	}
	for at := 1; at < firstClaims; at++ {
		w := someDevices(manyClaims(50, 8, alike(at)), numbered(400, 400/of)...)
		out := solveWorld(t, w, BestFit)
		if out.Refusal == nil {
			t.Fatalf("claim %d: %s", at, describeOutcome(out))
		}
		c := out.Refusal.Conflict
		if c.Kind != NoMatch || len(c.Requests) != of+1 || c.Need != of+1 || c.Have != of {
			t.Errorf("claim %d: conflict %s of %d requests, need %d, have %d", at, c.Kind, len(c.Requests), c.Need, c.Have)
		}
		for _, r := range c.Requests {
			if r.Claim != fmt.Sprintf("ns/c%d", at) {
				t.Errorf("claim %d: the conflict names %s", at, r.Claim)
			}
		}
		if out.Steps > 0 {
			t.Errorf("claim %d: %d devices were tried", at, out.Steps)
		}
		if len(out.Refusal.Requests)+out.Refusal.Untold != 49*8 {
			t.Errorf("claim %d: %d reports and %d untold", at, len(out.Refusal.Requests), out.Refusal.Untold)
		}
	}
	if out := solveWorld(t, someDevices(manyClaims(50, 8, nil), numbered(400, 400)...), BestFit); out.Result == nil {
		t.Errorf("400 requests do not get 400 devices: %s", describeOutcome(out))
	}
}

// eachMatcher takes any expression and matches all devices.
type eachMatcher struct{ tableMatcher }

func (eachMatcher) Compile(expression string) error {
	if strings.HasPrefix(expression, "bad") {
		return errors.New("syntax error")
	}
	return nil
}

func (eachMatcher) Match(Stop, string, *inventory.Device) (bool, uint64, error) { return true, 1, nil }

// selecting has so many alternatives, each with so many expressions that nobody else has.
func selecting(name string, alternatives, expressions int) resourceapi.DeviceRequest {
	r := resourceapi.DeviceRequest{Name: name}
	for a := range alternatives {
		sub := resourceapi.DeviceSubRequest{Name: fmt.Sprintf("a%d", a), DeviceClassName: "any", Count: 1}
		for e := range expressions {
			sub.Selectors = append(sub.Selectors, celSelector(fmt.Sprintf("%s %d %d", name, a, e)))
		}
		r.FirstAvailable = append(r.FirstAvailable, sub)
	}
	return r
}

// TestOutnumbered: that requests want more devices than there are needs no selectors. The
// reason is a few requests, however many there are.
func TestOutnumbered(t *testing.T) {
	const devices = 3
	solve := func(admin bool) Outcome {
		claims := manyClaims(32, 0, func(n int, c *resourceapi.ResourceClaim) {
			r := selecting(fmt.Sprintf("r%d", n), 8, 2)
			if admin && n >= devices {
				own := r.FirstAvailable[0].Selectors
				r = anyOf(r.Name, 1)
				r.Exactly.AdminAccess, r.Exactly.Selectors = ptr(true), own
			}
			c.Spec.Devices.Requests = []resourceapi.DeviceRequest{r}
		})
		w := someDevices(claims, numbered(devices, 1)...)
		problem, err := Compile(w.Claims, w.Class, eachMatcher{}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		out, err := problem.Allocate(w.View())
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	out := solve(false)
	if out.Refusal == nil {
		t.Fatal(describeOutcome(&out))
	}
	if c := out.Refusal.Conflict; c.Kind != Shared || len(c.Requests) != devices+1 || c.Need != devices+1 || c.Have != devices {
		t.Errorf("conflict %s of %d requests, need %d, have %d", c.Kind, len(c.Requests), c.Need, c.Have)
	}
	// To judge all would be to compile 512 expressions.
	if most := int64(promptWork + 3*leastExplaining + 4*compileWork); out.Work > most {
		t.Errorf("%d units of work, want %d at most", out.Work, most)
	}
	if out := solve(true); out.Result == nil {
		t.Errorf("admin access takes devices from nobody: %s", describeOutcome(&out))
	}
}

// TestFirstAlternativesAreChecked: an expression that is not valid is told of though
// others are left out, for those of first alternatives come first.
func TestFirstAlternativesAreChecked(t *testing.T) {
	second := selecting("bad", 1, 1)
	w := someDevices([]*resourceapi.ResourceClaim{claimFor("c", "1", selecting("r", 8, 3), second)}, numbered(1, 1)...)
	_, err := Compile(w.Claims, w.Class, eachMatcher{}, Options{})
	input := (*InputError)(nil)
	if !errors.As(err, &input) || input.Field != "spec.devices.requests[1].firstAvailable[0].selectors[0].cel.expression" {
		t.Errorf("error %v, want one about the second request", err)
	}
	w.Claims[0].Spec.Devices.Requests[1] = resourceapi.DeviceRequest{Name: "e", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "any", Count: 1, Selectors: []resourceapi.DeviceSelector{celSelector("good"), celSelector("bad")},
	}}
	if _, err = Compile(w.Claims, w.Class, eachMatcher{}, Options{}); !errors.As(err, &input) || input.Field != "spec.devices.requests[1].exactly.selectors[1].cel.expression" {
		t.Errorf("error %v, want one about the second selector", err)
	}
}
