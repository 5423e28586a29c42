// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
)

// checkConstraints verifies the constraints of a claim over all devices of the
// requests that they are for.
func (c *checker) checkConstraints(cc *checkedClaim) {
	for i := range cc.claim.Spec.Devices.Constraints {
		constraint := &cc.claim.Spec.Devices.Constraints[i]
		field := fmt.Sprintf("spec.devices.constraints[%d]", i)
		var picks []*checkedPick
		for _, p := range cc.picks {
			if p.request.within(constraint.Requests) {
				picks = append(picks, p)
			}
		}
		switch {
		case constraint.MatchAttribute != nil:
			c.checkMatch(cc, field+".matchAttribute", *constraint.MatchAttribute, picks)
		case constraint.DistinctAttribute != nil:
			c.checkDistinct(cc, field+".distinctAttribute", *constraint.DistinctAttribute, picks)
		default:
			c.report(cc.object, field, "is of no known kind")
		}
	}
}

// checkMatch wants a value that all devices have.
func (c *checker) checkMatch(cc *checkedClaim, field string, name resourceapi.FullyQualifiedName, picks []*checkedPick) {
	count := map[string]int{}
	for _, p := range picks {
		for _, value := range c.values(p, field, name) {
			count[value]++
		}
	}
	common := func(n int) bool { return n == len(picks) }
	if len(picks) > 0 && !slices.ContainsFunc(slices.Collect(maps.Values(count)), common) {
		c.report(cc.object, field, "no value of %s is common to %s", name, pickNames(picks))
	}
}

// checkDistinct wants no value that two devices have.
func (c *checker) checkDistinct(cc *checkedClaim, field string, name resourceapi.FullyQualifiedName, picks []*checkedPick) {
	owner := map[string]*checkedPick{}
	for _, p := range picks {
		for _, value := range c.values(p, field, name) {
			if other := owner[value]; other != nil {
				c.report(cc.object, field, "%s and %s both have %s in %s", other.device.ID, p.device.ID, value, name)
			}
			owner[value] = p
		}
	}
}

func pickNames(picks []*checkedPick) string {
	var names []string
	for _, p := range picks {
		names = append(names, p.device.ID.String())
	}
	return strings.Join(names, ", ")
}

// values returns the values of an attribute as text with their type, for values
// of different types never agree. It reports a device without any.
func (c *checker) values(p *checkedPick, field string, name resourceapi.FullyQualifiedName) []string {
	attribute, err := c.attribute(p, name)
	if err != nil {
		c.report(p.claim.object, field, "deriving %s for %s failed: %v", name, p.device.ID, err)
		return nil
	}
	var values []string
	if attribute != nil {
		values = attributeTexts(attribute)
	}
	if len(values) == 0 {
		c.report(p.claim.object, field, "%s has no value of %s", p.device.ID, name)
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// attribute finds the attribute that a constraint names: a derived one of the
// request before one of the device, and among those the qualified name before
// the one that implies the driver's domain.
func (c *checker) attribute(p *checkedPick, name resourceapi.FullyQualifiedName) (*resourceapi.DeviceAttribute, error) {
	for _, derived := range p.request.spec.DerivedAttributes {
		if derived.Name == name {
			a, _, err := c.matcher.Derive(nil, derived.Expression, p.device)
			return a, err
		}
	}
	if a, found := p.device.Spec.Attributes[resourceapi.QualifiedName(name)]; found {
		return &a, nil
	}
	if id, ours := strings.CutPrefix(string(name), p.device.ID.Driver+"/"); ours {
		if a, found := p.device.Spec.Attributes[resourceapi.QualifiedName(id)]; found {
			return &a, nil
		}
	}
	return nil, nil
}

func attributeTexts(a *resourceapi.DeviceAttribute) []string {
	var texts []string
	for _, v := range a.IntValues {
		texts = append(texts, fmt.Sprintf("int %d", v))
	}
	for _, v := range a.BoolValues {
		texts = append(texts, fmt.Sprintf("bool %t", v))
	}
	for _, v := range a.StringValues {
		texts = append(texts, fmt.Sprintf("string %q", v))
	}
	for _, v := range a.VersionValues {
		texts = append(texts, versionText(v))
	}
	switch {
	case a.IntValue != nil:
		texts = append(texts, fmt.Sprintf("int %d", *a.IntValue))
	case a.BoolValue != nil:
		texts = append(texts, fmt.Sprintf("bool %t", *a.BoolValue))
	case a.StringValue != nil:
		texts = append(texts, fmt.Sprintf("string %q", *a.StringValue))
	case a.VersionValue != nil:
		texts = append(texts, versionText(*a.VersionValue))
	}
	return texts
}

// versionText leaves out the build metadata: versions that differ in nothing else are the
// same.
func versionText(version string) string {
	if build := strings.IndexByte(version, '+'); build >= 0 {
		version = version[:build]
	}
	return fmt.Sprintf("version %q", version)
}
