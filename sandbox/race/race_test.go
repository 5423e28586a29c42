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

	"kerf.dev/kerf/sandbox"
	"kerf.dev/kerf/sandbox/manifest"
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
	only  = flag.String("mode", "", "only the modes that begin with this")
)

// mode is a way to hand devices over, and what is promised of it.
type mode struct {
	handOver, guards string
	// safe: nothing is stolen; once: every pod is bound in its first attempt.
	safe, once bool
}

var modes = []mode{
	{"Reallocate", "[DeviceTaintRule]", true, true},
	{"Reallocate", "[Reservation]", true, true},
	{"Reallocate", "[Taint]", true, true},
	{"Reallocate", "[]", false, false},
	{"Reschedule", "[DeviceTaintRule]", true, false},
	{"Reschedule", "[Taint]", true, false},
	{"Reschedule", "[]", false, false},
}

func (m mode) String() string { return m.handOver + ", guards " + m.guards }

// shelf has two hosts, which are nodes, and the devices.
const shelf = `
hosts: [{id: host-a, hostName: node-a}, {id: host-b, hostName: node-b}]
blocks: [{id: gpu, count: 8, manufacturer: Acme, model: A100, memoryMiB: 40960}]
latency: {attach: 200ms, appear: 50ms}
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
	s, err := sandbox.Start(t.Context(), sandbox.Options{ParentDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}()
	stolen := map[mode]int{}
	for seed := range *seeds {
		for _, m := range modes {
			if !strings.HasPrefix(m.String(), *only) {
				continue
			}
			r := &race{Sandbox: s, t: t, ctx: t.Context(), mode: m, random: rand.New(rand.NewPCG(uint64(seed), 1))}
			n := r.run()
			stolen[m] += n
			t.Logf("seed %d: %s: %d of %d stolen", seed, m, n, waiting)
		}
	}
	for _, m := range modes {
		t.Logf("%-40s %d of %d stolen", m, stolen[m], waiting**seeds)
	}
	// That the others try is shown by what they get where nothing keeps them from it.
	if *only == "" && stolen[mode{handOver: "Reschedule", guards: "[]"}] == 0 {
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

func (r *race) apply(text string) {
	r.t.Helper()
	set, err := manifest.Parse("race", strings.NewReader(text))
	r.must(err)
	r.must(r.Apply(r.ctx, set))
}

// run returns how many devices somebody else got than the pod they were attached for.
func (r *race) run() (stolen int) {
	r.t.Helper()
	r.apply(shelf + "---" + fmt.Sprintf(fabric, r.mode.handOver, r.mode.guards) + class)
	pods := ""
	for i := range waiting {
		pods += fmt.Sprintf(pod, name("waiting", i))
	}
	r.apply(pods)
	promised := r.promised()
	for _, i := range r.random.Perm(others) {
		r.apply(fmt.Sprintf(pod, name("other", i)))
		time.Sleep(time.Duration(r.random.IntN(40)) * time.Millisecond)
	}
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
	r.must(r.StopFabric())
	return stolen
}

func name(kind string, i int) string { return fmt.Sprintf("%s-%02d", kind, i) }

// promised waits until all waiting pods have a device of the fabric, and returns its
// identity by claim.
func (r *race) promised() map[string]string {
	r.t.Helper()
	uuids := r.uuids()
	found := map[string]string{}
	r.must(wait.PollUntilContextTimeout(r.ctx, 10*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		claims, err := r.Client().ResourceV1().ResourceClaims("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for i := range claims.Items {
			c := &claims.Items[i]
			if a := c.Status.Allocation; a != nil && found[c.Name] == "" {
				if found[c.Name] = uuids[deviceOf(a)]; found[c.Name] == "" {
					return false, fmt.Errorf("claim %s got %s, which is not of the fabric", c.Name, deviceOf(a))
				}
			}
		}
		return len(found) == waiting, nil
	}))
	return found
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
	claims, err := r.Client().ResourceV1().ResourceClaims("default").List(r.ctx, metav1.ListOptions{})
	r.must(err)
	for i := range claims.Items {
		c := &claims.Items[i]
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
