// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/sandbox/cluster"
)

const state = `
Pods:
- metadata: {name: web-10, namespace: default, uid: web-10}
  spec: {nodeName: node-1}
  status: {phase: Running}
- metadata: {name: web-2, namespace: default, uid: web-2}
  spec: {nodeName: node-2, resourceClaims: [{name: gpu, resourceClaimName: c}, {name: nic, resourceClaimName: d}]}
  status: {phase: Succeeded}
- metadata: {name: old, namespace: default, uid: old}
  spec: {nodeName: node-3}
  status:
    phase: Running
    extendedResourceClaimStatus:
      resourceClaimName: old-extended-resources-x7x9q
      requestMappings:
      - {containerName: main, resourceName: example.com/gpu, requestName: container-1-request-0}
      - {containerName: init, resourceName: example.com/gpu, requestName: container-1-request-0}
      - {containerName: main, resourceName: example.com/nic, requestName: container-1-request-1}
- metadata: {name: older, namespace: default, uid: older}
  spec: {nodeName: node-4, containers: [{name: main, resources: {requests: {example.com/gpu: 1}}}]}
  status: {phase: Running}
- metadata: {name: oldest, namespace: default, uid: oldest}
  spec: {nodeName: node-4}
  status: {phase: Running, extendedResourceClaimStatus: {resourceClaimName: gone}}
- metadata: {name: waits, namespace: default, uid: waits}
  status: {phase: Pending}
ResourceClaims:
- metadata: {name: c, namespace: default}
  status:
    allocation:
      devices:
        results:
        - {request: a, driver: gpu.example.com, pool: node-2, device: gpu-0, consumedCapacity: {memory: 4Gi}, shareID: s}
        - {request: b/big, driver: gpu.example.com, pool: node-2, device: gpu-1, adminAccess: true}
- metadata: {name: d, namespace: default}
- metadata: {name: old-extended-resources-x7x9q, namespace: default}
  status:
    allocation:
      devices:
        results:
        - {request: container-1-request-0, driver: gpu.example.com, pool: node-3, device: gpu-0}
        - {request: container-1-request-1, driver: nic.example.com, pool: node-3, device: nic-0}
        - {request: container-9-request-9, driver: nic.example.com, pool: node-3, device: nic-9}
- metadata:
    name: older-extended-resources-z2b4c
    generateName: older-extended-resources-
    namespace: default
    annotations: {resource.kubernetes.io/extended-resource-claim: "true"}
    ownerReferences: [{apiVersion: v1, kind: Pod, name: older, uid: older, controller: true}]
  status: {allocation: {devices: {results: [{request: container-0-request-0, driver: gpu.example.com, pool: node-4, device: gpu-0}]}}}
`

func example(t *testing.T) *Report {
	t.Helper()
	s := &cluster.State{}
	if err := yaml.NewYAMLOrJSONDecoder(strings.NewReader(state), 1024).Decode(s); err != nil {
		t.Fatal(err)
	}
	s = cluster.New(&s.Objects, s.Workloads)
	r := New(Input{
		State:         s,
		Pending:       []cluster.Pending{{Pod: s.Pod("default", "waits"), Reason: "Unschedulable", Message: "no room\non any node"}},
		Warnings:      map[types.UID][]string{"waits": {"DevicesUnavailable: 1 in use"}, "other": {"Other: thing"}},
		UnusablePools: []string{"pool d/p: 1 of 2 slices of generation 1 published"},
		Notes:         []string{"the shelf is not offered: no Fabric describes it"},
		Unfinished:    []cluster.Motion{{Object: "replicasets/r", What: "has 0 of 1 pods"}},
		Violations:    []alloc.Violation{{Object: "pool p", Field: "spec", Problem: "is taken twice"}},
	})
	r.Stats = &Stats{SecondsToReady: 3.14, SecondsToFirstPodBound: 3.5, SecondsTotal: 5, MaxResidentBytes: 400 << 20}
	return r
}

func TestTable(t *testing.T) {
	var text strings.Builder
	if err := example(t).Print(&text, "table"); err != nil {
		t.Fatal(err)
	}
	const want = `NAMESPACE  POD     STATUS     NODE    CLAIM                 REQUEST                         DEVICE
default    old     Running    node-3  (extended resources)  example.com/gpu for main, init  gpu.example.com/node-3/gpu-0
                                                            example.com/nic for main        nic.example.com/node-3/nic-0
                                                            container-9-request-9           nic.example.com/node-3/nic-9
default    older   Running    node-4  (extended resources)  example.com/gpu for main        gpu.example.com/node-4/gpu-0
default    oldest  Running    node-4  (extended resources)                                  (not allocated)
default    web-2   Succeeded  node-2  gpu                   a                               gpu.example.com/node-2/gpu-0 (memory=4Gi)
                                                            b/big                           gpu.example.com/node-2/gpu-1 (admin access)
                                      nic                                                   (not allocated)
default    web-10  Running    node-1

Pending:
  default/waits (Unschedulable):
    no room
    on any node
    DevicesUnavailable: 1 in use

Nothing can be allocated from:
  pool d/p: 1 of 2 slices of generation 1 published

Unfinished:
  replicasets/r: has 0 of 1 pods

Allocations that break a rule:
  pool p: spec: is taken twice

note: the shelf is not offered: no Fabric describes it
5 placed, 1 pending
ready after 3.1 s, first pod bound after 3.5 s, done after 5.0 s; at most 400 MiB of memory
`
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

// TestSchema holds the documented schema: scripts depend on it.
func TestSchema(t *testing.T) {
	var text strings.Builder
	if err := example(t).Print(&text, "yaml"); err != nil {
		t.Fatal(err)
	}
	const want = `apiVersion: kerf.dev/v1alpha1
kind: SandboxReport
notes:
- 'the shelf is not offered: no Fabric describes it'
pods:
- claims:
  - devices:
    - containers:
      - main
      - init
      device: gpu-0
      driver: gpu.example.com
      pool: node-3
      request: container-1-request-0
      resource: example.com/gpu
    - containers:
      - main
      device: nic-0
      driver: nic.example.com
      pool: node-3
      request: container-1-request-1
      resource: example.com/nic
    - device: nic-9
      driver: nic.example.com
      pool: node-3
      request: container-9-request-9
    name: ""
    resourceClaim: old-extended-resources-x7x9q
  name: old
  namespace: default
  node: node-3
  phase: Running
- claims:
  - devices:
    - containers:
      - main
      device: gpu-0
      driver: gpu.example.com
      pool: node-4
      request: container-0-request-0
      resource: example.com/gpu
    name: ""
    resourceClaim: older-extended-resources-z2b4c
  name: older
  namespace: default
  node: node-4
  phase: Running
- claims:
  - name: ""
    resourceClaim: ""
  name: oldest
  namespace: default
  node: node-4
  phase: Running
- name: waits
  namespace: default
  node: ""
  pending:
    message: |-
      no room
      on any node
    reason: Unschedulable
    warnings:
    - 'DevicesUnavailable: 1 in use'
  phase: Pending
- claims:
  - devices:
    - consumedCapacity:
        memory: 4Gi
      device: gpu-0
      driver: gpu.example.com
      pool: node-2
      request: a
      shareID: s
    - adminAccess: true
      device: gpu-1
      driver: gpu.example.com
      pool: node-2
      request: b/big
    name: gpu
    resourceClaim: c
  - name: nic
    resourceClaim: d
  name: web-2
  namespace: default
  node: node-2
  phase: Succeeded
- name: web-10
  namespace: default
  node: node-1
  phase: Running
stats:
  maxResidentBytes: 419430400
  secondsToFirstPodBound: 3.5
  secondsToReady: 3.14
  secondsTotal: 5
summary:
  pending: 1
  placed: 5
unfinished:
- object: replicasets/r
  what: has 0 of 1 pods
unusablePools:
- 'pool d/p: 1 of 2 slices of generation 1 published'
violations:
- field: spec
  object: pool p
  problem: is taken twice
`
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if err := example(t).Print(&text, "xml"); err == nil {
		t.Error("format xml is accepted")
	}
}

func TestComplete(t *testing.T) {
	for _, test := range []struct {
		report Report
		want   bool
	}{
		{Report{}, true},
		{Report{Summary: Summary{Placed: 1}}, true},
		{Report{Summary: Summary{Pending: 1}}, false},
		{Report{Unfinished: []Motion{{}}}, false},
	} {
		if got := test.report.Complete(); got != test.want {
			t.Errorf("%+v is complete: %t, want %t", test.report, got, test.want)
		}
	}
}

func TestNaturalCompare(t *testing.T) {
	want := []string{"", "a", "a-1", "a-02", "a-2", "a-10", "a-10-b", "b"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, naturalCompare)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}
