// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"strings"

	"k8s.io/dynamic-resource-allocation/cel"

	"kerf.dev/kerf/inventory"
)

// RuntimeError is the error of an expression that is valid but fails on a
// device.
type RuntimeError struct {
	Device inventory.DeviceID
	// Missing is the name, without its domain, of the attribute or capacity
	// that the expression reads and the device does not have. It is empty
	// where the error has another cause.
	Missing string
	// Cause is CEL's error, Err the same with a hint where something is missing.
	Cause, Err error
}

// Error gives CEL's message without the device, which the one who reports it
// names.
func (e *RuntimeError) Error() string { return e.Err.Error() }

// Unwrap returns CEL's error.
func (e *RuntimeError) Unwrap() error { return e.Err }

// MissingKey returns Missing.
func (e *RuntimeError) MissingKey() string { return e.Missing }

func runtimeError(device inventory.DeviceID, err error) *RuntimeError {
	missing, _ := strings.CutPrefix(err.Error(), "no such key: ")
	if missing == err.Error() {
		missing = ""
	}
	return &RuntimeError{Device: device, Missing: missing, Cause: err, Err: cel.EnhanceRuntimeError(err)}
}
