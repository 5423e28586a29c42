// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/kube/manifest"
	"kerf.dev/kerf/sandbox/cluster"
)

// apply parses and applies manifests.
func apply(t *testing.T, s *Sandbox, text string) {
	t.Helper()
	set, err := manifest.Parse(t.Name(), strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), set); err != nil {
		t.Fatal(err)
	}
}

// deleteNamespace deletes a namespace and expects its pods to go with it.
func deleteNamespace(t *testing.T, s *Sandbox, name string) {
	t.Helper()
	if err := s.Client().CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	settlement := settle(t, s)
	for _, pod := range settlement.State.Pods {
		if pod.Namespace == name {
			t.Errorf("pod %s is left in deleted namespace %s", pod.Name, name)
		}
	}
}

// phases counts the pods of a namespace by phase.
func phases(state *cluster.State, namespace string) map[corev1.PodPhase]int {
	counts := map[corev1.PodPhase]int{}
	for _, pod := range state.Pods {
		if pod.Namespace == namespace {
			counts[pod.Status.Phase]++
		}
	}
	return counts
}

func expectPhases(t *testing.T, state *cluster.State, namespace string, want map[corev1.PodPhase]int) {
	t.Helper()
	if diff := cmp.Diff(want, phases(state, namespace)); diff != "" {
		t.Errorf("phases of the pods in namespace %s (-want +got):\n%s", namespace, diff)
	}
}

func testFirstPod(t *testing.T, s *Sandbox) {
	apply(t, s, `
apiVersion: v1
kind: Pod
metadata: {name: first}
spec:
  containers: [{name: main, image: none}]
---
apiVersion: v1
kind: Pod
metadata: {name: short, annotations: {kerf.dev/run-for: 100ms}}
spec:
  restartPolicy: Never
  initContainers: [{name: init, image: none}]
  containers: [{name: main, image: none}]
---
apiVersion: v1
kind: Pod
metadata: {name: elsewhere}
spec:
  schedulerName: nobody
  containers: [{name: main, image: none}]
`)
	settlement := settle(t, s)
	expectPhases(t, settlement.State, "default", map[corev1.PodPhase]int{
		corev1.PodRunning: 1, corev1.PodSucceeded: 1, corev1.PodPending: 1,
	})
	if got := settlement.Pending; len(got) != 1 || got[0].Reason != cluster.ReasonNoScheduler {
		t.Errorf("pending = %+v, want pod elsewhere for reason %s", got, cluster.ReasonNoScheduler)
	}
	if after, ok := s.TimeToFirstBound(); !ok || after < s.TimeToReady() {
		t.Errorf("time to first bound = %s, %t; want one after %s", after, ok, s.TimeToReady())
	}
	t.Logf("ready after %s", s.TimeToReady())
}

const inventoryManifest = `
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: %[1]s}
spec:
  selectors: [{cel: {expression: device.driver == "%[1]s.example.com"}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: %[1]s}
spec:
  driver: %[1]s.example.com
  nodeName: node-2
  pool: {name: pool, generation: 1, resourceSliceCount: 1}
  devices: [%[2]s]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one, namespace: %[1]s}
spec:
  spec:
    devices:
      requests: [{name: device, exactly: {deviceClassName: %[1]s}}]
`

// devices publishes n devices on node-2, with a class and a template of the
// same name as the namespace.
func devices(t *testing.T, s *Sandbox, name string, n int) {
	t.Helper()
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("{name: dev-%d}", i)
	}
	apply(t, s, fmt.Sprintf(inventoryManifest, name, strings.Join(list, ", ")))
}

// claimPod is a pod with a claim from the template "one".
func claimPod(namespace, name string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: main, image: none, resources: {claims: [{name: device}]}}]
  resourceClaims: [{name: device, resourceClaimTemplateName: one}]
---`, name, namespace)
}

func testClaimTemplate(t *testing.T, s *Sandbox) {
	devices(t, s, "template", 2)
	apply(t, s, claimPod("template", "a")+claimPod("template", "b")+claimPod("template", "c"))
	settlement := settle(t, s)
	expectPhases(t, settlement.State, "template", map[corev1.PodPhase]int{corev1.PodRunning: 2, corev1.PodPending: 1})

	// A pod that ends frees its device for the one that waits.
	for _, pod := range settlement.State.Pods {
		if pod.Namespace == "template" && pod.Status.Phase == corev1.PodRunning {
			if err := s.FinishPod(t.Context(), pod.Namespace, pod.Name, 0); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	settlement = settle(t, s)
	expectPhases(t, settlement.State, "template", map[corev1.PodPhase]int{corev1.PodRunning: 2, corev1.PodSucceeded: 1})
	deleteNamespace(t, s, "template")
	for _, claim := range settle(t, s).State.ResourceClaims {
		if claim.Namespace == "template" {
			t.Errorf("claim %s is left in the deleted namespace", claim.Name)
		}
	}
	if _, err := s.Client().ResourceV1().ResourceSlices().Get(t.Context(), "template", metav1.GetOptions{}); err != nil {
		t.Errorf("the slice that a manifest has published: %v", err)
	}
}

func testWorkloads(t *testing.T, s *Sandbox) {
	apply(t, s, `
apiVersion: v1
kind: Namespace
metadata: {name: work}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: deploy, namespace: work}
spec:
  replicas: 3
  selector: {matchLabels: {app: deploy}}
  template:
    metadata: {labels: {app: deploy}}
    spec:
      containers: [{name: main, image: none}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: stateful, namespace: work}
spec:
  replicas: 2
  serviceName: stateful
  selector: {matchLabels: {app: stateful}}
  template:
    metadata: {labels: {app: stateful}}
    spec:
      containers: [{name: main, image: none}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: daemon, namespace: work}
spec:
  selector: {matchLabels: {app: daemon}}
  template:
    metadata: {labels: {app: daemon}}
    spec:
      containers: [{name: main, image: none}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: job, namespace: work}
spec:
  completions: 4
  parallelism: 2
  template:
    metadata: {annotations: {kerf.dev/run-for: 0s}}
    spec:
      restartPolicy: Never
      containers: [{name: main, image: none}]
`)
	settlement := settle(t, s)
	expectPhases(t, settlement.State, "work", map[corev1.PodPhase]int{corev1.PodRunning: 7, corev1.PodSucceeded: 4})
	if jobs := settlement.State.Jobs; len(jobs) != 1 || jobs[0].Status.CompletionTime == nil {
		t.Errorf("jobs = %+v, want one that is complete", jobs)
	}
	if len(settlement.Stuck) != 0 {
		t.Errorf("stuck: %v", settlement.Stuck)
	}
}

func testEviction(t *testing.T, s *Sandbox) {
	devices(t, s, "evict", 1)
	apply(t, s, claimPod("evict", "victim"))
	expectPhases(t, settle(t, s).State, "evict", map[corev1.PodPhase]int{corev1.PodRunning: 1})
	apply(t, s, `
apiVersion: resource.k8s.io/v1
kind: DeviceTaintRule
metadata: {name: evict}
spec:
  deviceSelector: {driver: evict.example.com}
  taint: {key: example.com/broken, effect: NoExecute}
`)
	expectPhases(t, settle(t, s).State, "evict", map[corev1.PodPhase]int{})
	if err := s.Client().ResourceV1().DeviceTaintRules().Delete(t.Context(), "evict", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	apply(t, s, claimPod("evict", "next"))
	expectPhases(t, settle(t, s).State, "evict", map[corev1.PodPhase]int{corev1.PodRunning: 1})
}

// testSchedulerRestart stops the scheduler, lets work pile up and starts it.
func testSchedulerRestart(t *testing.T, s *Sandbox) {
	devices(t, s, "restart", 3)
	apply(t, s, claimPod("restart", "before"))
	settle(t, s)
	if err := s.Parts().Stop("scheduler"); err != nil {
		t.Fatal(err)
	}
	apply(t, s, claimPod("restart", "during"))
	settlement := settle(t, s)
	expectPhases(t, settlement.State, "restart", map[corev1.PodPhase]int{corev1.PodRunning: 1, corev1.PodPending: 1})
	if err := s.Parts().Start(t.Context(), "scheduler", ""); err != nil {
		t.Fatal(err)
	}
	if err := s.Parts().Start(t.Context(), "scheduler", ""); err == nil {
		t.Error("starting a running scheduler succeeded")
	}
	apply(t, s, claimPod("restart", "after"))
	settlement = settle(t, s)
	expectPhases(t, settlement.State, "restart", map[corev1.PodPhase]int{corev1.PodRunning: 3})
	expectDistinctDevices(t, settlement.State, "restart", 3)
}

// testSchedulerKill kills the scheduler twice in the middle of its work.
func testSchedulerKill(t *testing.T, s *Sandbox) {
	const pods = 100
	devices(t, s, "kill", pods)
	var text strings.Builder
	for i := range pods {
		text.WriteString(claimPod("kill", fmt.Sprintf("pod-%02d", i)))
	}
	bound, done := watchBound(t, s, "kill")
	defer done()
	apply(t, s, text.String())
	for _, enough := range []int{pods / 4, pods / 2} {
		for have := 0; have < enough; {
			select {
			case have = <-bound:
			case <-time.After(limit):
				t.Fatalf("%d of %d pods are bound", have, enough)
			}
		}
		if err := s.Parts().Kill("scheduler", ""); err != nil {
			t.Fatal(err)
		}
		if err := s.Parts().Start(t.Context(), "scheduler", ""); err != nil {
			t.Fatal(err)
		}
	}
	settlement := settle(t, s)
	expectPhases(t, settlement.State, "kill", map[corev1.PodPhase]int{corev1.PodRunning: pods})
	expectDistinctDevices(t, settlement.State, "kill", pods)
}

// watchBound counts the pods of a namespace that get bound.
func watchBound(t *testing.T, s *Sandbox, namespace string) (counts <-chan int, done func()) {
	t.Helper()
	w, err := s.Client().CoreV1().Pods(namespace).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out, ended := make(chan int, 1000), make(chan struct{})
	go func() {
		defer close(ended)
		bound := map[string]bool{}
		for event := range w.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok && pod.Spec.NodeName != "" && !bound[pod.Name] {
				bound[pod.Name] = true
				out <- len(bound)
			}
		}
	}()
	return out, func() {
		w.Stop()
		<-ended
	}
}

func expectDistinctDevices(t *testing.T, state *cluster.State, namespace string, want int) {
	t.Helper()
	holders := map[string]string{}
	for _, claim := range state.ResourceClaims {
		if claim.Namespace != namespace || claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			device := result.Driver + "/" + result.Pool + "/" + result.Device
			if other, taken := holders[device]; taken {
				t.Errorf("device %s is allocated to claims %s and %s", device, other, claim.Name)
			}
			holders[device] = claim.Name
		}
	}
	if len(holders) != want {
		t.Errorf("%d devices are allocated in namespace %s, want %d", len(holders), namespace, want)
	}
}

// testStuck expects changes that never come to be named, not waited for.
func testStuck(t *testing.T, s *Sandbox) {
	apply(t, s, `
apiVersion: v1
kind: Namespace
metadata: {name: stuck}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: none, namespace: stuck}
spec: {hard: {pods: "0"}}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: blocked, namespace: stuck}
spec:
  replicas: 1
  selector: {matchLabels: {app: blocked}}
  template:
    metadata: {labels: {app: blocked}}
    spec:
      containers: [{name: main, image: none}]
`)
	settlement := settle(t, s)
	if len(settlement.Stuck) != 1 || !strings.Contains(settlement.Stuck[0].String(), "exceeded quota") {
		t.Errorf("stuck = %v, want the ReplicaSet because of the quota", settlement.Stuck)
	}
}
