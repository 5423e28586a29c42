// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"kerf.dev/kerf/fabric"
	"kerf.dev/kerf/fabric/redfish"
	"kerf.dev/kerf/fabric/redfish/description"
	"kerf.dev/kerf/fabric/redfish/service"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	systems = "/redfish/v1/Systems/"
	blocks  = "/redfish/v1/CompositionService/ResourceBlocks/"
	zones   = "/redfish/v1/CompositionService/ResourceZones/"
)

// quiet swallows what the server says about connections that tests drop.
var quiet = log.New(io.Discard, "", 0)

// selfSigned is the certificate of all rigs' servers. It is made once, because that is slow.
var selfSigned = sync.OnceValues(func() (*signed, error) {
	certificate, authority, err := service.SelfSigned([]string{"127.0.0.1"})
	return &signed{certificate, authority}, err
})

type signed struct {
	certificate tls.Certificate
	authority   []byte
}

func certificates(t *testing.T) *signed {
	t.Helper()
	made, err := selfSigned()
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// rig is a Manager that talks over HTTPS to a simulated service.
type rig struct {
	*redfish.Manager
	t       *testing.T
	service *service.Service
	server  *httptest.Server
	clock   *service.ManualClock
	options redfish.Options

	mu sync.Mutex
	// intercept, if not nil, sees a request first, and returns true if it has answered it.
	intercept func(http.ResponseWriter, *http.Request) bool
	// stream is intercept for answers that do not end.
	stream    func(http.ResponseWriter, *http.Request) bool
	inFlight  int
	maxAtOnce int
}

// shelf is two hosts and four devices; host-b cannot reach gpu-4.
func shelf() description.Config {
	return description.Config{
		Zones: []string{"left", "right"},
		Hosts: []description.Host{{ID: "host-a"}, {ID: "host-b", Zones: []string{"left"}}},
		Blocks: []description.Block{
			{ID: "gpu", Count: 3, Manufacturer: "Acme", Model: "A100", PartNumber: "p-1", MemoryMiB: 40960, Zones: []string{"left"}},
			{ID: "gpu-4", Kind: description.KindPCIeDevice, Manufacturer: "Acme", Model: "Net", Zones: []string{"right"}},
		},
	}
}

func newRig(t *testing.T, config description.Config, with ...func(*redfish.Options)) *rig {
	t.Helper()
	r := &rig{t: t, clock: service.NewManualClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	r.serve(config, nil)
	r.options = redfish.Options{
		Endpoint: r.server.URL, Username: "kerf", Password: "secret", Now: r.clock.Now,
		CABundle: certificates(t).authority,
		Limits:   fabric.Limits{Concurrent: 4, PerMachine: 1},
	}
	for _, f := range with {
		f(&r.options)
	}
	r.connect()
	return r
}

// serve starts a service behind the rig's server.
func (r *rig) serve(config description.Config, state *service.State) {
	r.t.Helper()
	s, err := service.New(config, service.Options{Username: "kerf", Password: "secret", Clock: r.clock, State: state})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(s.Close)
	r.mu.Lock()
	r.service = s
	r.mu.Unlock()
	if r.server == nil {
		r.server = httptest.NewUnstartedServer(http.HandlerFunc(r.handle))
		r.server.Config.ErrorLog = quiet
		r.server.TLS = &tls.Config{Certificates: []tls.Certificate{certificates(r.t).certificate}}
		r.server.StartTLS()
		r.t.Cleanup(r.server.Close)
	}
}

func (r *rig) handle(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	r.inFlight++
	r.maxAtOnce = max(r.maxAtOnce, r.inFlight)
	intercept, stream, handler := r.intercept, r.stream, r.service.Handler()
	r.mu.Unlock()
	if stream != nil && stream(w, q) {
		return
	}
	// The answer is sent when the request is no longer counted: else the client could send the next one before.
	answer := httptest.NewRecorder()
	func() {
		defer func() {
			r.mu.Lock()
			r.inFlight--
			r.mu.Unlock()
		}()
		if intercept == nil || !intercept(answer, q) {
			handler.ServeHTTP(answer, q)
		}
	}()
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // If it fails, the client has gone.
}

func (r *rig) intercepting(f func(http.ResponseWriter, *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.intercept = f
}

func (r *rig) streaming(f func(http.ResponseWriter, *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stream = f
}

// connect makes a Manager, in the place of the one before.
func (r *rig) connect() {
	r.t.Helper()
	m, err := redfish.New(r.options)
	if err != nil {
		r.t.Fatal(err)
	}
	r.Manager = m
	r.t.Cleanup(func() {
		r.intercepting(nil)
		r.streaming(nil)
		// It fails where the test has taken the service away.
		_ = m.Close(context.Background())
	})
}

func (r *rig) fault(f description.Fault) {
	r.t.Helper()
	if err := r.service.AddFault(f); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) attach(device, host string) (fabric.Operation, error) {
	return r.Attach(r.t.Context(), fabric.DeviceRef(blocks+device), fabric.MachineRef(systems+host))
}

func (r *rig) detach(device, host string) (fabric.Operation, error) {
	return r.Detach(r.t.Context(), fabric.DeviceRef(blocks+device), fabric.MachineRef(systems+host))
}

// device reads one device from the inventory.
func (r *rig) device(id string) fabric.Device {
	r.t.Helper()
	inventory, err := r.Inventory(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	i := slices.IndexFunc(inventory.Devices, func(d fabric.Device) bool { return d.Ref == fabric.DeviceRef(blocks+id) })
	if i < 0 {
		r.t.Fatalf("device %s is not in the inventory", id)
	}
	return inventory.Devices[i]
}

// at is where the inventory has a device, with its flags.
func (r *rig) at(id string) string {
	r.t.Helper()
	d := r.device(id)
	where := "free"
	if d.Machine != "" {
		where = string(d.Machine[len(systems):])
	}
	for flag, set := range map[string]bool{" reserved": d.Reserved, " busy": d.Busy, " unhealthy": !d.Healthy} {
		if set {
			where += flag
		}
	}
	return where
}

// seenBy is the host that really sees a device.
func (r *rig) seenBy(id string) string {
	for _, h := range []string{"host-a", "host-b"} {
		if slices.ContainsFunc(r.service.Sees(h), func(d service.Device) bool { return d.Block == id }) {
			return h
		}
	}
	return ""
}

// keptBy tells whether a block is reserved in the service, whatever the inventory makes of it.
func (r *rig) kept(id string) bool { return r.service.State().Blocks[id].Reserved }

// says is the kind of an outcome.
func says(o fabric.Operation, err error) string {
	refused, busy := (*fabric.RefusedError)(nil), (*fabric.BusyError)(nil)
	switch {
	case err == nil:
		return string(o.State)
	case errors.As(err, &refused):
		return "refused"
	case errors.As(err, &busy):
		return "busy"
	case errors.Is(err, fabric.ErrUnknownOperation):
		return "unknown operation"
	}
	return "unknown outcome"
}

func (r *rig) want(what, got, want string) {
	r.t.Helper()
	if got != want {
		r.t.Errorf("%s: got %q, want %q", what, got, want)
	}
}
