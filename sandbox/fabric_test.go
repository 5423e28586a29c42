// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/kube/manifest"
)

// withFabric is a node, a shelf of two devices, and a pod that wants one of them.
const withFabric = `
hosts:
- id: host-a
  hostName: fabric-node
blocks:
- {id: gpu, count: 2, manufacturer: Acme, model: A100, memoryMiB: 40960}
latency: {attach: 200ms}
---
apiVersion: v1
kind: Node
metadata: {name: fabric-node}
---
apiVersion: fabric.kerf.dev/v1alpha1
kind: Fabric
metadata: {name: shelf}
spec:
  redfish: {endpoint: https://fabric.example.com}
  models:
  - name: a100
    match: {model: A100}
    driver: gpu.example.com
    attributes: {productName: {string: A100}}
    capacity: {memory: 40Gi}
  machines: {label: {key: kubernetes.io/hostname, property: HostName}}
  handOver: Reschedule
  guards: []
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: fabric-gpu}
spec: {selectors: [{cel: {expression: device.driver == "gpu.example.com"}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: on-demand}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: fabric-gpu}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: on-demand}
spec:
  resourceClaims: [{name: gpu, resourceClaimName: on-demand}]
  containers: [{name: main, image: pause, resources: {claims: [{name: gpu}]}}]
`

// testFabric attaches a device on demand, with each part killed once.
func testFabric(t *testing.T, s *Sandbox) {
	set, err := manifest.Parse("fabric", strings.NewReader(withFabric))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	settle(t, s)
	pod, err := s.Client().CoreV1().Pods("default").Get(t.Context(), "on-demand", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if pod.Status.Phase != corev1.PodRunning {
		t.Fatalf("pod is %s: %v", pod.Status.Phase, pod.Status.Conditions)
	}
	if sees, err := s.Rack().Sees("host-a"); err != nil || len(sees) != 1 {
		t.Errorf("the host sees %v, %v, want one device", sees, err)
	}
	for _, restart := range []func() error{
		func() error { return s.Rack().Start(t.Context()) },
		func() error { return s.Parts().Kill("controller", "") },
		func() error { return s.Parts().Start(t.Context(), "controller", "") },
		func() error { return s.Parts().Kill("redfish", "") },
		func() error { return s.Parts().Start(t.Context(), "redfish", "") },
		func() error { return s.Parts().Cut("controller") },
		func() error { return s.Parts().Reconnect("controller") },
		func() error { return s.Parts().Kill("driver", "fabric-node") },
		func() error { return s.Parts().Start(t.Context(), "driver", "fabric-node") },
	} {
		if err := restart(); err != nil {
			t.Fatal(err)
		}
	}
	settle(t, s)
	fabrics, err := s.Rack().Fabrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(fabrics.Attachments) != 1 || fabrics.Attachments[0].Status.Phase != "Settled" {
		t.Errorf("attachments: %+v", fabrics.Attachments)
	}
	if err := s.Rack().Stop(); err != nil {
		t.Error(err)
	}
}
