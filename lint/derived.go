// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"
	"strings"

	"kerf.dev/kerf/inventory"
)

// checkDerived reports derived attributes that do not compile.
func (a *alternative) checkDerived() {
	for i := range a.DerivedAttributes {
		d := &a.DerivedAttributes[i]
		if err := a.matcher.CompileDerived(d.Expression); err != nil {
			text, _, _ := strings.Cut(err.Error(), "\n")
			a.report(Error, "claim-derived-invalid", fmt.Sprintf("%s.derivedAttributes[%d].expression", a.path, i),
				"correct the expression; it gives a bool, an int, a string, a version or a list of them",
				"the CEL expression of %s does not compile: %s", d.Name, text)
		}
	}
}

// checkDerivedOnDevices reports derived attributes that fail on every device that
// could be allocated: the constraints that use them keep all out.
func (a *alternative) checkDerivedOnDevices() {
	for i := range a.DerivedAttributes {
		d := &a.DerivedAttributes[i]
		if a.matcher.CompileDerived(d.Expression) != nil {
			continue
		}
		devices, failed := 0, failure{}
		for device := range a.candidates {
			devices++
			if err := a.derives(d.Expression, device); err != nil {
				if failed.device == nil {
					failed.device, failed.err = device, err
				}
				failed.devices++
			}
		}
		if a.cel.out() {
			skipped := a.of
			skipped.Field = fmt.Sprintf("%s.derivedAttributes", a.path)
			a.cel.skip(skipped)
			return
		}
		if devices > 0 && failed.devices == devices {
			a.report(Warning, "claim-derived-fails", fmt.Sprintf("%s.derivedAttributes[%d].expression", a.path, i),
				"read what the devices have, or give a value for those that lack it (.?name.orValue(...))",
				"the expression of %s fails on all %d devices that match, first on %s: %s", d.Name, devices, failed.device.ID, failureText(failed.err))
		}
	}
}

// candidates calls yield for the devices that match the class and the selectors, as
// long as the budget lasts.
func (a *alternative) candidates(yield func(*inventory.Device) bool) {
	class := a.cluster.Class(a.DeviceClassName)
	selectors := slices.Concat(class.Spec.Selectors, a.Selectors)
	if !a.valid(selectors) {
		return
	}
	for d := range a.devices {
		if a.cel.out() {
			return
		}
		if at, err := a.firstMismatch(selectors, d); at < 0 && err == nil && !yield(d) {
			return
		}
	}
}
