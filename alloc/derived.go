// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/inventory"
)

// DerivedError is a derived attribute that cannot be worked out. Devices without it
// do not meet a constraint on it.
type DerivedError struct {
	Attribute  resourceapi.FullyQualifiedName
	Expression string
	// Device is the first one on which the expression failed, Devices counts them.
	Device  inventory.DeviceID
	Devices int
	Err     error
}

// addDerivedErrors notes which derived attributes keep a unit from constraints.
func (e *explainer) addDerivedErrors(r *RequestReport, f *field, i int) {
	if len(f.derived) == 0 {
		return
	}
	var told []resourceapi.FullyQualifiedName
	for _, c := range f.limits {
		attribute := e.problem.constraints[c].attribute
		if f.derived[attribute] == "" || slices.Contains(told, attribute) {
			continue
		}
		if err := e.board.read(f.ask, c, i); err != nil && !e.meter.stopped {
			told = append(told, attribute)
			r.addDerivedError(e.board.derivedError(f.ask, c, i, err), f.derived[attribute])
		}
	}
}

func (r *RequestReport) addDerivedError(err *DeviceError, expression string) {
	for i := range r.DerivedErrors {
		if known := &r.DerivedErrors[i]; known.Attribute == err.Attribute {
			known.Devices++
			return
		}
	}
	r.DerivedErrors = append(r.DerivedErrors, DerivedError{Attribute: err.Attribute, Expression: expression, Device: err.Device, Devices: 1, Err: err.Err})
}
