// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"errors"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/inventory"
)

// The CEL expressions of generated worlds. Real CEL compiles them, so a world
// can also be given to the stock allocator; tests without CEL look them up in
// tableMatcher.
const (
	exprDriverA = `device.driver == "a.example.com"`
	exprKindX   = `device.attributes["std.example.com"].kind == "x"`
	exprKindY   = `device.attributes["std.example.com"].kind == "y"`
	exprBig     = `device.attributes["std.example.com"].size >= 2`
	exprShared  = `device.allowMultipleAllocations == true`
	exprRare    = `device.attributes["std.example.com"].rare == 1`

	deriveSize = `device.attributes["std.example.com"].size`
	deriveKind = `device.attributes["std.example.com"].kind`
	deriveRare = `device.attributes["std.example.com"].rare`
)

// tableMatcher evaluates the expressions above without CEL.
type tableMatcher struct{}

var errNoSuchKey = errors.New("no such key")

func (tableMatcher) Compile(expression string) error {
	switch expression {
	case exprDriverA, exprKindX, exprKindY, exprBig, exprShared, exprRare:
		return nil
	}
	return errors.New("syntax error")
}

func (m tableMatcher) Match(_ Stop, expression string, d *inventory.Device) (bool, uint64, error) {
	match, err := m.match(expression, d)
	return match, 1, err
}

func (m tableMatcher) Derive(_ Stop, expression string, d *inventory.Device) (*resourceapi.DeviceAttribute, uint64, error) {
	attribute, err := m.derive(expression, d)
	return attribute, 1, err
}

func (tableMatcher) Comparisons(string) ([]inventory.Comparison, bool) { return nil, false }

func (tableMatcher) match(expression string, d *inventory.Device) (bool, error) {
	attribute := func(name string) resourceapi.DeviceAttribute {
		return d.Spec.Attributes[resourceapi.QualifiedName("std.example.com/"+name)]
	}
	switch expression {
	case exprDriverA:
		return d.ID.Driver == "a.example.com", nil
	case exprKindX:
		return *attribute("kind").StringValue == "x", nil
	case exprKindY:
		return *attribute("kind").StringValue == "y", nil
	case exprBig:
		return *attribute("size").IntValue >= 2, nil
	case exprShared:
		return d.MultiAlloc(), nil
	case exprRare:
		if v := attribute("rare").IntValue; v != nil {
			return *v == 1, nil
		}
		return false, errNoSuchKey
	}
	return false, fmt.Errorf("unknown expression %s", expression)
}

func (tableMatcher) derive(expression string, d *inventory.Device) (*resourceapi.DeviceAttribute, error) {
	var name resourceapi.QualifiedName
	switch expression {
	case deriveSize:
		name = "std.example.com/size"
	case deriveKind:
		name = "std.example.com/kind"
	case deriveRare:
		name = "std.example.com/rare"
	}
	if a, found := d.Spec.Attributes[name]; found {
		return &a, nil
	}
	return nil, errNoSuchKey
}

func (g *generator) addClaim(i int) {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("claim%d", i), UID: types.UID(fmt.Sprintf("claim-%d", i))}}
	var names []string // requests and alternatives
	for j := range pick(g.source, 1, 1, 2, 2, 3, 1, 2, 2, 3, 0) {
		r := resourceapi.DeviceRequest{Name: fmt.Sprintf("r%d", j)}
		names = append(names, r.Name)
		if g.has(WithAlternatives) && g.intn(2) == 1 {
			for k := range 1 + g.intn(3) {
				sub := g.request()
				sub.Name = fmt.Sprintf("s%d", k)
				r.FirstAvailable = append(r.FirstAvailable, sub)
				names = append(names, r.Name+"/"+sub.Name)
			}
		} else {
			r.Exactly = exactly(g.request())
			if g.has(WithAdmin) && g.rarely(3) {
				r.Exactly.AdminAccess = ptr(true)
			}
		}
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, r)
	}
	if g.has(WithConstraint) {
		for range 1 + g.intn(2) {
			g.addConstraint(claim, names)
		}
	}
	if g.has(WithDerived) {
		g.addDerived(claim)
	}
	if g.has(WithConfig) {
		for j := range 1 + g.intn(3) {
			claim.Spec.Devices.Config = append(claim.Spec.Devices.Config, resourceapi.DeviceClaimConfiguration{
				Requests:            g.scope(names),
				DeviceConfiguration: configuration(fmt.Sprintf("claim%d", j)),
			})
		}
	}
	g.Claims = append(g.Claims, claim)
}

func exactly(sub resourceapi.DeviceSubRequest) *resourceapi.ExactDeviceRequest {
	return &resourceapi.ExactDeviceRequest{
		DeviceClassName:   sub.DeviceClassName,
		Selectors:         sub.Selectors,
		AllocationMode:    sub.AllocationMode,
		Count:             sub.Count,
		Tolerations:       sub.Tolerations,
		Capacity:          sub.Capacity,
		DerivedAttributes: sub.DerivedAttributes,
	}
}

func (g *generator) request() resourceapi.DeviceSubRequest {
	r := resourceapi.DeviceSubRequest{
		DeviceClassName: pick(g.source, "any", "any", "any", "any", "ours", "x"),
		AllocationMode:  resourceapi.DeviceAllocationModeExactCount,
		Count:           int64(pick(g.source, 1, 1, 1, 1, 2, 2, 3)),
	}
	if g.has(WithAllMode) && g.rarely(3) {
		r.AllocationMode, r.Count = resourceapi.DeviceAllocationModeAll, 0
	}
	switch g.intn(12) {
	case 9:
		r.Selectors = append(r.Selectors, celSelector(exprKindY))
	case 10:
		r.Selectors = append(r.Selectors, celSelector(exprBig))
	case 11:
		r.Selectors = append(r.Selectors, celSelector(exprKindX), celSelector(exprDriverA))
	}
	if g.has(WithSharing) && g.rarely(6) {
		r.Selectors = append(r.Selectors, celSelector(exprShared))
	}
	if g.has(WithFailing) && g.rarely(8) {
		r.Selectors = append(r.Selectors, celSelector(exprRare))
	}
	if g.has(WithTaints) && g.intn(2) == 1 {
		r.Tolerations = []resourceapi.DeviceToleration{g.toleration()}
	}
	if g.has(WithCapacity) && g.intn(2) == 1 {
		amount := pick(g.source, units(1), units(1), units(2), units(3), resource.MustParse("1500m"))
		name := resourceapi.QualifiedName("mem")
		if g.rarely(9) {
			name = "cores"
		}
		r.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{name: amount}}
		if g.rarely(4) {
			r.Capacity.Requests["bw"] = units(1)
		}
	}
	return r
}

func (g *generator) toleration() resourceapi.DeviceToleration {
	t := resourceapi.DeviceToleration{Operator: pick(g.source, resourceapi.DeviceTolerationOpExists, resourceapi.DeviceTolerationOpEqual)}
	if t.Operator == resourceapi.DeviceTolerationOpEqual || g.intn(2) == 1 {
		t.Key = pick(g.source, "k0", "k1")
	}
	if t.Operator == resourceapi.DeviceTolerationOpEqual {
		t.Value = pick(g.source, "", "v")
	}
	t.Effect = pick(g.source, "", resourceapi.DeviceTaintEffectNoSchedule, resourceapi.DeviceTaintEffectNoExecute)
	return t
}

// scope is a list of requests as constraints and configuration have it.
func (g *generator) scope(names []string) []string {
	var scope []string
	for _, name := range names {
		if g.intn(2) == 1 {
			scope = append(scope, name)
		}
	}
	return scope
}

func (g *generator) addConstraint(claim *resourceapi.ResourceClaim, names []string) {
	attribute := pick[resourceapi.FullyQualifiedName](g.source, "std.example.com/root", "std.example.com/root", "a.example.com/numa", "std.example.com/size", "std.example.com/kind")
	c := resourceapi.DeviceConstraint{MatchAttribute: &attribute}
	if g.rarely(3) {
		c = resourceapi.DeviceConstraint{DistinctAttribute: &attribute}
	}
	if g.intn(2) == 1 {
		c.Requests = g.scope(names)
	}
	claim.Spec.Devices.Constraints = append(claim.Spec.Devices.Constraints, c)
}

// addDerived lets a constraint see a derived attribute on some requests and,
// where it shadows a published one, the published one on the others.
func (g *generator) addDerived(claim *resourceapi.ResourceClaim) {
	name := pick[resourceapi.FullyQualifiedName](g.source, "derived.example.com/value", "a.example.com/numa")
	expression := pick(g.source, deriveSize, deriveKind)
	if g.has(WithFailing) && g.rarely(3) {
		expression = deriveRare
	}
	derived := []resourceapi.DeviceDerivedAttribute{{Name: name, Expression: expression}}
	for i := range claim.Spec.Devices.Requests {
		r := &claim.Spec.Devices.Requests[i]
		if r.Exactly != nil && g.intn(4) != 3 {
			r.Exactly.DerivedAttributes = derived
		}
		for j := range r.FirstAvailable {
			if g.intn(4) != 3 {
				r.FirstAvailable[j].DerivedAttributes = derived
			}
		}
	}
	c := resourceapi.DeviceConstraint{MatchAttribute: &name}
	if g.rarely(3) {
		c = resourceapi.DeviceConstraint{DistinctAttribute: &name}
	}
	claim.Spec.Devices.Constraints = append(claim.Spec.Devices.Constraints, c)
}
