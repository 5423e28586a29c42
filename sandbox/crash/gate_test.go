// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"kerf.dev/kerf/fabric/redfish/service"
	"kerf.dev/kerf/sandbox"
)

// gate is an admission webhook that keeps chosen writes from the API server. So a
// part stands still at a point of its work, exactly, for as long as the test wants:
// what it wrote before is there, and the next write is not.
type gate struct {
	server *http.Server

	mu    sync.Mutex
	holds map[*hold]bool
}

// hold is a write that is kept back.
type hold struct {
	matches func(*write) bool
	// wait has who writes wait, as for a slow server. Others are refused, and try
	// again.
	wait bool
	// reached is closed when somebody tries to write it, open when it is let through.
	reached, open chan struct{}
	once          sync.Once
	// refused says that who waits is refused in the end. It is set before open is
	// closed.
	refused bool
	// waiting are those who wait now.
	waiting int
}

// write is a request that changes something.
type write struct {
	user, operation, resource, name string
	object, old                     *unstructured.Unstructured
}

const (
	byController = "system:serviceaccount:kerf-system:kerf-controller"
	byScheduler  = "system:kube-scheduler"
	// waitLimit is less than the API server waits for the webhook.
	waitLimit = 29
)

// newGate starts the webhook. Everything passes until something is held.
func newGate(ctx context.Context, s *sandbox.Sandbox) (*gate, error) {
	certificate, authority, err := service.SelfSigned([]string{"127.0.0.1"})
	if err != nil {
		return nil, err
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}})
	if err != nil {
		return nil, err
	}
	g := &gate{holds: map[*hold]bool{}}
	g.server = &http.Server{
		Handler: g, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	go func() { _ = g.server.Serve(listener) }() // It ends with close.
	url := "https://" + listener.Addr().String()
	client := s.Client().AdmissionregistrationV1().ValidatingWebhookConfigurations()
	_, err = client.Create(ctx, webhook(url, authority), metav1.CreateOptions{})
	return g, err
}

// webhook is asked about what scheduler and controller write.
func webhook(url string, authority []byte) *admissionregistrationv1.ValidatingWebhookConfiguration {
	rule := func(group string, resources ...string) admissionregistrationv1.RuleWithOperations {
		return admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update, admissionregistrationv1.Delete},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: resources},
		}
	}
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "gate.example.com"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:         "gate.example.com",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: authority},
			Rules: []admissionregistrationv1.RuleWithOperations{
				rule("fabric.kerf.dev", "deviceattachments", "deviceattachments/status"),
				rule("resource.k8s.io", "resourceclaims/status", "devicetaintrules", "devicetaintrules/status"),
				rule("", "pods/binding"),
			},
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds:          ptr.To(int32(waitLimit + 1)),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
}

func (g *gate) close() error { return g.server.Close() }

// hold keeps back what matches, from now on.
func (g *gate) hold(matches func(*write) bool, wait bool) *hold {
	h := &hold{matches: matches, wait: wait, reached: make(chan struct{}), open: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holds[h] = true
	return h
}

// release lets the write through, or refuses a last time. It may be called again.
func (g *gate) release(h *hold, refuse bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.holds[h] {
		delete(g.holds, h)
		h.refused = refuse
		close(h.open)
	}
}

func (g *gate) count(h *hold, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h.waiting += n
}

// waits tells whether somebody waits now.
func (g *gate) waits(h *hold) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return h.waiting > 0
}

func (g *gate) find(w *write) *hold {
	g.mu.Lock()
	defer g.mu.Unlock()
	for h := range g.holds {
		if h.matches(w) {
			return h
		}
	}
	return nil
}

// ServeHTTP answers the API server.
func (g *gate) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(request.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(response, fmt.Sprint("not an AdmissionReview: ", err), http.StatusBadRequest)
		return
	}
	w, err := writeOf(review.Request)
	if err != nil {
		http.Error(response, err.Error(), http.StatusBadRequest)
		return
	}
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: g.admit(request.Context(), w)}
	if !review.Response.Allowed {
		review.Response.Result = &metav1.Status{Message: "held back by the test", Code: http.StatusServiceUnavailable}
	}
	review.Request = nil
	// An error here is the API server's, which is gone.
	_ = json.NewEncoder(response).Encode(&review)
}

func (g *gate) admit(ctx context.Context, w *write) bool {
	h := g.find(w)
	if h == nil {
		return true
	}
	h.once.Do(func() { close(h.reached) })
	if !h.wait {
		return false
	}
	g.count(h, 1)
	defer g.count(h, -1)
	select {
	case <-h.open:
		return !h.refused
	case <-ctx.Done():
	case <-time.After(waitLimit * time.Second):
	}
	return false
}

func writeOf(r *admissionv1.AdmissionRequest) (*write, error) {
	w := &write{user: r.UserInfo.Username, operation: string(r.Operation), resource: r.Resource.Resource, name: r.Name}
	if r.SubResource != "" {
		w.resource += "/" + r.SubResource
	}
	for raw, to := range map[*[]byte]**unstructured.Unstructured{&r.Object.Raw: &w.object, &r.OldObject.Raw: &w.old} {
		*to = &unstructured.Unstructured{Object: map[string]any{}}
		if len(*raw) == 0 {
			continue
		}
		if err := json.Unmarshal(*raw, &(*to).Object); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// text is a field of the object as it is to be, or as it was where that is nothing.
func (w *write) text(path ...string) string {
	for _, o := range []*unstructured.Unstructured{w.object, w.old} {
		if value, _, _ := unstructured.NestedString(o.Object, path...); value != "" {
			return value
		}
	}
	return ""
}
