// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kerf.dev/kerf/sandbox/cluster"
	"kerf.dev/kerf/sandbox/rack"
)

// testStored expects the same objects from etcd as from the API server, of every kind.
func testStored(t *testing.T, s *Sandbox) {
	apply(t, s, `
apiVersion: resource.k8s.io/v1
kind: DeviceTaintRule
metadata: {name: stored}
spec:
  deviceSelector: {driver: stored.example.com}
  taint: {key: example.com/worn, effect: None}
`)
	settle(t, s)
	compared := 0
	for _, kind := range append([]cluster.Kind{{Resource: rack.AttachmentResource}}, cluster.Kinds...) {
		stored, err := s.store.read(t.Context(), kind.Resource)
		if err != nil {
			t.Fatal(err)
		}
		listed, err := s.Dynamic().Resource(kind.Resource).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := len(stored[0]), len(listed.Items); got != want || want == 0 {
			t.Errorf("%d %s are stored, %d are listed; want as many, and some", got, kind.Resource.Resource, want)
			continue
		}
		for i, got := range stored[0] {
			if diff := cmp.Diff(like(t, got, &listed.Items[i]), got); diff != "" {
				t.Errorf("%s (-listed +stored):\n%s", kind.Resource.Resource, diff)
			}
			compared++
		}
	}
	t.Logf("%d objects", compared)
}

// like is a listed object in the type of a stored one.
func like(t *testing.T, stored runtime.Object, listed *unstructured.Unstructured) any {
	t.Helper()
	if _, ok := stored.(*unstructured.Unstructured); ok {
		return listed
	}
	typed := reflect.New(reflect.TypeOf(stored).Elem()).Interface()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(listed.Object, typed); err != nil {
		t.Fatal(err)
	}
	if object, ok := typed.(runtime.Object); ok {
		object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	return typed
}
