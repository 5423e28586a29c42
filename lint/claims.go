// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/claim"
)

// alternative is what one request asks for, or one alternative of it: exact
// requests come in the same shape.
type alternative struct {
	claimSpec
	path string // of the alternative
	claim.Ask
}

// claimSpec is what a claim or a template asks for.
type claimSpec struct {
	subject
	path string // of the DeviceClaim
	*resourceapi.DeviceClaim
	// special is set for a claim that a scheduler made for the extended resources of
	// a pod.
	special bool
}

// claimSpecs calls yield for each claim, then for each template.
func (c *checker) claimSpecs(yield func(claimSpec) bool) {
	for _, claim := range c.cluster.ResourceClaims {
		if !yield(c.claimSpec(claim)) {
			return
		}
	}
	for _, t := range c.cluster.ResourceClaimTemplates {
		if !yield(claimSpec{subject: c.about("ResourceClaimTemplate", t), path: "spec.spec.devices", DeviceClaim: &t.Spec.Spec.Devices}) {
			return
		}
	}
}

func (c *checker) claimSpec(rc *resourceapi.ResourceClaim) claimSpec {
	_, special := claim.SpecialOwner(rc)
	return claimSpec{subject: c.about("ResourceClaim", rc), path: "spec.devices", DeviceClaim: &rc.Spec.Devices, special: special}
}

// alternatives calls yield for all that the requests ask for.
func (s claimSpec) alternatives(yield func(alternative) bool) {
	for ask := range claim.Asks(s.DeviceClaim) {
		if !yield(alternative{s, s.path + "." + ask.Path(), ask}) {
			return
		}
	}
}

// checkClaimSpecs reports what is wrong with claims and templates, whatever else there
// is.
func (c *checker) checkClaimSpecs() {
	for s := range c.claimSpecs {
		s.checkReferences()
		for a := range s.alternatives {
			a.checkCapacity()
			a.checkSelectors()
			a.checkDerived()
		}
	}
}

// checkClaimClasses reports claims and templates for classes that do not exist. Special
// claims are no mistake of anybody: a pod that runs keeps its devices, and for one that
// waits the scheduler makes a new claim, of the classes that there are.
func (c *checker) checkClaimClasses() {
	for s := range c.claimSpecs {
		if s.special {
			continue
		}
		for a := range s.alternatives {
			if c.cluster.Class(a.DeviceClassName) == nil {
				a.report(Error, "claim-unknown-class", a.path+".deviceClassName", "create the class or correct the name",
					"device class %q does not exist", a.DeviceClassName)
				continue
			}
			a.checkDerivedOnDevices()
		}
	}
}

func (a *alternative) checkSelectors() {
	for i := range a.Selectors {
		if problem := a.invalid(a.Selectors[i]); problem != "" {
			a.report(Error, "claim-selector-invalid", selectorPath(a.path, i), selectorFix, "%s", problem)
		}
	}
}

// checkTaintRules reports rules that select no device.
func (c *checker) checkTaintRules() {
	for _, rule := range c.cluster.DeviceTaintRules {
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
