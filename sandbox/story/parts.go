// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package story

import (
	"errors"
	"fmt"
	"strings"

	"kerf.dev/kerf/scenario"
)

var (
	_ scenario.Parts  = &backend{}
	_ scenario.Waiter = &backend{}
)

func (b *backend) Kill(part, where string) error {
	b.settled = nil
	switch part {
	case "scheduler":
		return b.sandbox.KillScheduler()
	case "controller":
		return b.sandbox.KillController()
	case "redfish":
		return b.sandbox.KillRedfish()
	case "driver":
		var errs []error
		for _, d := range b.sandbox.Drivers() {
			errs = append(errs, d.Kill(where))
		}
		return errors.Join(errs...)
	}
	return noPart(part, "scheduler", "controller", "redfish", "driver")
}

func (b *backend) Start(part, where string) error {
	b.settled = nil
	switch part {
	case "scheduler":
		return b.sandbox.StartScheduler(b.ctx)
	case "controller":
		return b.sandbox.StartController(b.ctx)
	case "redfish":
		return b.sandbox.StartRedfish(b.ctx)
	case "driver":
		var errs []error
		for _, d := range b.sandbox.Drivers() {
			errs = append(errs, d.Start(where))
		}
		return errors.Join(errs...)
	}
	return noPart(part, "scheduler", "controller", "redfish", "driver")
}

func (b *backend) Disconnect(part string) error {
	b.settled = nil
	switch part {
	case "scheduler":
		return b.sandbox.DisconnectScheduler()
	case "controller":
		return b.sandbox.DisconnectController()
	}
	return noPart(part, "scheduler", "controller")
}

func (b *backend) Reconnect(part string) error {
	b.settled = nil
	switch part {
	case "scheduler":
		b.sandbox.ReconnectScheduler()
	case "controller":
		b.sandbox.ReconnectController()
	default:
		return noPart(part, "scheduler", "controller")
	}
	return nil
}

func noPart(part string, want ...string) error {
	return fmt.Errorf("%q is not one of %s", part, strings.Join(want, ", "))
}

// Wait looks at the state as it is each time.
func (b *backend) Wait(done func() (bool, error)) error {
	return poll(b.ctx, func() (bool, error) {
		b.settled = nil
		return done()
	})
}
