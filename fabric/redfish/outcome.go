// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"errors"
	"fmt"
	"net/http"

	"kerf.dev/kerf/fabric"
)

// verdict is what an error says about what was done.
type verdict int

const (
	// verdictRefused: nothing was done, and asking again will not help.
	verdictRefused verdict = iota
	// verdictBusy: nothing was done, and asking again later may help.
	verdictBusy
	// verdictUnknown: it may have been done.
	verdictUnknown
)

// judge tells what the error of a request that changes something says.
func judge(err error) verdict {
	var no *statusError
	if errors.As(err, &no) {
		return judgeStatus(no.status)
	}
	var lost *transportError
	if errors.As(err, &lost) && !lost.sent {
		return verdictBusy
	}
	return verdictUnknown
}

func judgeStatus(status int) verdict {
	switch status {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusLocked, http.StatusRequestTimeout,
		http.StatusUnauthorized: // Not the request's fault: the login's.
		return verdictBusy
	case http.StatusNotImplemented, http.StatusInsufficientStorage, http.StatusHTTPVersionNotSupported:
		return verdictRefused
	}
	if status >= 300 && status < 500 {
		return verdictRefused
	}
	return verdictUnknown
}

// busyError is the error of a request that the service, or the way to it, has no time for now, or nil.
func busyError(err error) *fabric.BusyError {
	var no *statusError
	if errors.As(err, &no) && judgeStatus(no.status) == verdictBusy {
		return &fabric.BusyError{RetryAfter: no.retryAfter, Reason: no.Error(), LoginRefused: no.login}
	}
	return nil
}

// change is an attach or a detach.
type change struct {
	m       *Manager
	op      string // "attach" or "detach"
	device  fabric.DeviceRef
	machine fabric.MachineRef
}

func (c *change) refused(reason string, args ...any) error {
	return &fabric.RefusedError{Op: c.op, Device: c.device, Machine: c.machine, Reason: fmt.Sprintf(reason, args...)}
}

// before is the error of what failed before anything was done.
func (c *change) before(err error) error {
	var no *statusError
	switch {
	case errors.As(err, &no) && judgeStatus(no.status) == verdictRefused:
		return c.refused("%s", no.Error())
	case errors.As(err, &no):
		return &fabric.BusyError{RetryAfter: no.retryAfter, Reason: no.Error(), LoginRefused: no.login}
	}
	return &fabric.BusyError{Reason: err.Error()}
}

// after is the error of a request that was to change something.
func (c *change) after(err error) error {
	switch judge(err) {
	case verdictRefused, verdictBusy:
		return c.before(err)
	}
	return fmt.Errorf("%s device %s, machine %s: the outcome is unknown: %w", c.op, c.device, c.machine, err)
}
