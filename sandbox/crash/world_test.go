// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
	"kerf.dev/kerf/sandbox"
	"kerf.dev/kerf/sandbox/sandboxtest"
)

const (
	namespace = "default"
	driver    = "gpu.example.com"
	// limit bounds waiting for something that is bound to come.
	limit = 2 * time.Minute
	// slow is when it is worth a line in the log what is waited for.
	slow = 10 * time.Second
	// look is the time between two looks at what the world has come to.
	look = 20 * time.Millisecond
)

// setting is a shelf, a Fabric and a class. Operations take long enough for a part to
// be killed while they are going on.
const setting = `
hosts:
%s
blocks:
- {id: gpu, count: %d, manufacturer: Acme, model: A100, memoryMiB: 40960}
latency: {attach: 1s, detach: 1s}
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
  handOver: Reallocate
  concurrency: {operations: 64, perMachine: 2}
  idleDetachAfter: 0s
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: fabric-gpu}
spec: {selectors: [{cel: {expression: device.driver == "gpu.example.com"}}]}
`

const node = `---
apiVersion: v1
kind: Node
metadata: {name: %s}
`

// world is a sandbox with a fabric, and who watches over it.
type world struct {
	*sandbox.Sandbox
	t      *testing.T
	points []point

	attachments, claims, pods cache.Store

	mu sync.Mutex
	// made has the attachments that there ever were for a claim.
	made map[string]map[string]bool
	// wrong is what must never be, seen in passing.
	wrong []string
}

// newWorld starts the sandbox and what the test needs in it.
func newWorld(t *testing.T) *world {
	t.Helper()
	s := sandboxtest.Start(t, sandbox.Options{Scheduler: sandbox.ImpatientScheduler(), Fabric: patient})
	w := &world{Sandbox: s, t: t, points: chosen(), made: map[string]map[string]bool{}}
	var hosts, nodes strings.Builder
	for _, p := range w.points {
		fmt.Fprintf(&hosts, "- {id: %s}\n", p.name)
		fmt.Fprintf(&nodes, node, p.name)
	}
	sandboxtest.Apply(t, s, fmt.Sprintf(setting, hosts.String(), len(w.points)+spares)+nodes.String())
	w.watch()
	return w
}

// spares are devices beyond one for each point: some points need a second one.
const spares = 8

// patient has what is held back not be tried again all the time.
func patient(p *fabric.Policy) { p.RetryDelay = 1500 * time.Millisecond }

// watch keeps what the API server has of attachments, claims and pods, and looks at
// every change of a claim.
func (w *world) watch() {
	attachments := dynamicinformer.NewDynamicSharedInformerFactory(w.Dynamic(), 0)
	others := informers.NewSharedInformerFactory(w.Client(), 0)
	a := attachments.ForResource(v1alpha1.SchemeGroupVersion.WithResource("deviceattachments")).Informer()
	c, p := others.Resource().V1().ResourceClaims().Informer(), others.Core().V1().Pods().Informer()
	w.attachments, w.claims, w.pods = a.GetStore(), c.GetStore(), p.GetStore()
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandlerFuncs{
		a: {AddFunc: w.attachmentIs},
		c: {AddFunc: func(any) { w.checkClaims() }, UpdateFunc: func(_, _ any) { w.checkClaims() }},
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			w.t.Fatal(err)
		}
	}
	stop := make(chan struct{})
	attachments.Start(stop)
	others.Start(stop)
	w.t.Cleanup(func() { close(stop); attachments.Shutdown(); others.Shutdown() })
	cache.WaitForCacheSync(w.t.Context().Done(), a.HasSynced, c.HasSynced, p.HasSynced)
}

func attachmentOf(o any) *v1alpha1.DeviceAttachment {
	a := &v1alpha1.DeviceAttachment{}
	if u, ok := o.(*unstructured.Unstructured); ok && runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, a) == nil {
		return a
	}
	return nil
}

func (w *world) attachmentIs(o any) {
	a := attachmentOf(o)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case a == nil:
		w.wrong = append(w.wrong, "an attachment cannot be read")
	case a.Spec.Claim == nil:
		w.wrong = append(w.wrong, fmt.Sprintf("attachment %s is for a device that was found attached: it was lost before", a.Name))
	default:
		uid := string(a.Spec.Claim.UID)
		if w.made[uid] == nil {
			w.made[uid] = map[string]bool{}
		}
		w.made[uid][a.Name] = true
	}
}

// checkClaims notes a device that two claims have at once.
func (w *world) checkClaims() {
	holders := map[fabric.LocalDevice]string{}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.claims.List() {
		claim, ok := o.(*resourceapi.ResourceClaim)
		if !ok || claim.Status.Allocation == nil {
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			id := fabric.LocalDevice{Driver: r.Driver, Pool: r.Pool, Device: r.Device}
			if other := holders[id]; other != "" {
				w.wrong = append(w.wrong, fmt.Sprintf("claims %s and %s both have device %s of pool %s", other, claim.Name, r.Device, r.Pool))
			}
			holders[id] = claim.Name
		}
	}
}

// checkHosts notes a host with more than one device: each has one claim at a time.
func (w *world) checkHosts() {
	for _, p := range w.points {
		sees, err := w.Rack().Sees(p.name)
		w.mu.Lock()
		if err != nil {
			w.wrong = append(w.wrong, err.Error())
		} else if len(sees) > 1 {
			w.wrong = append(w.wrong, fmt.Sprintf("host %s sees %d devices, for one claim", p.name, len(sees)))
		}
		w.mu.Unlock()
	}
}

// complain reports what was noted, once.
func (w *world) complain(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.wrong)
	for _, text := range slices.Compact(w.wrong) {
		t.Error(text)
	}
	w.wrong = nil
}

// attachmentsOn are those for a node.
func (w *world) attachmentsOn(node string) []*v1alpha1.DeviceAttachment {
	var found []*v1alpha1.DeviceAttachment
	for _, o := range w.attachments.List() {
		u, ok := o.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		if on, _, _ := unstructured.NestedString(u.Object, "spec", "node"); on != node {
			continue
		}
		if a := attachmentOf(o); a != nil {
			found = append(found, a)
		}
	}
	slices.SortFunc(found, func(a, b *v1alpha1.DeviceAttachment) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// phases of the attachments for a node.
func (w *world) phases(node string) []fabric.Phase {
	var all []fabric.Phase
	for _, a := range w.attachmentsOn(node) {
		phase := fabric.Phase(a.Status.Phase)
		if phase == "" {
			phase = fabric.PhaseAllocated
		}
		all = append(all, phase)
	}
	return all
}

func (w *world) claim(name string) *resourceapi.ResourceClaim {
	o, _, err := w.claims.GetByKey(namespace + "/" + name)
	if claim, ok := o.(*resourceapi.ResourceClaim); err == nil && ok {
		return claim
	}
	return nil
}

func (w *world) pod(name string) *corev1.Pod {
	o, _, err := w.pods.GetByKey(namespace + "/" + name)
	if pod, ok := o.(*corev1.Pod); err == nil && ok {
		return pod
	}
	return nil
}

// create makes the claim and the pod of a point, for its node.
func (w *world) create(p *point) {
	w.t.Helper()
	claim := &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: p.name},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{
			{Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "fabric-gpu"}},
		}}},
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: p.name},
		Spec: corev1.PodSpec{
			NodeSelector:   map[string]string{corev1.LabelHostname: p.name},
			ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &p.name}},
			Containers: []corev1.Container{{Name: "main", Image: "pause", Resources: corev1.ResourceRequirements{
				Claims: []corev1.ResourceClaim{{Name: "gpu"}},
			}}},
			TerminationGracePeriodSeconds: ptr.To(int64(0)),
		},
	}
	if _, err := w.Client().ResourceV1().ResourceClaims(namespace).Create(w.t.Context(), claim, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.Client().CoreV1().Pods(namespace).Create(w.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// remove deletes them.
func (w *world) remove(p *point) {
	w.t.Helper()
	if err := w.Client().CoreV1().Pods(namespace).Delete(w.t.Context(), p.name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	if err := w.Client().ResourceV1().ResourceClaims(namespace).Delete(w.t.Context(), p.name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// until waits for something and fails the test if it does not come.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	timeout := time.After(limit)
	for !holds() {
		w.checkHosts()
		select {
		case <-time.After(look):
		case <-timeout:
			w.t.Fatalf("%s does not come", what)
		case <-w.Done():
			w.t.Fatalf("the sandbox has stopped: %v", w.Stop())
		}
	}
}
