// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"
)

// witness notes what gofish does not tell: whether a request has left, and the status and header of an answer that is
// an error. It finds the sighting to note it in in the request's context.
//
// All requests pass it. It keeps those to other hosts back, wherever the service may have led gofish: they would take the
// password or the session's token along.
type witness struct {
	next         http.RoundTripper
	scheme, host string
}

type sighting struct {
	sent   atomic.Bool
	status atomic.Int64
	header atomic.Pointer[http.Header]
}

type sightingKey struct{}

func witnessed(ctx context.Context) (context.Context, *sighting) {
	seen := &sighting{}
	ctx = context.WithValue(ctx, sightingKey{}, seen)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders: func() { seen.sent.Store(true) },
	}), seen
}

func (w *witness) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != w.scheme || r.URL.Host != w.host || r.URL.User != nil {
		return nil, fmt.Errorf("a link of the service leads to %s://%s: nothing is sent to another host than %s", r.URL.Scheme, r.URL.Host, w.host)
	}
	response, err := w.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if seen, ok := r.Context().Value(sightingKey{}).(*sighting); ok {
		seen.status.Store(int64(response.StatusCode))
		seen.header.Store(&response.Header)
	}
	response.Body = measured(response)
	return response, nil
}

// CloseIdleConnections is called by http.Client.
func (w *witness) CloseIdleConnections() {
	if c, ok := w.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// statusError is an answer that says no.
type statusError struct {
	op         string
	status     int
	retryAfter time.Duration // 0: not told
	message    string
	// login says that the service refuses who we say that we are.
	login bool
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s: %d %s: %s", e.op, e.status, http.StatusText(e.status), cmp.Or(e.message, "the service does not say why"))
}

// transportError is no answer.
type transportError struct {
	op string
	// sent says that the request may have reached the service.
	sent bool
	err  error
}

func (e *transportError) Error() string { return fmt.Sprintf("%s: %v", e.op, e.err) }
func (e *transportError) Unwrap() error { return e.err }

// failure makes one of the two errors of what gofish returned.
func (s *sighting) failure(ctx context.Context, op string, err error) error {
	var refused *schemas.Error
	if status := int(s.status.Load()); status >= 300 && errors.As(err, &refused) {
		header := *s.header.Load()
		return &statusError{op: op, status: status, retryAfter: retryAfter(header), message: explanation(refused),
			login: status == http.StatusUnauthorized}
	}
	return &transportError{op: op, sent: s.sent.Load(), err: overdue(ctx, err)}
}

// explanation is why the service says no.
func explanation(e *schemas.Error) string {
	words := e.Message
	if len(e.ExtendedInfos) > 0 && e.ExtendedInfos[0].Message != "" {
		words = e.ExtendedInfos[0].Message
	}
	return words
}

// maxPause is the longest pause that a service can ask for: it may not have its fabric forgotten.
const maxPause = time.Hour

func retryAfter(header http.Header) time.Duration {
	at, err := schemas.ParseRetryAfter(header.Get("Retry-After"))
	if err != nil {
		return 0 // Not told, or not in a way that can be understood.
	}
	// It was in whole seconds.
	return min(max(0, time.Until(at).Round(time.Second)), maxPause)
}

// answer is an answer that says yes.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// errNotModified says that a resource is still as the one whose ETag was sent.
var errNotModified = schemas.ErrNotModified

// request sends a request and reads the answer, and once again where the session has ended. The errors are
// *statusError, *transportError and errNotModified.
func (m *Manager) request(ctx context.Context, method, path string, payload any, header map[string]string) (*answer, error) {
	if err := checkPath(path); err != nil {
		return nil, m.session.hideIn(err)
	}
	client, err := m.session.current(ctx)
	if err != nil {
		return nil, err
	}
	got, err := send(ctx, client, method, path, payload, header)
	if no := (*statusError)(nil); errors.As(err, &no) && no.status == http.StatusUnauthorized && !m.options.BasicAuth {
		if client, err = m.session.renew(ctx, client); err != nil {
			return nil, err
		}
		got, err = send(ctx, client, method, path, payload, header)
	}
	err = m.session.hideIn(err)
	m.session.heard(client, err)
	return got, err
}

// checkPath keeps a service from sending us, and the session's token, elsewhere: gofish appends the path to the host.
func checkPath(path string) error {
	if !strings.HasPrefix(path, "/") {
		return &statusError{op: "follow a link", status: http.StatusNotFound, message: fmt.Sprintf("%q is not a path on the service", path)}
	}
	return nil
}

func send(ctx context.Context, client *gofish.APIClient, method, path string, payload any, header map[string]string) (*answer, error) {
	op := method + " " + path
	ctx, seen := witnessed(ctx)
	client = client.WithContext(ctx)
	var response *http.Response
	var err error
	switch method {
	case http.MethodGet:
		response, err = client.GetWithHeaders(path, header)
	case http.MethodPost:
		response, err = client.PostWithHeaders(path, payload, header)
	case http.MethodPatch:
		response, err = client.PatchWithHeaders(path, payload, header)
	default:
		return nil, fmt.Errorf("%s: the method is not used here", op)
	}
	if response != nil {
		defer schemas.DeferredCleanupHTTPResponse(response)
	}
	switch {
	case errors.Is(err, errNotModified):
		return nil, errNotModified
	case err != nil:
		return nil, seen.failure(ctx, op, err)
	}
	body, err := io.ReadAll(response.Body)
	if err == nil {
		err = ctx.Err() // A service that is cut off may end its answer as if that were all.
	}
	if err != nil && method == http.MethodGet {
		return nil, &transportError{op: op, sent: true, err: overdue(ctx, err)}
	}
	// Of a change, the status has told that it was made; without the rest of the body, that is all there is to know.
	return &answer{status: response.StatusCode, header: response.Header, body: body}, nil
}
