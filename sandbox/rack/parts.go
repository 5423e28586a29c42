// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package rack

import (
	"context"
	"errors"

	"kerf.dev/kerf/sandbox/driver"
	"kerf.dev/kerf/sandbox/part"
)

// redfishPart is the Redfish service of the shelf as a part.
type redfishPart struct {
	part.Unlinked
	rack *Rack
}

var _ part.Part = &redfishPart{}

// Start starts the service again, with the state that it has kept.
func (s *redfishPart) Start(ctx context.Context, _ string) error {
	shelf := s.rack.shelf()
	if shelf == nil {
		return errNoShelf
	}
	return shelf.start(ctx)
}

// Kill ends the service: operations that are going on never happened. The devices stay
// where they are.
func (s *redfishPart) Kill(string) error {
	shelf := s.rack.shelf()
	if shelf == nil {
		return errNoShelf
	}
	return shelf.kill()
}

// Stop ends the service and takes the shelf away.
func (s *redfishPart) Stop() error {
	s.rack.mu.Lock()
	defer s.rack.mu.Unlock()
	shelf := s.rack.shelf()
	if shelf == nil {
		return nil
	}
	defer s.rack.setShelf(nil)
	return shelf.close()
}

// driversPart are all drivers, on a node, as a part.
type driversPart struct {
	part.Unlinked
	rack *Rack
}

var _ part.Part = &driversPart{}

// Start starts the drivers on a node where they were killed.
func (d *driversPart) Start(_ context.Context, node string) error {
	return d.each(func(driver *driver.Driver) error { return driver.Start(node) })
}

// Kill ends the drivers on a node.
func (d *driversPart) Kill(node string) error {
	return d.each(func(driver *driver.Driver) error { return driver.Kill(node) })
}

func (d *driversPart) each(do func(*driver.Driver) error) error {
	all := d.rack.Drivers()
	if len(all) == 0 {
		return errors.New("no driver runs")
	}
	var errs []error
	for _, driver := range all {
		errs = append(errs, do(driver))
	}
	return errors.Join(errs...)
}

// Stop ends all drivers on all nodes. They have to be run again.
func (d *driversPart) Stop() error {
	d.rack.mu.Lock()
	defer d.rack.mu.Unlock()
	var errs []error
	for _, run := range d.rack.driverRuns() {
		errs = append(errs, run.Stop())
	}
	d.rack.look.Lock()
	defer d.rack.look.Unlock()
	d.rack.drivers = nil
	return errors.Join(errs...)
}
