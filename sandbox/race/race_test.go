// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package race

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"kerf.dev/kerf/kube/manifest"
	"kerf.dev/kerf/sandbox"
	"kerf.dev/kerf/sandbox/sandboxtest"
	"kerf.dev/kerf/sandbox/story"
)

const (
	waiting = 8  // pods, and devices of the fabric
	others  = 50 // pods that ask for a device of the same class
	// limit bounds waiting for something that is bound to come.
	limit = 3 * time.Minute
)

var (
	seeds = flag.Int("seeds", 1, "runs of each mode, each with other moments at which pods come")
	only  = flag.String("mode", "", `the modes that begin with this, "R" for all`)
)

// mode is a way to hand devices over, and what is promised of it.
type mode struct {
	handOver, guards string
	// safe: nothing is stolen; once: every pod is bound in its first attempt.
	safe, once bool
}

// modes begin with those that are run if none is named.
var modes = []mode{
	{"Reallocate", "[DeviceTaintRule, Reservation]", true, true},
	{"Reschedule", "[]", false, false},
	{"Reallocate", "[DeviceTaintRule]", true, true},
	{"Reallocate", "[Reservation]", true, true},
	{"Reallocate", "[Taint]", true, true},
	{"Reallocate", "[]", false, false},
	{"Reschedule", "[DeviceTaintRule]", true, false},
	{"Reschedule", "[Taint]", true, false},
}

const usual = 2

func (m mode) String() string { return m.handOver + ", guards " + m.guards }

// shelf has two hosts, which are nodes, and the devices.
const shelf = `
hosts: [{id: host-a, hostName: node-a}, {id: host-b, hostName: node-b}]
blocks: [{id: gpu, count: 8, manufacturer: Acme, model: A100, memoryMiB: 40960}]
latency: {attach: 800ms, appear: 50ms}
---
{apiVersion: v1, kind: Node, metadata: {name: node-a}}
---
{apiVersion: v1, kind: Node, metadata: {name: node-b}}
`

const fabric = `
apiVersion: fabric.kerf.dev/v1alpha1
kind: Fabric
metadata: {name: shelf}
spec:
  redfish: {endpoint: https://fabric.example.com}
  models:
  - {name: a100, match: {model: A100}, driver: gpu.example.com, attributes: {productName: {string: A100}}}
  machines: {label: {key: kubernetes.io/hostname, property: HostName}}
  concurrency: {operations: 4, perMachine: 2}
  idleDetachAfter: 0s
  handOver: %s
  guards: %s
`

const class = `
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: device.driver == "gpu.example.com"}}]}
`

// pod is one with a claim of its own.
const pod = `
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: %[1]s}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s}
spec:
  resourceClaims: [{name: gpu, resourceClaimName: %[1]s}]
  containers: [{name: main, image: none, resources: {claims: [{name: gpu}]}}]
`

func TestRace(t *testing.T) {
	s := sandboxtest.Start(t, sandbox.Options{Scheduler: sandbox.ImpatientScheduler()})
	stolen := map[mode]int{}
	for seed := range *seeds {
		for i, m := range modes {
			if *only == "" && i >= usual || !strings.HasPrefix(m.String(), *only) {
				continue
			}
			r := &race{Sandbox: s, t: t, ctx: t.Context(), mode: m, random: rand.New(rand.NewPCG(uint64(seed), 1))}
			n := r.run()
			stolen[m] += n
			t.Logf("seed %d: %s: %d of %d stolen", seed, m, n, waiting)
		}
	}
	for m := range stolen {
		t.Logf("%-50s %d of %d stolen", m, stolen[m], waiting**seeds)
	}
	// That the others try is shown by what they get where nothing keeps them from it.
	if unsafe := modes[1]; *only == "" && stolen[unsafe] == 0 {
		t.Error("nothing was stolen even without guards: this is no race")
	}
}

// race is one run.
type race struct {
	*sandbox.Sandbox
	t      *testing.T
	ctx    context.Context
	mode   mode
	random *rand.Rand
}

func (r *race) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatalf("%s: %v", r.mode, err)
	}
}

// run returns how many devices somebody else got than the pod they were attached for.
func (r *race) run() (stolen int) {
	r.t.Helper()
	sandboxtest.Apply(r.t, r.Sandbox, shelf+"---"+fmt.Sprintf(fabric, r.mode.handOver, r.mode.guards)+class)
	var offered map[string]string
	r.until("the devices are offered", func() bool { offered = r.uuids(); return len(offered) == waiting })
	for i := range waiting {
		r.create(name("waiting", i))
	}
	promised := r.promised(offered)
	r.crowd(others)
	_, err := r.Settle(r.ctx, limit)
	r.must(err)
	got := r.holders()
	for claim, uuid := range promised {
		switch holder := got[uuid]; {
		case holder != claim && strings.HasPrefix(holder, "other"):
			stolen++
		case holder != claim && r.mode.safe:
			r.t.Errorf("%s: the device that was attached for %s is held by %q", r.mode, claim, holder)
		}
	}
	if r.mode.safe && stolen > 0 {
		r.t.Errorf("%s: %d devices were stolen", r.mode, stolen)
	}
	r.check()
	r.must(story.Clear(r.ctx, r.Sandbox))
	r.must(r.Rack().Stop())
	return stolen
}

// crowd creates the other pods in a random order, one after the other, while the
// devices arrive: a pod that is new is tried at once.
func (r *race) crowd(n int) {
	r.t.Helper()
	for _, number := range r.random.Perm(n) {
		r.create(name("other", number))
		time.Sleep(time.Duration(r.random.IntN(160)) * time.Millisecond)
	}
}

// create creates a pod with a claim of its own.
func (r *race) create(name string) {
	r.t.Helper()
	set, err := manifest.Parse("race", strings.NewReader(fmt.Sprintf(pod, name)))
	r.must(err)
	for _, o := range set.Objects {
		resource := resourceapi.SchemeGroupVersion.WithResource("resourceclaims")
		if o.GetKind() == "Pod" {
			resource = corev1.SchemeGroupVersion.WithResource("pods")
		}
		_, err := r.Dynamic().Resource(resource).Namespace("default").Create(r.ctx, o.Unstructured, metav1.CreateOptions{})
		r.must(err)
	}
}

func name(kind string, i int) string { return fmt.Sprintf("%s-%02d", kind, i) }

// until waits for what is bound to come.
func (r *race) until(what string, condition func() bool) {
	r.t.Helper()
	err := wait.PollUntilContextTimeout(r.ctx, 10*time.Millisecond, limit, true, func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		r.t.Fatalf("%s: %s: %v", r.mode, what, err)
	}
}

// promised waits until all waiting pods have a device of the fabric, and returns its
// identity by claim.
func (r *race) promised(offered map[string]string) map[string]string {
	r.t.Helper()
	found := map[string]string{}
	r.until("every waiting pod has a device of the fabric", func() bool {
		for _, c := range r.claims() {
			if a := c.Status.Allocation; a != nil && found[c.Name] == "" {
				found[c.Name] = offered[deviceOf(a)]
			}
		}
		return len(found) == waiting
	})
	return found
}

func (r *race) claims() []resourceapi.ResourceClaim {
	r.t.Helper()
	list, err := r.Client().ResourceV1().ResourceClaims("default").List(r.ctx, metav1.ListOptions{})
	r.must(err)
	return list.Items
}

func deviceOf(a *resourceapi.AllocationResult) string {
	r := a.Devices.Results[0]
	return r.Driver + "/" + r.Pool + "/" + r.Device
}

// uuids are the identities of all devices that are published.
func (r *race) uuids() map[string]string {
	r.t.Helper()
	list, err := r.Client().ResourceV1().ResourceSlices().List(r.ctx, metav1.ListOptions{})
	r.must(err)
	found := map[string]string{}
	for _, s := range list.Items {
		for _, d := range s.Spec.Devices {
			if uuid := d.Attributes["uuid"].StringValue; uuid != nil {
				found[s.Spec.Driver+"/"+s.Spec.Pool.Name+"/"+d.Name] = *uuid
			}
		}
	}
	return found
}

// holders are the claims of running pods, by the identity of their device.
func (r *race) holders() map[string]string {
	r.t.Helper()
	uuids, found := r.uuids(), map[string]string{}
	for _, c := range r.claims() {
		if c.Status.Allocation == nil || len(c.Status.ReservedFor) == 0 {
			continue
		}
		uuid := uuids[deviceOf(c.Status.Allocation)]
		if uuid == "" {
			r.t.Errorf("%s: claim %s has %s, which nobody publishes", r.mode, c.Name, deviceOf(c.Status.Allocation))
		}
		if other := found[uuid]; other != "" {
			r.t.Errorf("%s: claims %s and %s have the same device", r.mode, c.Name, other)
		}
		found[uuid] = c.Name
	}
	return found
}

// check looks at the waiting pods: they run, and where it is promised they never had
// to be tried twice.
func (r *race) check() {
	r.t.Helper()
	pods, err := r.Client().CoreV1().Pods("default").List(r.ctx, metav1.ListOptions{})
	r.must(err)
	tried := r.failedAttempts()
	for i := range pods.Items {
		p := &pods.Items[i]
		if !strings.HasPrefix(p.Name, "waiting") {
			continue
		}
		if r.mode.safe && p.Status.Phase != corev1.PodRunning {
			r.t.Errorf("%s: pod %s is %s: %v", r.mode, p.Name, p.Status.Phase, p.Status.Conditions)
		}
		if r.mode.once && tried[p.UID] != "" {
			r.t.Errorf("%s: pod %s was tried more than once: %s", r.mode, p.Name, tried[p.UID])
		}
	}
}

// failedAttempts are the pods of which the scheduler said that it could not place
// them, with what it said.
func (r *race) failedAttempts() map[types.UID]string {
	r.t.Helper()
	events, err := r.Client().EventsV1().Events("default").List(r.ctx, metav1.ListOptions{})
	r.must(err)
	found := map[types.UID]string{}
	for _, e := range events.Items {
		if e.Reason == "FailedScheduling" {
			found[e.Regarding.UID] = e.Note
		}
	}
	return found
}
