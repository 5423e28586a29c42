// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package story

import (
	"errors"
	"fmt"

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
		return b.sandbox.Rack().KillController()
	case "redfish":
		return b.sandbox.Rack().KillRedfish()
	case "driver":
		var errs []error
		for _, d := range b.sandbox.Rack().Drivers() {
			errs = append(errs, d.Kill(where))
		}
		return errors.Join(errs...)
	}
	return noPart(part)
}

func (b *backend) Start(part, where string) error {
	b.settled = nil
	switch part {
	case "scheduler":
		return b.sandbox.StartScheduler(b.ctx)
	case "controller":
		return b.sandbox.Rack().StartController(b.ctx)
	case "redfish":
		return b.sandbox.Rack().StartRedfish(b.ctx)
	case "driver":
		var errs []error
		for _, d := range b.sandbox.Rack().Drivers() {
			errs = append(errs, d.Start(where))
		}
		return errors.Join(errs...)
	}
	return noPart(part)
}

func (b *backend) Disconnect(part string) error {
	b.settled = nil
	switch part {
	case "scheduler":
		return b.sandbox.DisconnectScheduler()
	case "controller":
		return b.sandbox.Rack().DisconnectController()
	}
	return noPart(part)
}

func (b *backend) Reconnect(part string) error {
	b.settled = nil
	switch part {
	case "scheduler":
		b.sandbox.ReconnectScheduler()
	case "controller":
		b.sandbox.Rack().ReconnectController()
	default:
		return noPart(part)
	}
	return nil
}

func noPart(part string) error {
	return fmt.Errorf("%s: no such part, or not one that can be treated so", part)
}

// Wait looks at the state as it is each time.
func (b *backend) Wait(done func() (bool, error)) error {
	return poll(b.ctx, func() (bool, error) {
		b.settled = nil
		return done()
	})
}
