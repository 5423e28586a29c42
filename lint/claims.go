// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
)

// checkClaims looks at what claims and templates ask for.
func (c *checker) checkClaims() {
	for _, claim := range c.dump.ResourceClaims {
		c.checkClaim(Finding{Kind: "ResourceClaim", Namespace: claim.Namespace, Name: claim.Name}, "spec", &claim.Spec)
	}
	for _, t := range c.dump.ResourceClaimTemplates {
		c.checkClaim(Finding{Kind: "ResourceClaimTemplate", Namespace: t.Namespace, Name: t.Name}, "spec.spec", &t.Spec.Spec)
	}
}

func (c *checker) checkClaim(of Finding, path string, spec *resourceapi.ResourceClaimSpec) {
	for i := range spec.Devices.Requests {
		r := &spec.Devices.Requests[i]
		at := fmt.Sprintf("%s.devices.requests[%d]", path, i)
		if e := r.Exactly; e != nil {
			c.checkRequest(of, at+".exactly", e.DeviceClassName, e.Selectors)
		}
		for k := range r.FirstAvailable {
			sub := &r.FirstAvailable[k]
			c.checkRequest(of, fmt.Sprintf("%s.firstAvailable[%d]", at, k), sub.DeviceClassName, sub.Selectors)
		}
	}
}

func (c *checker) checkRequest(of Finding, path, class string, selectors []resourceapi.DeviceSelector) {
	of.Level = Error
	if !slices.ContainsFunc(c.dump.DeviceClasses, func(known *resourceapi.DeviceClass) bool { return known.Name == class }) {
		of.Rule, of.Field = "claim-unknown-class", path+".deviceClassName"
		of.Problem, of.Fix = fmt.Sprintf("device class %q does not exist", class), "create the class or correct the name"
		c.add(of)
	}
	for i := range selectors {
		if problem, fix := c.invalid(selectors[i]); problem != "" {
			of.Rule, of.Field = "claim-selector-invalid", selectorPath(path, i)
			of.Problem, of.Fix = problem, fix
			c.add(of)
		}
	}
}

// checkTaintRules reports rules that select no device.
func (c *checker) checkTaintRules() {
	for _, rule := range c.dump.DeviceTaintRules {
		if s := rule.Spec.DeviceSelector; s == nil || !c.selectsAny(s) {
			c.add(Finding{
				Level: Warning, Rule: "taint-rule-matches-nothing", Kind: "DeviceTaintRule", Name: rule.Name, Field: "spec.deviceSelector",
				Problem: "the rule selects no device that is published", Fix: "correct driver, pool and device, or delete the rule",
			})
		}
	}
}

func (c *checker) selectsAny(s *resourceapi.DeviceTaintSelector) bool {
	is := func(field *string, value string) bool { return field == nil || *field == value }
	for d := range c.devices {
		if is(s.Driver, d.ID.Driver) && is(s.Pool, d.ID.Pool) && is(s.Device, d.ID.Device) {
			return true
		}
	}
	return false
}
