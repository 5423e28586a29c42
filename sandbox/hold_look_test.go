// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"kerf.dev/kerf/sandbox/rack"
)

// stored answers reads as an API server that has one pod, and accepts every write.
func stored(w http.ResponseWriter, r *http.Request) {
	info, _ := request.RequestInfoFrom(r.Context())
	switch {
	case r.Method != http.MethodGet:
	case info.Verb != "get" || info.Subresource != "" || strings.HasSuffix(r.URL.Path, "/status"):
		http.Error(w, "this is no read of a pod", http.StatusInternalServerError)
	case info.Name != "p":
		http.NotFound(w, r)
	default:
		_, _ = fmt.Fprint(w, `{"metadata":{"name":"p","resourceVersion":"7"},"spec":{"nodeName":"old"}}`)
	}
}

// send has the scheduler write something, and returns the code of the answer.
func send(t *testing.T, h *Holds, by, method, path, format, body string) int {
	t.Helper()
	r := httptest.NewRequest(method, "/api/v1/namespaces/default/"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", format)
	resolver := &request.RequestInfoFactory{APIPrefixes: sets.NewString("api"), GrouplessAPIPrefixes: sets.NewString("api")}
	info, err := resolver.NewRequestInfo(r)
	if err != nil {
		t.Fatal(err)
	}
	ctx := request.WithUser(request.WithRequestInfo(t.Context(), info), &user.DefaultInfo{Name: by})
	answer := httptest.NewRecorder()
	h.filter(http.HandlerFunc(stored)).ServeHTTP(answer, r.WithContext(ctx))
	return answer.Code
}

func protobuf(t *testing.T, o runtime.Object) string {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(legacyscheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok {
		t.Fatal("no protobuf")
	}
	var text bytes.Buffer
	if err := legacyscheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion).Encode(o, &text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// TestHoldLooks shows a hold what a request is about to change, in each form that it has.
func TestHoldLooks(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", ResourceVersion: "7"}, Spec: corev1.PodSpec{NodeName: "new"}}
	const json, patch = runtime.ContentTypeJSON, "application/strategic-merge-patch+json"
	for _, tc := range []struct {
		name, method, path, format, body string
		verb, resource, want             string // "NAME: OLD to NEW", empty if nothing is seen
		code                             int
	}{
		{"update", http.MethodPut, "pods/p", json, `{"metadata":{"resourceVersion":"7"},"spec":{"nodeName":"new"}}`, "update", "pods", "p: old to new", 0},
		{"protobuf", http.MethodPut, "pods/p", runtime.ContentTypeProtobuf, protobuf(t, pod), "update", "pods", "p: old to new", 0},
		{"status", http.MethodPut, "pods/p/status", json, `{"spec":{"nodeName":"new"}}`, "update", "pods/status", "p: old to new", 0},
		{"patch", http.MethodPatch, "pods/p/status", patch, `{"spec":{"nodeName":"new"}}`, "patch", "pods/status", "p: old to new", 0},
		{"create", http.MethodPost, "pods", json, `{"metadata":{"name":"q"},"spec":{"nodeName":"new"}}`, "create", "pods", "q:  to new", 0},
		{"delete", http.MethodDelete, "pods/p", json, `{"preconditions":{}}`, "delete", "pods", "p: old to ", 0},
		{"delete what is gone", http.MethodDelete, "pods/q", json, "", "delete", "pods", "q:  to ", 0},
		{"out of date", http.MethodPut, "pods/p", json, `{"metadata":{"resourceVersion":"6"}}`, "update", "pods", "", http.StatusOK},
		{"unreadable", http.MethodPut, "pods/p", json, `{`, "update", "pods", "", http.StatusInternalServerError},
		{"unknown", http.MethodPatch, "pods/p", "application/json-patch+json", `[]`, "patch", "pods", "", http.StatusInternalServerError},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, got, matches := &Holds{}, "", true
			held, err := h.Add(Hold{Part: "scheduler", Verb: tc.verb, Resource: tc.resource, Refuse: true, Matches: func(r *Request) bool {
				old, _, _ := unstructured.NestedString(r.Old.Object, "spec", "nodeName")
				now, _, _ := unstructured.NestedString(r.Object.Object, "spec", "nodeName")
				got = fmt.Sprintf("%s: %s to %s", r.Name, old, now)
				if r.Verb != tc.verb || r.Resource != tc.resource || r.Namespace != "default" {
					t.Errorf("seen: %+v", r)
				}
				return matches
			}})
			if err != nil {
				t.Fatal(err)
			}
			if tc.code == 0 {
				tc.code = http.StatusServiceUnavailable
			}
			for range 2 { // Each that comes is refused.
				if code := send(t, h, schedulerUser, tc.method, tc.path, tc.format, tc.body); code != tc.code || got != tc.want {
					t.Errorf("code %d, seen %q; want %d, %q", code, got, tc.code, tc.want)
				}
			}
			if held.Reached() != (tc.want != "") {
				t.Errorf("reached: %t", held.Reached())
			}
			matches = false
			if code := send(t, h, schedulerUser, tc.method, tc.path, tc.format, tc.body); tc.want != "" && code != http.StatusOK {
				t.Errorf("code %d of what does not match", code)
			}
			matches = true
			if code := send(t, h, rack.ControllerUser, tc.method, tc.path, tc.format, tc.body); code != http.StatusOK {
				t.Errorf("code %d of another part", code)
			}
			h.abandon("scheduler")
			if code := send(t, h, schedulerUser, tc.method, tc.path, tc.format, tc.body); code != tc.code {
				t.Errorf("code %d after the part was killed, want %d", code, tc.code)
			}
			held.Release(GoOn)
			held.Release(GoOn)
			if code := send(t, h, schedulerUser, tc.method, tc.path, tc.format, tc.body); code != http.StatusOK {
				t.Errorf("code %d after the release", code)
			}
		})
	}
}
