// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"kerf.dev/kerf/sandbox/driver"
)

// treatment is what can be done to a part while the others run. What is nil cannot be
// done to it. A driver is treated on a node, where; of others there is one.
type treatment struct {
	part                  string
	start                 func(ctx context.Context, where string) error
	kill                  func(where string) error
	disconnect, reconnect func() error
}

// treatments has each part that can be treated.
func (s *Sandbox) treatments() []treatment {
	return []treatment{
		{
			part:       "scheduler",
			start:      func(ctx context.Context, _ string) error { return s.StartScheduler(ctx) },
			kill:       func(string) error { return s.KillScheduler() },
			disconnect: s.DisconnectScheduler,
			reconnect:  func() error { s.ReconnectScheduler(); return nil },
		},
		{
			part:       "controller",
			start:      func(ctx context.Context, _ string) error { return s.rack.StartController(ctx) },
			kill:       func(string) error { return s.rack.KillController() },
			disconnect: func() error { return s.rack.DisconnectController() },
			reconnect:  func() error { s.rack.ReconnectController(); return nil },
		},
		{
			part:  "redfish",
			start: func(ctx context.Context, _ string) error { return s.rack.StartRedfish(ctx) },
			kill:  func(string) error { return s.rack.KillRedfish() },
		},
		{
			part:  "driver",
			start: func(_ context.Context, node string) error { return s.eachDriver(node, (*driver.Driver).Start) },
			kill:  func(node string) error { return s.eachDriver(node, (*driver.Driver).Kill) },
		},
	}
}

func (s *Sandbox) eachDriver(node string, do func(*driver.Driver, string) error) error {
	var errs []error
	for _, d := range s.rack.Drivers() {
		errs = append(errs, do(d, node))
	}
	return errors.Join(errs...)
}

// KillPart ends a part as SIGKILL would: scheduler, controller, redfish, or driver on a
// node.
func (s *Sandbox) KillPart(part, where string) error {
	t, err := s.find("kill", part, func(t treatment) bool { return t.kill != nil })
	if err != nil {
		return err
	}
	return t.kill(where)
}

// StartPart starts a part that was killed, without memory.
func (s *Sandbox) StartPart(ctx context.Context, part, where string) error {
	t, err := s.find("start", part, func(t treatment) bool { return t.start != nil })
	if err != nil {
		return err
	}
	return t.start(ctx, where)
}

// DisconnectPart cuts a part off from the API server until ReconnectPart.
func (s *Sandbox) DisconnectPart(part string) error {
	t, err := s.find("disconnect", part, func(t treatment) bool { return t.disconnect != nil })
	if err != nil {
		return err
	}
	return t.disconnect()
}

// ReconnectPart ends what DisconnectPart has begun.
func (s *Sandbox) ReconnectPart(part string) error {
	t, err := s.find("reconnect", part, func(t treatment) bool { return t.reconnect != nil })
	if err != nil {
		return err
	}
	return t.reconnect()
}

// find returns the part of that name. The error says which parts can be treated so.
func (s *Sandbox) find(verb, part string, can func(treatment) bool) (treatment, error) {
	var able []string
	problem := "there is no such part"
	for _, t := range s.treatments() {
		switch {
		case can(t) && t.part == part:
			return t, nil
		case can(t):
			able = append(able, t.part)
		case t.part == part:
			problem = "that cannot be done to it"
		}
	}
	return treatment{}, fmt.Errorf("%s %s: %s; it can be done to %s", verb, part, problem, strings.Join(able, ", "))
}
