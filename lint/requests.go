// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
)

// checkRequests reports requests that no claim may have: names that are missing
// or used twice, no content, more than the API allows.
func (s claimSpec) checkRequests() {
	s.tooMany("claim-invalid", s.path+".requests", "requests", len(s.Requests), resourceapi.DeviceRequestsMaxSize)
	s.tooMany("claim-invalid", s.path+".config", "configurations", len(s.Config), resourceapi.DeviceConfigMaxSize)
	names := map[string]bool{}
	for i := range s.Requests {
		r := &s.Requests[i]
		path := fmt.Sprintf("%s.requests[%d]", s.path, i)
		s.checkName(path, "request", r.Name, names)
		switch {
		case r.Exactly == nil && len(r.FirstAvailable) == 0:
			s.report(Error, "claim-invalid", path, "set one of the two", "request %s has neither exactly nor firstAvailable", r.Name)
		case r.Exactly != nil && len(r.FirstAvailable) > 0:
			s.report(Error, "claim-invalid", path, "keep one of the two", "request %s has both exactly and firstAvailable", r.Name)
		}
		s.tooMany("claim-invalid", path+".firstAvailable", "alternatives", len(r.FirstAvailable), resourceapi.FirstAvailableDeviceRequestMaxSize)
		alternatives := map[string]bool{}
		for k := range r.FirstAvailable {
			s.checkName(fmt.Sprintf("%s.firstAvailable[%d]", path, k), "alternative", r.FirstAvailable[k].Name, alternatives)
		}
	}
}

// checkName reports the name of a request or alternative that is no label, or
// that another one has.
func (s claimSpec) checkName(path, what, name string, known map[string]bool) {
	switch {
	case name == "":
		s.report(Error, "claim-invalid", path+".name", "name it", "the %s has no name", what)
	case len(validation.IsDNS1123Label(name)) > 0:
		s.report(Error, "claim-invalid", path+".name", fmt.Sprintf("use lower-case letters, digits and -, %d characters at most", validation.DNS1123LabelMaxLength),
			"%q is not valid as the name of a %s", name, what)
	case known[name]:
		s.report(Error, "claim-invalid", path+".name", fmt.Sprintf("give each %s a name of its own", what), "there are two with the name %s", name)
	}
	known[name] = true
}

// checkCount reports numbers of devices that cannot be meant. No count is 1.
func (a *alternative) checkCount() {
	switch {
	case a.AllocationMode == resourceapi.DeviceAllocationModeAll && a.Count != 0:
		a.report(Error, "claim-invalid", a.path+".count", "remove count, or set allocationMode to ExactCount",
			"%s asks for all devices and for %d of them", a.Request, a.Count)
	case a.AllocationMode != "" && a.AllocationMode != resourceapi.DeviceAllocationModeAll && a.AllocationMode != resourceapi.DeviceAllocationModeExactCount:
		a.report(Error, "claim-invalid", a.path+".allocationMode", "use ExactCount or All", "there is no mode %q", a.AllocationMode)
	case a.Count < 0:
		a.report(Error, "claim-invalid", a.path+".count", "ask for 1 or more", "%s asks for %d devices", a.Request, a.Count)
	}
	a.tooMany("claim-invalid", a.path+".selectors", "selectors", len(a.Selectors), resourceapi.DeviceSelectorsMaxSize)
	a.tooMany("claim-invalid", a.path+".derivedAttributes", "derived attributes", len(a.DerivedAttributes), resourceapi.DeviceDerivedAttributesMaxSize)
}

func (a *alternative) checkCapacity() {
	if a.Capacity == nil {
		return
	}
	for name, q := range sorted(a.Capacity.Requests) {
		field := fmt.Sprintf("%s.capacity.requests[%s]", a.path, name)
		a.notNegative(field, &q)
		if !countable(&q) {
			a.report(Error, "uncountable-quantity", field, "ask for an amount that a device can have", "the amount is "+inventory.Uncounted)
		}
	}
}

// checkConstraints reports constraints that do not say what they are about.
func (s claimSpec) checkConstraints() {
	s.tooMany("claim-invalid", s.path+".constraints", "constraints", len(s.Constraints), resourceapi.DeviceConstraintsMaxSize)
	for i, constraint := range s.Constraints {
		if (constraint.MatchAttribute == nil) == (constraint.DistinctAttribute == nil) {
			s.report(Error, "claim-invalid", fmt.Sprintf("%s.constraints[%d]", s.path, i), "set one of the two",
				"a constraint needs either matchAttribute or distinctAttribute")
		}
	}
}

// checkReferences reports constraints and configuration for requests that the
// claim does not have: they would go unheeded.
func (s claimSpec) checkReferences() {
	for i := range s.Constraints {
		s.checkNamed(fmt.Sprintf("%s.constraints[%d]", s.path, i), "the constraint", s.Constraints[i].Requests)
	}
	for i := range s.Config {
		s.checkNamed(fmt.Sprintf("%s.config[%d]", s.path, i), "the configuration", s.Config[i].Requests)
	}
}

func (s claimSpec) checkNamed(path, what string, requests []string) {
	for i, name := range requests {
		if !s.has(name) {
			s.report(Error, "claim-unknown-request", fmt.Sprintf("%s.requests[%d]", path, i), s.requestNames(),
				"%s names request %q, which the claim does not have", what, name)
		}
	}
}

// has reports whether a name is that of a request, or request/alternative.
func (s claimSpec) has(name string) bool {
	return slices.Contains(claim.RequestNames(s.DeviceClaim), name)
}

// requestNames says what a reference may name.
func (s claimSpec) requestNames() string {
	names := claim.RequestNames(s.DeviceClaim)
	if len(names) == 0 {
		return "add the request"
	}
	return "name one of " + strings.Join(names, ", ")
}
