// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kerf.dev/kerf/kube/manifest"
)

// testApply applies what came out of another cluster, a custom resource with
// its definition, and an object that exists.
func testApply(t *testing.T, s *Sandbox) {
	apply(t, s, `
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata:
  name: dumped
  uid: 11111111-1111-1111-1111-111111111111
  resourceVersion: "12"
  ownerReferences:
  - {apiVersion: v1, kind: Node, name: node-1, uid: 22222222-2222-2222-2222-222222222222, controller: true}
  - {apiVersion: v1, kind: Node, name: gone, uid: 33333333-3333-3333-3333-333333333333}
spec:
  driver: dumped.example.com
  nodeName: node-1
  pool: {name: node-1, generation: 1, resourceSliceCount: 1}
  devices: [{name: dev-0}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: dumped}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: none}}]}}
status:
  allocation: {devices: {results: [{request: r, driver: dumped.example.com, pool: node-1, device: dev-0}]}}
---
apiVersion: example.com/v1
kind: Fabric
metadata: {name: one}
spec: {shelves: 2}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: fabrics.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {kind: Fabric, plural: fabrics}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {shelves: {type: integer}}}}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: default, labels: {merged: "yes"}}
`)
	settle(t, s)
	slice, err := s.Client().ResourceV1().ResourceSlices().Get(t.Context(), "dumped", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node, err := s.Client().CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if owners := slice.OwnerReferences; len(owners) != 1 || owners[0].UID != node.UID {
		t.Errorf("owners of the slice = %v, want node-1 with UID %s", owners, node.UID)
	}
	claim, err := s.Client().ResourceV1().ResourceClaims("default").Get(t.Context(), "dumped", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if claim.Status.Allocation == nil {
		t.Error("the claim has lost its allocation")
	}
	fabrics := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "fabrics"}
	if _, err := s.Dynamic().Resource(fabrics).Get(t.Context(), "one", metav1.GetOptions{}); err != nil {
		t.Errorf("custom resource: %v", err)
	}
	namespace, err := s.Client().CoreV1().Namespaces().Get(t.Context(), "default", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if namespace.Labels["merged"] != "yes" {
		t.Errorf("labels of namespace default = %v, want the manifest's among them", namespace.Labels)
	}
	if violations := Verify(settle(t, s).State); len(violations) != 0 {
		t.Errorf("violations: %v", violations)
	}
}

// testRefusal expects the server's words on the object that it refuses, and the
// others to be created.
func testRefusal(t *testing.T, s *Sandbox) {
	set, err := manifest.Parse("f", strings.NewReader(`apiVersion: example.com/v1
kind: Fabric
metadata: {name: two}
spec: {shelves: many}
---
apiVersion: example.com/v1
kind: Fabric
metadata: {name: three}
spec: {shelvez: 2}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: created}
---
apiVersion: v1
kind: Unknown
metadata: {name: a}
`))
	if err != nil {
		t.Fatal(err)
	}
	var mistakes manifest.Errors
	if err := s.Apply(t.Context(), set); !errors.As(err, &mistakes) || len(mistakes) != 3 {
		t.Fatalf("error %T: %v, want three mistakes", err, err)
	}
	for i, want := range []string{
		`f:4: document 1: Fabric two: spec.shelves: Invalid value: "string"`,
		`f:6: document 2: Fabric three: refused by the API server: Fabric in version "v1" cannot be handled as a Fabric: strict decoding error: unknown field "spec.shelvez"`,
		`f:15: document 4: Unknown a: apiVersion: the API server has no Unknown in v1`,
	} {
		if got := mistakes[i].Error(); !strings.HasPrefix(got, want) {
			t.Errorf("mistake %d = %s\nwant %s", i, got, want)
		}
	}
	if _, err := s.Client().CoreV1().ConfigMaps("default").Get(t.Context(), "created", metav1.GetOptions{}); err != nil {
		t.Errorf("object beside the refused ones: %v", err)
	}
}
