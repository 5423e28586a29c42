// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"crypto/tls"
	"errors"
	"log"
	"net"
	"net/http"
	"time"
)

const (
	// headerTimeout is what a client has to send its header.
	headerTimeout = 10 * time.Second
	// goodbye is what the last answers may take.
	goodbye = 5 * time.Second
)

// Server serves a handler on an address.
type Server struct {
	// Address is the one it listens on, with the port that was chosen where none was given.
	Address string

	server *http.Server
	ended  chan struct{}
	err    error
}

// Listen serves a handler, of a Service for example, on a TCP address such as 127.0.0.1:0: over HTTPS, or plain HTTP
// without a certificate. Errors of connections are logged. End it with Close or Kill.
func Listen(ctx context.Context, address string, handler http.Handler, certificate *tls.Certificate, logger *log.Logger) (*Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{
		Address: listener.Addr().String(),
		server:  &http.Server{Handler: handler, ReadHeaderTimeout: headerTimeout, ErrorLog: logger},
		ended:   make(chan struct{}),
	}
	go s.serve(listener, certificate)
	return s, nil
}

func (s *Server) serve(listener net.Listener, certificate *tls.Certificate) {
	defer close(s.ended)
	if certificate == nil {
		s.err = s.server.Serve(listener)
		return
	}
	s.server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*certificate}, MinVersion: tls.VersionTLS12}
	s.err = s.server.ServeTLS(listener, "", "")
}

// Done is closed when the server has ended, for whatever reason.
func (s *Server) Done() <-chan struct{} { return s.ended }

// Err is why the server has ended by itself, nil where it was told to. It waits for the end.
func (s *Server) Err() error {
	<-s.ended
	if errors.Is(s.err, http.ErrServerClosed) {
		return nil
	}
	return s.err
}

// Close lets the answers that are on their way arrive, and ends the server. Close the Service before: requests that
// wait for one of its operations do not end by themselves. The error says that some were cut off, or why the server
// had ended before.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		return errors.Join(err, s.Kill())
	}
	return s.Err()
}

// Kill cuts all connections, as a crash does.
func (s *Server) Kill() error { return errors.Join(s.server.Close(), s.Err()) }
