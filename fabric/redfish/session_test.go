// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish_test

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"kerf.dev/kerf/fabric"
	"kerf.dev/kerf/fabric/redfish"
	"kerf.dev/kerf/fabric/redfish/description"
	"kerf.dev/kerf/fabric/redfish/service"
)

func TestSessionEnds(t *testing.T) {
	r := newRig(t, shelf())
	r.want("gpu-1", r.at("gpu-1"), "free")
	r.service.ExpireSessions()
	// Three requests at once find that the session has ended; one of them logs in.
	r.want("gpu-1", r.at("gpu-1"), "free")
	r.want("attach", says(r.attach("gpu-1", "host-a")), "Done")
	r.want("gpu-1", r.at("gpu-1"), "host-a")
	if got := r.service.Stats().Logins; got != 2 {
		t.Errorf("logged in %d times, want 2", got)
	}
}

// TestSessionEndsBeforeAChange expires the session so that the change itself is answered with 401.
func TestSessionEndsBeforeAChange(t *testing.T) {
	r := newRig(t, shelf())
	expired := false
	r.intercepting(func(_ http.ResponseWriter, q *http.Request) bool {
		if strings.Contains(q.URL.Path, "/Actions/") && !expired {
			expired = true
			r.service.ExpireSessions()
		}
		return false
	})
	r.want("attach", says(r.attach("gpu-1", "host-a")), "Done")
	if got := r.service.Stats().Operations; got != 1 {
		t.Errorf("%d operations were begun, want 1", got)
	}
}

func TestCloseLogsOut(t *testing.T) {
	r := newRig(t, shelf())
	r.want("gpu-1", r.at("gpu-1"), "free")
	if got := r.service.Sessions(); got != 1 {
		t.Fatalf("there are %d sessions, want 1", got)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.service.Sessions(); got != 0 {
		t.Errorf("%d sessions are left", got)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// TestRefusedLogin does not knock again and again: services lock accounts out.
func TestRefusedLogin(t *testing.T) {
	r := newRig(t, shelf(), func(o *redfish.Options) { o.Password = "wrong-password" })
	logins := 0
	r.intercepting(func(_ http.ResponseWriter, q *http.Request) bool {
		if q.Method == http.MethodPost && strings.HasSuffix(q.URL.Path, "/Sessions") {
			logins++
		}
		return false
	})
	for _, step := range []struct {
		pass   time.Duration
		logins int
		retry  time.Duration
	}{
		{0, 1, 0}, {0, 1, time.Second}, {time.Second, 2, 0}, {time.Second, 2, time.Second}, {time.Second, 3, 0}, {time.Second, 3, 3 * time.Second},
	} {
		r.clock.Advance(step.pass)
		_, err := r.Inventory(t.Context())
		r.want("inventory", says(fabric.Operation{}, err), "busy")
		if logins != step.logins {
			t.Errorf("logged in %d times, want %d", logins, step.logins)
		}
		if step.retry != 0 {
			checkRetryAfter(t, err, step.retry)
		}
		if busy := (*fabric.BusyError)(nil); !errors.As(err, &busy) || !busy.LoginRefused || strings.Contains(err.Error(), "is busy") {
			t.Errorf("got %v, want that the login is refused", err)
		}
		if strings.Contains(err.Error(), "wrong-password") || strings.Contains(err.Error(), "secret") {
			t.Errorf("the password is in the error: %v", err)
		}
	}
	r.want("attach", says(r.attach("gpu-1", "host-a")), "busy")
}

func TestBasicAuth(t *testing.T) {
	r := newRig(t, shelf(), func(o *redfish.Options) { o.BasicAuth = true })
	r.want("attach", says(r.attach("gpu-1", "host-a")), "Done")
	if got := r.service.Stats().Logins; got != 0 {
		t.Errorf("made %d sessions, want none", got)
	}
	r = newRig(t, shelf(), func(o *redfish.Options) { o.BasicAuth, o.Password = true, "wrong" })
	r.want("attach", says(r.attach("gpu-1", "host-a")), "busy")
	sent := r.service.Stats().Total
	r.want("attach again", says(r.attach("gpu-1", "host-a")), "busy")
	if got := r.service.Stats().Total; got != sent {
		t.Errorf("a refused password was sent again: %d requests, want %d", got, sent)
	}
}

func TestLoginFaults(t *testing.T) {
	for _, kind := range []description.FaultKind{description.FaultBusy, description.FaultLostRequest, description.FaultLostReply} {
		t.Run(string(kind), func(t *testing.T) {
			r := newRig(t, shelf())
			r.fault(description.Fault{Kind: kind, Operation: description.OperationLogin})
			// Whatever happens to a login, nothing was attached.
			r.want("attach", says(r.attach("gpu-1", "host-a")), "busy")
			r.clock.Advance(time.Second)
			r.want("attach again", says(r.attach("gpu-1", "host-a")), "Done")
		})
	}
}

func TestUntrustedCertificate(t *testing.T) {
	_, other, err := service.SelfSigned([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, shelf(), func(o *redfish.Options) { o.CABundle = other })
	r.want("attach", says(r.attach("gpu-1", "host-a")), "busy")
	if got := r.service.Stats().Total; got != 0 {
		t.Errorf("%d requests reached a service that is not trusted", got)
	}
}

func TestSelfSignedCertificate(t *testing.T) {
	certificate, authority, err := service.SelfSigned([]string{"127.0.0.1", "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, shelf())
	server := httptest.NewUnstartedServer(r.service.Handler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	r.options.Endpoint, r.options.CABundle = server.URL, authority
	r.connect()
	r.want("attach", says(r.attach("gpu-1", "host-a")), "Done")
	r.fault(description.Fault{Kind: description.FaultLostReply})
	r.want("attach over HTTP/2", says(r.attach("gpu-2", "host-a")), "unknown outcome")
	r.want("gpu-2", r.at("gpu-2"), "host-a")
}

// TestRedirect does not take the session's token elsewhere.
func TestRedirect(t *testing.T) {
	r := newRig(t, shelf())
	stranger := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		t.Errorf("%s %s went to a stranger, with token %q", q.Method, q.URL, q.Header.Get("X-Auth-Token"))
	}))
	t.Cleanup(stranger.Close)
	r.intercepting(func(w http.ResponseWriter, q *http.Request) bool {
		elsewhere := strings.Contains(q.URL.Path, "/ResourceBlocks")
		if elsewhere {
			http.Redirect(w, q, stranger.URL, http.StatusTemporaryRedirect)
		}
		return elsewhere
	})
	r.want("attach", says(r.attach("gpu-1", "host-a")), "refused")
	if _, err := r.Inventory(t.Context()); err == nil {
		t.Error("the inventory was read from a redirect")
	}
}

func TestOptions(t *testing.T) {
	good := redfish.Options{Endpoint: "https://fabric.example", Username: "u", Password: "p"}
	for _, tc := range []struct {
		name   string
		change func(*redfish.Options)
		want   string
	}{
		{"good", func(*redfish.Options) {}, ""},
		{"slash", func(o *redfish.Options) { o.Endpoint += "/" }, ""},
		{"http", func(o *redfish.Options) { o.Endpoint = "http://fabric.example" }, "use https"},
		{"permitted http", func(o *redfish.Options) { o.Endpoint, o.InsecurePlainHTTP = "http://fabric.example", true }, ""},
		{"path", func(o *redfish.Options) { o.Endpoint += "/redfish/v1" }, "a host and a port only"},
		{"password in the URL", func(o *redfish.Options) { o.Endpoint = "https://u:hush@fabric.example" }, "a host and a port only"},
		{"no scheme", func(o *redfish.Options) { o.Endpoint = "fabric.example" }, "want a URL"},
		{"no password", func(o *redfish.Options) { o.Password = "" }, "password is empty"},
		{"CA bundle", func(o *redfish.Options) { o.CABundle = []byte("x") }, "CA bundle"},
		{"requests", func(o *redfish.Options) { o.Requests = -1 }, "negative"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			options := good
			tc.change(&options)
			_, err := redfish.New(options)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "hush") {
				t.Errorf("the password is in the error: %v", err)
			}
		})
	}
}

// TestSecretsAreInNoError asks a service that drops the connection.
func TestSecretsAreInNoError(t *testing.T) {
	r := newRig(t, shelf(), func(o *redfish.Options) { o.BasicAuth = true })
	r.intercepting(func(http.ResponseWriter, *http.Request) bool {
		panic(http.ErrAbortHandler)
	})
	_, err := r.attach("gpu-1", "host-a")
	for _, secret := range []string{"secret", base64.StdEncoding.EncodeToString([]byte("kerf:secret"))} {
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("got %v, want an error without %q", err, secret)
		}
	}
}
