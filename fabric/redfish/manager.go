// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"kerf.dev/kerf/fabric"
)

// Options say where a fabric manager is and how to talk to it.
type Options struct {
	// Endpoint is the service's URL without a path, as in https://fabric.example:8443.
	Endpoint string
	// Username and Password are sent to log in, and are in no error. Both empty: the service asks nobody who he is.
	Username, Password string
	// BasicAuth sends them with every request, for services without sessions.
	BasicAuth bool
	// CABundle is the authorities to trust, in PEM; empty: those of the system.
	CABundle []byte
	// InsecureSkipVerify takes any certificate of the service for good: then nobody knows who gets the password.
	InsecureSkipVerify bool
	// InsecurePlainHTTP permits an http endpoint, where everybody on the way can read the password.
	InsecurePlainHTTP bool
	// Timeout ends a call (not a request) whose context has no earlier deadline; one minute if 0.
	Timeout time.Duration
	// Requests is how many requests may be going on at once; 4 if 0.
	Requests int
	// Limits are what the fabric manager can bear, from its documentation: Redfish does not tell.
	Limits fabric.Limits
	// Ours tells whether a reservation on a free device was made for us before this Manager existed, by its predecessor
	// that crashed: whether an attach or a detach of the device was begun whose end is not known. Inventory takes such a
	// reservation away, so a yes that is wrong robs somebody else of theirs. If nil, only those are ours that this
	// Manager made.
	Ours func(fabric.DeviceRef) bool
	// Now is the time, for the pause after a refused login; time.Now if nil.
	Now func() time.Time
}

const (
	defaultTimeout  = time.Minute
	defaultRequests = 4
	dialTimeout     = 10 * time.Second
)

// Manager is a fabric.Manager over Redfish. Its methods may be called concurrently.
type Manager struct {
	options Options
	session *session
	cache   cache

	mu sync.Mutex
	// layout is where things are in the service, nil before it was read.
	layout *layout
	// using has what a call is working on: devices, and machines while their list of blocks is replaced.
	using map[string]bool
	// reserved has the devices whose reservation is ours, or may be where the reply was lost, and when that began.
	reserved map[fabric.DeviceRef]uint64
	// ticks counts events, to tell what was before what.
	ticks uint64
}

var _ fabric.Manager = (*Manager)(nil)

// New makes a Manager. It sends nothing: a service that is down is an error of the calls. Errors name the option.
func New(options Options) (*Manager, error) {
	endpoint, err := url.Parse(options.Endpoint)
	switch {
	case err != nil:
		return nil, fmt.Errorf("endpoint: %w", err)
	case endpoint.Scheme == "http" && !options.InsecurePlainHTTP && options.Username != "":
		return nil, fmt.Errorf("endpoint %s: the password would be readable on the way; use https, or permit plain http", options.Endpoint)
	case endpoint.Scheme != "http" && endpoint.Scheme != "https" || endpoint.Host == "":
		return nil, fmt.Errorf("endpoint %q: want a URL such as https://fabric.example:8443", options.Endpoint)
	case endpoint.User != nil || endpoint.RawQuery != "" || endpoint.Fragment != "" || (endpoint.Path != "" && endpoint.Path != "/"):
		return nil, fmt.Errorf("endpoint of host %s: want a scheme, a host and a port only", endpoint.Host)
	case (options.Username == "") != (options.Password == ""):
		return nil, errors.New("one of user name and password is empty")
	case options.InsecureSkipVerify && len(options.CABundle) > 0:
		return nil, errors.New("CA bundle: is of no use where any certificate is accepted")
	case options.Requests < 0 || options.Timeout < 0:
		return nil, errors.New("requests or timeout is negative, want 0 for the default or more")
	}
	options.Endpoint = endpoint.Scheme + "://" + endpoint.Host
	if options.Timeout == 0 {
		options.Timeout = defaultTimeout
	}
	if options.Requests == 0 {
		options.Requests = defaultRequests
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	client, err := newClient(options, endpoint)
	if err != nil {
		return nil, err
	}
	return &Manager{
		options: options, session: newSession(options, client), cache: newCache(),
		using: map[string]bool{}, reserved: map[fabric.DeviceRef]uint64{},
	}, nil
}

func newClient(options Options, endpoint *url.URL) (*http.Client, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: options.InsecureSkipVerify}
	if len(options.CABundle) > 0 {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(options.CABundle) {
			return nil, errors.New("CA bundle: there is no certificate in PEM in it")
		}
	}
	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSClientConfig:        trust,
		TLSHandshakeTimeout:    dialTimeout,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    options.Requests,
		MaxResponseHeaderBytes: maxHeader,
		IdleConnTimeout:        time.Minute,
	}
	return &http.Client{
		Transport: &witness{next: transport, scheme: endpoint.Scheme, host: endpoint.Host},
		// A redirect would take the session's token along, to whatever host it names.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// Limits are those of the options.
func (m *Manager) Limits() fabric.Limits { return m.options.Limits }

// Service tells the UUID of the service, empty where it has none. It logs in where that was not done yet.
func (m *Manager) Service(ctx context.Context) (string, error) {
	ctx, cancel := m.bounded(ctx)
	defer cancel()
	client, err := m.session.current(ctx)
	if busy := busyError(err); busy != nil {
		return "", busy
	}
	if err != nil {
		return "", err
	}
	if len(client.Service.UUID) > maxServiceUUID {
		return "", limit("the UUID of the service has more than %d bytes", maxServiceUUID)
	}
	return client.Service.UUID, nil
}

// Close logs out. The Manager must not be used afterwards.
func (m *Manager) Close(ctx context.Context) error {
	ctx, cancel := m.bounded(ctx)
	defer cancel()
	return m.session.end(ctx)
}

// use has a name for one call alone, or tells that another has it.
func (m *Manager) use(name string) (release func(), ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.using[name] {
		return nil, false
	}
	m.using[name] = true
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.using, name)
	}, true
}
