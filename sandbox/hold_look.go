// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"cmp"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// Request is a write that a part asks for, as a Hold looks at it.
type Request struct {
	// Verb and Resource are as RBAC has them: update, resourceclaims/status.
	Verb, Resource, Namespace, Name string
	// Object is what the request carries: the object as it is to be, or a merge patch. Old
	// is the object as it is. Without one they are empty, and not nil.
	Object, Old *unstructured.Unstructured
}

// lookInto decodes a request and asks the API server for the object that it is about. It
// returns nil for a write on top of a version that is not there any more: it changes
// nothing.
func lookInto(next http.Handler, r *http.Request, a asked, body []byte) (*Request, error) {
	info, _ := request.RequestInfoFrom(r.Context())
	seen := &Request{Verb: a.verb, Resource: a.resource, Namespace: info.Namespace}
	var err error
	if seen.Object, err = carried(r, a.verb, body); err != nil {
		return nil, err
	}
	seen.Name = cmp.Or(info.Name, seen.Object.GetName())
	if seen.Old, err = current(next, r, info); err != nil {
		return nil, err
	}
	if on := seen.Object.GetResourceVersion(); on != "" && on != seen.Old.GetResourceVersion() {
		return nil, nil
	}
	return seen, nil
}

// carried decodes the object in the body of a request.
func carried(r *http.Request, verb string, body []byte) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	format, _, err := mime.ParseMediaType(cmp.Or(r.Header.Get("Content-Type"), runtime.ContentTypeJSON))
	switch {
	case verb == "delete" || verb == "deletecollection":
		return o, nil
	case err != nil:
		return nil, fmt.Errorf("Content-Type: %w", err)
	case format == runtime.ContentTypeProtobuf:
		typed, _, err := legacyscheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil {
			return nil, err
		}
		o.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
		return o, err
	case format == runtime.ContentTypeJSON || strings.HasSuffix(format, "merge-patch+json"):
		return o, json.Unmarshal(body, &o.Object)
	default:
		return nil, fmt.Errorf("Content-Type %s is not known to a hold", format)
	}
}

// current reads the object that a request is about, as the one who asks.
func current(next http.Handler, r *http.Request, info *request.RequestInfo) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	if info.Name == "" {
		return o, nil
	}
	read := *info
	read.Verb, read.Subresource = "get", ""
	get := r.Clone(request.WithRequestInfo(r.Context(), &read))
	get.Method, get.Body, get.ContentLength = http.MethodGet, http.NoBody, 0
	get.URL = &url.URL{Path: strings.TrimSuffix(r.URL.Path, "/"+info.Subresource)}
	get.Header = http.Header{"Accept": {runtime.ContentTypeJSON}}
	switch answer := record(next, get); answer.code {
	case http.StatusOK:
		return o, json.Unmarshal(answer.body.Bytes(), &o.Object)
	case http.StatusNotFound:
		return o, nil
	default:
		return nil, fmt.Errorf("read what is there: %d %s", answer.code, answer.body.String())
	}
}
