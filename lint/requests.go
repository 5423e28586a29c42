// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"
	"strings"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
)

// checkCapacity reports amounts that are negative or too large to compute with.
func (a *alternative) checkCapacity() {
	if a.Capacity == nil {
		return
	}
	for name, q := range sorted(a.Capacity.Requests) {
		field := fmt.Sprintf("%s.capacity.requests[%s]", a.path, name)
		a.notNegative(field, &q)
		if !inventory.Countable(&q) {
			a.report(Error, "uncountable-quantity", field, "ask for an amount that a device can have", "the amount is "+inventory.Uncounted)
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
