// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"strings"

	"kerf.dev/kerf/fabric/redfish/service"
)

// run checks all that was given, then serves until the context is cancelled.
func (o *options) run(ctx context.Context) error {
	if err := o.checkAddresses(); err != nil {
		return err
	}
	config, err := o.description()
	if err != nil {
		return err
	}
	username, password, err := o.credentials()
	if err != nil {
		return err
	}
	state, err := o.state()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s, err := service.New(config, service.Options{
		Username: username, Password: password, State: state, Observer: o.report, Persist: o.persist(stop),
	})
	if err != nil {
		return fmt.Errorf("%s: %w", o.config, err)
	}
	defer s.Close()
	certificate, err := o.certificate()
	if err != nil {
		return err
	}
	return o.serve(ctx, s, certificate)
}

// report prints what a host sees now.
func (o *options) report(sight service.Sight) {
	devices := make([]string, len(sight.Devices))
	for i, d := range sight.Devices {
		devices[i] = d.Block
	}
	if len(devices) == 0 {
		devices = []string{"nothing"}
	}
	say(o.process.Err, "%s sees %s", sight.Host, strings.Join(devices, ", "))
}

// persist keeps the state, and ends the service where that fails: it would forget what it has promised.
func (o *options) persist(stop context.CancelCauseFunc) func(service.State) {
	if o.stateFile == "" {
		return nil
	}
	return func(state service.State) {
		if err := o.keep(state); err != nil {
			stop(failure{fmt.Errorf("--state %s: %w", o.stateFile, err)})
		}
	}
}

func (o *options) serve(ctx context.Context, s *service.Service, certificate tls.Certificate) (err error) {
	// Requests that wait for an operation end with the service, and the servers after them.
	var servers []*service.Server
	defer func() {
		s.Close()
		for _, server := range servers {
			if ended := server.Close(); ended != nil {
				err = errors.Join(err, failure{ended})
			}
		}
	}()
	logger := log.New(o.process.Err, "", 0)
	redfish, err := service.Listen(ctx, o.listen, s.Handler(), &certificate, logger)
	if err != nil {
		return failure{err}
	}
	servers = append(servers, redfish)
	var adminEnded <-chan struct{} // Never, without one.
	adminAddress := ""
	if o.adminListen != "" {
		admin, err := service.Listen(ctx, o.adminListen, s.AdminHandler(), nil, logger)
		if err != nil {
			return failure{err}
		}
		servers = append(servers, admin)
		adminEnded, adminAddress = admin.Done(), admin.Address
	}
	o.welcome(redfish.Address, adminAddress)
	select {
	case <-ctx.Done():
	case <-redfish.Done():
	case <-adminEnded:
	}
	return cause(ctx)
}

// cause is why the service ended, nil where it was told to.
func cause(ctx context.Context) error {
	if why := (failure{}); errors.As(context.Cause(ctx), &why) {
		return why
	}
	return nil
}

// welcome tells how to reach the service.
func (o *options) welcome(at, adminAt string) {
	say(o.process.Out, "Redfish on https://%s", at)
	if o.certFile == "" {
		say(o.process.Out, "trust the authority in %s", o.caFile)
	}
	if adminAt != "" {
		say(o.process.Out, "faults on http://%s/faults", adminAt)
	}
}
