// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

// serve answers a request that a hold may be for.
func (h *Holds) serve(w http.ResponseWriter, r *http.Request, a asked, next http.Handler) {
	expected, look := h.expects(a)
	if !expected {
		next.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		answerError(w, apierrors.NewBadRequest(fmt.Sprintf("read the body: %v", err)))
		return
	}
	var seen *Request
	if look {
		if seen, err = lookInto(next, r, a, body); err != nil {
			answerError(w, apierrors.NewInternalError(fmt.Errorf("hold: look into %s %s: %w", a.verb, a.resource, err)))
			return
		}
	}
	switch one := h.catch(a, body, seen); {
	case one == nil:
		next.ServeHTTP(w, withBody(r, body))
	case one.Refuse:
		answerError(w, apierrors.NewServiceUnavailable(fmt.Sprintf("%s %s is held back", a.verb, a.resource)))
	default:
		one.keep(w, r, body, next)
	}
}

// keep has a request wait.
func (one *Held) keep(w http.ResponseWriter, r *http.Request, body []byte, next http.Handler) {
	var answer *recorded
	if one.Done {
		answer = record(next, withBody(r, body))
	}
	switch how := one.in.wait(r.Context(), one); {
	case how == TimeOut:
		answerError(w, apierrors.NewTimeoutError(fmt.Sprintf("%s %s was held, and time is up", one.Verb, one.Resource), 0))
	case how == Twice:
		if answer == nil {
			record(next, withBody(r, body))
		}
		next.ServeHTTP(w, withBody(r, body))
	case answer != nil:
		answer.send(w)
	default:
		next.ServeHTTP(w, withBody(r, body))
	}
}

// withBody is the request with a body that nobody has read yet.
func withBody(r *http.Request, body []byte) *http.Request {
	again := r.Clone(r.Context())
	again.Body = io.NopCloser(bytes.NewReader(body))
	return again
}

// answerError answers as the API server does.
func answerError(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("Status"))
	text, marshalErr := json.Marshal(status)
	if marshalErr != nil {
		http.Error(w, marshalErr.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_, _ = w.Write(text) // The client may be gone.
}

// recorded is an answer that is not sent yet.
type recorded struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// record has a request carried out.
func record(next http.Handler, r *http.Request) *recorded {
	answer := &recorded{header: http.Header{}, code: http.StatusOK}
	next.ServeHTTP(answer, r)
	return answer
}

func (r *recorded) Header() http.Header { return r.header }

func (r *recorded) WriteHeader(code int) { r.code = code }

func (r *recorded) Write(p []byte) (int, error) { return r.body.Write(p) }

func (r *recorded) send(w http.ResponseWriter) {
	maps.Copy(w.Header(), r.header)
	w.WriteHeader(r.code)
	_, _ = w.Write(r.body.Bytes()) // The client may be gone.
}

// gated is the answer to a watch, whose events can be held.
type gated struct {
	http.ResponseWriter
	pass func() error
}

var _ responsewriter.UserProvidedDecorator = &gated{}

// gate returns the writer with all that the watch needs of it.
func (h *Holds) gate(ctx context.Context, w http.ResponseWriter, a asked) http.ResponseWriter {
	return responsewriter.WrapForHTTP1Or2(&gated{ResponseWriter: w, pass: func() error { return h.pass(ctx, a) }})
}

// Unwrap returns the writer below.
func (g *gated) Unwrap() http.ResponseWriter { return g.ResponseWriter }

// Write sends an event, or a part of one, when that is allowed.
func (g *gated) Write(p []byte) (int, error) {
	if err := g.pass(); err != nil {
		return 0, err
	}
	return g.ResponseWriter.Write(p)
}
