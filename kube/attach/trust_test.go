// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
	"kerf.dev/kerf/fabric/redfish/description"
)

// stranger is a host of somebody who wants the password. It counts what it is sent.
func (r *rig) stranger() (endpoint string, authority []byte, sent *atomic.Int32) {
	r.t.Helper()
	sent = &atomic.Int32{}
	named := r.secret.Annotations[v1alpha1.SecretEndpoint]
	endpoint, authority = r.listen(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		sent.Add(1)
		w.WriteHeader(http.StatusInternalServerError)
	}))
	r.own(func(s *corev1.Secret) { s.Annotations[v1alpha1.SecretEndpoint] = named })
	return endpoint, authority, sent
}

// wantRefused has the rig's Fabric be refused with a message of these parts.
func (r *rig) wantRefused(err error, parts ...string) {
	r.t.Helper()
	c := r.ready(r.fabric.Name)
	if err == nil || c.Status != metav1.ConditionFalse || c.Reason != "Invalid" {
		r.t.Errorf("error %v, condition %+v, want that the Fabric is refused", err, c)
	}
	for _, part := range parts {
		if !strings.Contains(c.Message, part) {
			r.t.Errorf("the message is %q, want %q in it", c.Message, part)
		}
	}
}

// TestSecretIsNotForEverybody has a Fabric name a Secret that was not meant for its
// endpoint.
func TestSecretIsNotForEverybody(t *testing.T) {
	for name, change := range map[string]func(s *corev1.Secret, redfish *v1alpha1.Redfish){
		"no annotation": func(s *corev1.Secret, _ *v1alpha1.Redfish) { s.Annotations = nil },
		"another host": func(s *corev1.Secret, _ *v1alpha1.Redfish) {
			s.Annotations[v1alpha1.SecretEndpoint] = "https://fabric.example.com"
		},
		"another port": func(s *corev1.Secret, _ *v1alpha1.Redfish) {
			s.Annotations[v1alpha1.SecretEndpoint] = "https://127.0.0.1"
		},
		"another scheme": func(s *corev1.Secret, r *v1alpha1.Redfish) {
			s.Annotations[v1alpha1.SecretEndpoint] = strings.Replace(r.Endpoint, "https", "http", 1)
		},
		"only a part": func(s *corev1.Secret, r *v1alpha1.Redfish) {
			s.Annotations[v1alpha1.SecretEndpoint] = strings.TrimSuffix(r.Endpoint, r.Endpoint[len(r.Endpoint)-1:])
		},
		"no URL": func(s *corev1.Secret, _ *v1alpha1.Redfish) {
			s.Annotations[v1alpha1.SecretEndpoint] = "* :// https:// %"
		},
		"no certificate": func(s *corev1.Secret, r *v1alpha1.Redfish) {
			s.Annotations[v1alpha1.SecretEndpoint] = r.Endpoint
			r.CABundle, r.InsecureSkipVerify = nil, true
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := stillRig(t)
			r.get(r.fabric)
			var sent *atomic.Int32
			redfish := &r.fabric.Spec.Redfish
			redfish.Endpoint, redfish.CABundle, sent = r.stranger()
			r.own(func(s *corev1.Secret) { change(s, redfish) })
			r.must(r.client.Update(t.Context(), r.fabric))
			r.fabrics = r.newFabrics()
			_, err := r.fabrics.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: r.fabric.Name}})
			r.wantRefused(err, "secret kerf-system/fabric-credentials", "spec.redfish.", "fabric.kerf.dev/", "who owns the Secret")
			if len(r.fabrics.loops) > 0 || sent.Load() > 0 {
				t.Errorf("%d loops, %d requests to the stranger, want none", len(r.fabrics.loops), sent.Load())
			}
		})
	}
}

// TestSecretsEndpoint compares scheme, host and port, and nothing of a URL that has more.
func TestSecretsEndpoint(t *testing.T) {
	const fabric = "https://fabric.example.com:8443"
	for other, want := range map[string]bool{
		fabric: true, fabric + "/": true, "HTTPS://Fabric.Example.Com:8443": true, "http://fabric.example.com:8443": false,
		"https://fabric.example.com": false, "https://fabric.example.com:84430": false, "https://fabric.example.com:8443@evil.example": false,
		"https://evil.example/fabric.example.com:8443": false, fabric + "/x": false, fabric + "?x": false, fabric + ".evil.example": false, "": false,
	} {
		if got := sameEndpoint(fabric, other); got != want {
			t.Errorf("%q is the same endpoint: %t, want %t", other, got, want)
		}
	}
	if !sameEndpoint("https://fabric.example.com", "https://fabric.example.com:443") || sameEndpoint("", "") {
		t.Error("the port of https is 443, and nothing is no endpoint")
	}
}

// TestEndpointIsStolen has somebody who may edit Fabrics point one that works to his own
// host, and have it trust his certificate. What works goes on.
func TestEndpointIsStolen(t *testing.T) {
	r := newRig(t)
	endpoint, authority, sent := r.stranger()
	r.wantRefused(r.moveTo(endpoint, authority), "may not be sent to spec.redfish.endpoint "+endpoint, "fabric.kerf.dev/endpoint")
	r.claim("train", "gpu-1", "node-a")
	r.eventually("the device is at the host", func() bool { return len(r.service.Sees("host-a")) == 1 })
	if sent.Load() > 0 {
		t.Errorf("the stranger was sent %d requests", sent.Load())
	}
}

// TestSecretIsRevoked ends what uses a Secret that may not be sent there any more,
// whatever the Fabric says by then, and goes on when it may.
func TestSecretIsRevoked(t *testing.T) {
	for name, endpoint := range map[string]string{"the Fabric as it was": "", "the Fabric elsewhere": "https://fabric.example.com"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			was := r.fabric.Spec.Redfish
			named := r.secret.Annotations[v1alpha1.SecretEndpoint]
			r.own(func(s *corev1.Secret) { s.Annotations = map[string]string{} })
			if endpoint == "" {
				endpoint = was.Endpoint
			}
			r.wantRefused(r.moveTo(endpoint, was.CABundle), "fabric.kerf.dev/endpoint")
			if len(r.fabrics.loops) > 0 || r.service.Sessions() > 0 {
				t.Errorf("%d loops, %d sessions, want none", len(r.fabrics.loops), r.service.Sessions())
			}
			r.own(func(s *corev1.Secret) { s.Annotations[v1alpha1.SecretEndpoint] = named })
			r.must(r.moveTo(was.Endpoint, was.CABundle))
			r.eventually("it is ready again", func() bool { return r.ready("shelf").Reason == "Published" })
		})
	}
}

// TestSecretNamesItsAuthority has the Secret say whose certificate counts, not the
// Fabric.
func TestSecretNamesItsAuthority(t *testing.T) {
	r := stillRig(t)
	endpoint, authority, sent := r.stranger()
	r.own(func(s *corev1.Secret) { s.Data["ca.crt"] = r.fabric.Spec.Redfish.CABundle })
	r.run()
	r.eventually("the Fabric is ready", func() bool { return r.ready("shelf").Reason == "Published" })
	// The stranger answers where the service is meant to be.
	r.permit(endpoint)
	r.must(r.moveTo(endpoint, authority))
	f := r.fabric.DeepCopy()
	r.eventually("the stranger is not believed", func() bool {
		r.get(f)
		c := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.FabricReachable)
		return c != nil && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, "certificate")
	})
	if sent.Load() > 0 {
		t.Errorf("the stranger was sent %d requests", sent.Load())
	}
}

// said has all that a controller says, wherever it does.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *said) add(all ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintln(&s.text, all...)
}

// TestSecretsAreSaidNowhere has a service put password and token into all of its
// answers. They are in no log, error, condition or event.
func TestSecretsAreSaidNowhere(t *testing.T) {
	const password, token = "hush-hush", "tok-tok"
	for _, stage := range []string{"Sessions", "ResourceBlocks", "Actions"} {
		t.Run(stage, func(t *testing.T) {
			r := stillRig(t)
			r.get(r.fabric)
			r.fabric.Spec.Redfish.Endpoint, r.fabric.Spec.Redfish.CABundle = r.listen(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				switch {
				case strings.Contains(q.URL.Path, stage):
					w.WriteHeader(http.StatusBadRequest)
					_, _ = fmt.Fprintf(w, `{"error":{"message":%q}}`, "you said "+q.Header.Get("X-Auth-Token")+" and "+password)
				case strings.HasSuffix(q.URL.Path, "/Sessions"):
					w.Header().Set("X-Auth-Token", token)
					w.Header().Set("Location", "/session")
					w.WriteHeader(http.StatusCreated)
				default:
					q.Header.Del("X-Auth-Token")
					q.SetBasicAuth("kerf", "secret")
					r.service.Handler().ServeHTTP(w, q)
				}
			}))
			r.own(func(s *corev1.Secret) { s.Data["password"] = []byte(password) })
			r.must(r.client.Update(t.Context(), r.fabric))
			all := &said{}
			r.fabrics = r.newFabrics()
			r.fabrics.log = funcr.New(func(prefix, args string) { all.add(prefix, args) }, funcr.Options{Verbosity: 10})
			r.reconcile()
			claim := r.claim("train", "gpu-1", "node-a")
			r.eventually("the words of the service are told", func() bool {
				text := r.told(all, claim)
				return strings.Contains(text, "you said [hidden] and [hidden]") || stage == "Sessions" && strings.Contains(text, "and [hidden]")
			})
			r.stop(r.fabrics)
			for _, secret := range []string{password, token} {
				if text := r.told(all, claim); strings.Contains(text, secret) {
					t.Errorf("%q is told:\n%s", secret, text)
				}
			}
		})
	}
}

// told is all that a controller has logged and written.
func (r *rig) told(all *said, claim *resourceapi.ResourceClaim) string {
	r.t.Helper()
	r.get(claim)
	f := r.fabric.DeepCopy()
	r.get(f)
	objects, err := json.Marshal([]any{f.Status, r.attachments(), claim.Status})
	r.must(err)
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.text.String() + strings.Join(r.events.all(), "\n") + string(objects)
}

// TestLimitIsReported has a service answer without end.
func TestLimitIsReported(t *testing.T) {
	r := stillRig(t)
	r.get(r.fabric)
	r.fabric.Spec.Redfish.Endpoint, r.fabric.Spec.Redfish.CABundle = r.listen(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if !strings.HasSuffix(q.URL.Path, "/ResourceBlocks") {
			r.service.Handler().ServeHTTP(w, q)
			return
		}
		var err error
		for many := []byte(strings.Repeat(" ", 1<<20)); err == nil; {
			_, err = w.Write(many)
		}
	}))
	r.must(r.client.Update(t.Context(), r.fabric))
	r.run()
	f := r.fabric.DeepCopy()
	r.eventually("the limit is a condition", func() bool {
		r.get(f)
		c := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.FabricReachable)
		return c != nil && c.Status == metav1.ConditionFalse && c.Reason == "LimitExceeded" && strings.Contains(c.Message, "an answer has more than 16777216 bytes")
	})
}

// hanging is a manager that answers nothing, until the client has gone.
type hanging struct {
	asked chan struct{} // closed when it was asked
	gone  atomic.Int32  // requests that have ended
}

func (r *rig) hanging() (h *hanging, endpoint string, authority []byte) {
	r.t.Helper()
	h = &hanging{asked: make(chan struct{})}
	first := sync.OnceFunc(func() { close(h.asked) })
	endpoint, authority = r.listen(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		first()
		<-q.Context().Done()
		h.gone.Add(1)
	}))
	return h, endpoint, authority
}

// TestManagerHangs has devices of one Fabric be attached while the managers of others
// hang: of one that is read, and of one that is asked whether it is the manager that
// has attached devices.
func TestManagerHangs(t *testing.T) {
	r := stillRig(t)
	read, endpoint, authority := r.hanging()
	r.another("read", endpoint, authority)
	asked, endpoint, authority := r.hanging()
	moved := r.another("moved", endpoint, authority)
	moved.Status.Service = &v1alpha1.ServiceReference{Endpoint: "https://fabric.example.com", UUID: "u"}
	r.must(r.client.Status().Update(t.Context(), moved))
	r.must(r.client.Create(t.Context(), &v1alpha1.DeviceAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "left"}, Spec: v1alpha1.DeviceAttachmentSpec{Fabric: "moved", Device: "/gpu", Node: "node-b", Machine: "/host-b"},
	}))

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- r.manage(ctx, prometheus.NewRegistry(), Options{Tune: func(p *fabric.Policy) {
			p.PollInterval, p.InventoryInterval = 5*time.Millisecond, 20*time.Millisecond
		}})
	}()
	for _, h := range []*hanging{read, asked} {
		select {
		case <-h.asked:
		case <-time.After(patience):
			t.Fatal("the manager is not asked")
		}
	}
	r.service, endpoint, authority = r.serve(description.Config{
		Hosts: []description.Host{{ID: "host-a"}}, Blocks: []description.Block{{ID: "gpu", Count: 2, Model: "A100"}}, Tasks: true,
	})
	r.fabric = r.another("late", endpoint, authority)
	r.eventually("the other Fabric is ready", func() bool { return r.ready("late").Reason == "Published" })
	claim := r.claim("train", "gpu-1", "node-a")
	r.eventually("its device arrives", func() bool {
		r.get(claim)
		r.drive("node-a", "host-a")
		return attached(claim)
	})
	if read.gone.Load() > 0 || asked.gone.Load() > 0 {
		t.Error("a manager was given up before the device arrived")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the manager ends with %v", err)
	}
}
