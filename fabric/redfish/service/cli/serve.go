// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"time"

	"kerf.dev/kerf/fabric/redfish/service"
)

const (
	// headerTimeout is what a client has to send its header.
	headerTimeout = 10 * time.Second
	// goodbye is what the last answers may take.
	goodbye = 5 * time.Second
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

func (o *options) serve(ctx context.Context, s *service.Service, certificate tls.Certificate) error {
	var servers []*http.Server
	failed := make(chan error, 2)
	start := func(address string, handler http.Handler, certificates ...tls.Certificate) (string, error) {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			return "", failure{err}
		}
		server := &http.Server{
			Handler: handler, ReadHeaderTimeout: headerTimeout, ErrorLog: log.New(o.process.Err, "", 0),
			TLSConfig: &tls.Config{Certificates: certificates, MinVersion: tls.VersionTLS12},
		}
		servers = append(servers, server)
		go func() {
			if len(certificates) > 0 {
				failed <- server.ServeTLS(listener, "", "")
			} else {
				failed <- server.Serve(listener)
			}
		}()
		return listener.Addr().String(), nil
	}
	defer func() {
		// Requests that wait for an operation end with the service.
		s.Close()
		for _, server := range servers {
			if end(server) != nil {
				say(o.process.Err, "some requests were cut off")
			}
		}
		for range servers {
			<-failed
		}
	}()
	at, err := start(o.listen, s.Handler(), certificate)
	if err != nil {
		return err
	}
	adminAt := ""
	if o.adminListen != "" {
		if adminAt, err = start(o.adminListen, s.AdminHandler()); err != nil {
			return err
		}
	}
	o.welcome(at, adminAt)
	select {
	case <-ctx.Done():
		return cause(ctx)
	case err := <-failed:
		failed <- err
		return failure{err}
	}
}

func end(server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return errors.Join(err, server.Close())
	}
	return nil
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
