// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/kube/scheduler/podclaim"
)

var updateTable = flag.Bool("update", false, "write the table in docs/reliability.md")

// step is a write on the way of a pod with extended resources to its node.
type step struct {
	name string
	is   func(clienttesting.Action) bool
}

var steps = []step{
	{"create claim", func(a clienttesting.Action) bool { return a.Matches("create", "resourceclaims") }},
	{"add finalizer", func(a clienttesting.Action) bool {
		return a.Matches("update", "resourceclaims") && len(updated(a).Finalizers) > 0
	}},
	{"write allocation", func(a clienttesting.Action) bool {
		return a.Matches("update", "resourceclaims/status") && updated(a).Status.Allocation != nil
	}},
	{"patch pod status", func(a clienttesting.Action) bool { return a.Matches("patch", "pods/status") }},
	{"bind", func(a clienttesting.Action) bool { return a.Matches("create", "pods/binding") }},
}

func updated(a clienttesting.Action) *resourceapi.ResourceClaim {
	return as[*resourceapi.ResourceClaim](as[clienttesting.UpdateAction](a).GetObject())
}

// fault is what goes wrong at a step, before or after it is done.
type fault struct {
	name          string
	before, after func(w *stage) error
	// later happens once the attempt is over.
	later func(w *stage)
}

var errTimeout = apierrors.NewTimeoutError("the request timed out", 1)

var faults = []fault{
	{name: "conflict", before: func(*stage) error {
		return apierrors.NewConflict(claimResource.GroupResource(), "x", errors.New("the object has been modified"))
	}},
	{name: "timeout, not done", before: func(*stage) error { return errTimeout }},
	{name: "timeout, done", after: func(*stage) error { return errTimeout }},
	{name: "API server unreachable, not done", before: (*stage).disconnect},
	{name: "API server unreachable, done", after: (*stage).disconnect},
	{name: "API server unreachable, pod deleted meanwhile", after: func(w *stage) error {
		w.deletePod()
		return w.disconnect()
	}},
	{name: "API server unreachable, pod deleted afterwards", after: (*stage).disconnect, later: (*stage).deletePod},
	{name: "scheduler killed, not done", before: (*stage).kill},
	{name: "scheduler killed, done", after: (*stage).kill},
	{name: "scheduler killed, pod deleted", after: (*stage).kill, later: (*stage).deletePod},
	{name: "scheduler killed, class replaced", after: (*stage).kill, later: (*stage).replaceClass},
	{name: "scheduler killed, class deleted", after: (*stage).kill, later: (*stage).deleteClass},
	{name: "scheduler killed, node gone", after: (*stage).kill, later: (*stage).loseNode},
	{name: "scheduler killed, device plugin comes", after: (*stage).kill, later: func(w *stage) { w.offered = []string{gpu + "=4"} }},
	{name: "pod deleted", before: quietly((*stage).deletePod)},
	{name: "class replaced", before: quietly((*stage).replaceClass)},
	{name: "class deleted", before: quietly((*stage).deleteClass)},
	{name: "node gone", before: quietly((*stage).loseNode)},
	{name: "timeout, done, cache behind", before: quietly(func(w *stage) { w.events.hold() }), after: func(*stage) error { return errTimeout }},
	{name: "timeout, done, another scheduler has made a claim", after: func(*stage) error { return errTimeout }, later: (*stage).foreignClaim},
}

func quietly(f func(*stage)) func(*stage) error {
	return func(w *stage) error {
		f(w)
		return nil
	}
}

// stage is a cluster with one pod to be scheduled and one fault.
type stage struct {
	t      *testing.T
	api    *apiServer
	r      *rig
	events *watchGate

	nodes    []string
	offered  []string
	killed   atomic.Bool // also asked by requests of the plugin's workers
	unlinked atomic.Bool
	happened bool
	attempts int
}

func newStage(t *testing.T, s step, f fault) *stage {
	pod := podOf("p", container("a", gpu+"=1"))
	api := newAPIServer(pod, mappedClass("gpu-a", 1, gpu, "g"), newSlice("n1", gpus("g", 2)...), newSlice("n2", gpus("g", 2)...))
	w := &stage{t: t, api: api, events: newWatchGate(), nodes: []string{"n1", "n2"}}
	api.client.PrependWatchReactor("resourceclaims", w.events.reactTo(api))
	api.client.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		return w.unlinked.Load() || w.killed.Load(), nil, w.link()
	})
	api.onWrite(func(a clienttesting.Action) error {
		if w.happened || !s.is(a) || f.before == nil {
			return w.link()
		}
		w.happened = w.happened || f.after == nil
		return f.before(w)
	}, func(a clienttesting.Action) error {
		if w.happened || !s.is(a) || f.after == nil {
			return nil
		}
		w.happened = true
		return f.after(w)
	})
	w.r = newRigOn(t, "", api)
	return w
}

func (w *stage) link() error {
	if w.unlinked.Load() || w.killed.Load() {
		return errTimeout
	}
	return nil
}

func (w *stage) disconnect() error { w.unlinked.Store(true); return errTimeout }
func (w *stage) kill() error       { w.killed.Store(true); return errTimeout }

func (w *stage) deletePod() {
	if err := w.api.client.Tracker().Delete(podResource, "ns", "p"); err != nil && !apierrors.IsNotFound(err) {
		w.t.Error(err)
	}
}

var (
	classResource = resourceapi.SchemeGroupVersion.WithResource("deviceclasses")
	sliceResource = resourceapi.SchemeGroupVersion.WithResource("resourceslices")
)

// replaceClass creates a newer class for the same resource.
func (w *stage) replaceClass() {
	if err := w.api.client.Tracker().Create(classResource, w.api.stamp(mappedClass("gpu-b", 2, gpu, "g")), ""); err != nil {
		w.t.Error(err)
	}
	w.r.eventually("the class arrives", func() bool {
		_, err := w.r.manager.DeviceClasses().Get("gpu-b")
		return err == nil
	})
}

func (w *stage) deleteClass() {
	if err := w.api.client.Tracker().Delete(classResource, "", "gpu-a"); err != nil {
		w.t.Error(err)
	}
	w.r.eventually("the class goes", func() bool {
		_, err := w.r.manager.DeviceClasses().Get("gpu-a")
		return err != nil
	})
}

func (w *stage) loseNode() {
	w.nodes = []string{"n2"}
	if err := w.api.client.Tracker().Delete(sliceResource, "", "n1"); err != nil {
		w.t.Error(err)
	}
}

// foreignClaim is one that was made for the pod under another name.
func (w *stage) foreignClaim() {
	pod := w.api.pod(w.t, "p")
	if pod == nil || pod.Spec.NodeName != "" {
		return
	}
	claim := allocated(podclaim.NewSpecial(pod, nil).Claim, "n1", "g-1")
	claim.Name, claim.UID = "p-extended-resources-x7k2p", "foreign"
	claim.GenerateName = "p-extended-resources-" // as the stock scheduler has it
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "container-0-request-0", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu-old", Count: 1}}}
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: pod.UID}}
	if err := w.api.client.Tracker().Create(claimResource, w.api.stamp(claim), "ns"); err != nil {
		w.t.Error(err)
	}
}

// run schedules the pod until it is bound or gone.
func (w *stage) run(f fault) {
	for range 6 {
		pod := w.api.pod(w.t, "p")
		if pod == nil || pod.Spec.NodeName != "" {
			break
		}
		w.attempts++
		bound := w.attempt(pod)
		w.unlinked.Store(false)
		if w.killed.Load() {
			w.killed.Store(false)
			w.r = newRigOn(w.t, "", w.api)
		}
		if f.later != nil && w.happened {
			f.later(w)
			f.later = nil
		}
		w.events.release()
		w.collect()
		w.settle()
		if !bound && w.classGone() {
			w.restoreClass()
		}
	}
	w.collect()
	w.settle()
}

// attempt does what the framework does and reports whether the pod got bound.
func (w *stage) attempt(pod *v1.Pod) bool {
	c := w.r.cycle(pod)
	if status := c.preFilter(); status.IsSkip() {
		return false // NodeResourcesFit refuses all nodes
	} else if !status.IsSuccess() {
		w.postFilter(c)
		return false
	}
	node := ""
	for _, name := range w.nodes {
		if (w.offered != nil || !w.classGone()) && c.filterOn(nodeOffering(name, w.offered...)).IsSuccess() {
			node = name
			break
		}
	}
	if node == "" {
		w.postFilter(c)
		return false
	}
	status := c.reserve(node)
	if status.IsSuccess() {
		status = w.preBind(c, node)
	}
	if status.IsSuccess() {
		status = c.bindPod(node)
	}
	if !status.IsSuccess() && !w.killed.Load() {
		c.unreserve(node)
	}
	return status.IsSuccess()
}

// preBind lets the cache catch up once PreBind waits for it.
func (w *stage) preBind(c *cycle, node string) *fwk.Status {
	var status *fwk.Status
	done := make(chan struct{})
	go func() {
		defer close(done)
		status = c.preBind(node)
	}()
	w.r.eventually("PreBind returns", func() bool {
		if w.attempts > 1 && w.r.clock.HasWaiters() {
			w.events.release()
		}
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	return status
}

func (w *stage) postFilter(c *cycle) {
	_, status := c.plugin.PostFilter(c.ctx, c.state, c.pod, nil)
	if status.Code() == fwk.Error {
		w.t.Logf("PostFilter: %s", status.Message())
	}
}

func (w *stage) classGone() bool {
	classes, err := w.r.manager.DeviceClasses().List()
	return err == nil && len(classes) == 0
}

// restoreClass creates the class again once the claim has gone for lack of it.
func (w *stage) restoreClass() {
	if len(w.api.claims(w.t)) > 0 {
		return
	}
	if err := w.api.client.Tracker().Create(classResource, w.api.stamp(mappedClass("gpu-a", 3, gpu, "g")), ""); err != nil {
		w.t.Error(err)
	}
	w.r.eventually("the class is back", func() bool { return !w.classGone() })
}

// collect does what controllers do: pods on nodes that are gone are deleted, and
// claims whose pod is gone.
func (w *stage) collect() {
	pod := w.api.pod(w.t, "p")
	if pod != nil && pod.Spec.NodeName != "" && !slices.Contains(w.nodes, pod.Spec.NodeName) {
		w.deletePod()
		pod = nil
	}
	if pod != nil {
		return
	}
	for _, claim := range w.api.claims(w.t) {
		if err := w.api.client.Tracker().Delete(claimResource, claim.Namespace, claim.Name); err != nil {
			w.t.Error(err)
		}
	}
}

// settle waits until the scheduler has seen everything.
func (w *stage) settle() {
	w.r.idle()
	w.r.eventually("the caches are up to date", func() bool {
		claims := w.api.claims(w.t)
		seen, err := w.r.manager.ResourceClaims().List()
		if err != nil || len(seen) != len(claims) || len(w.r.plugin.ledger.Specials.Claims.ListKeys()) != len(claims) {
			return false
		}
		for _, claim := range claims {
			got, err := w.r.manager.ResourceClaims().Get(claim.Namespace, claim.Name)
			if err != nil || got.ResourceVersion != claim.ResourceVersion {
				return false
			}
		}
		pods, slices := w.r.plugin.handle.SharedInformerFactory().Core().V1().Pods().Informer().GetStore().ListKeys(), 0
		listed, err := w.r.manager.ResourceSlices().ListWithDeviceTaintRules()
		for range listed {
			slices++
		}
		return err == nil && slices == len(w.nodes) && (len(pods) > 0) == (w.api.pod(w.t, "p") != nil)
	})
}

// verify checks what must hold at the end, and describes it.
func (w *stage) verify() string {
	w.t.Helper()
	if w.r.manager.ResourceClaims().GetPendingAllocation(podclaim.PlaceholderUID("uid-p")) != nil {
		w.t.Error("the devices are still held in memory")
	}
	if name, unsettled := w.r.plugin.ledger.Specials.IsUnsettled("uid-p"); unsettled {
		w.t.Errorf("claim %s was not settled", name)
	}
	claims, pod := w.api.claims(w.t), w.api.pod(w.t, "p")
	if pod == nil {
		if len(claims) > 0 {
			w.t.Errorf("the pod is gone, and claim %s is left", claims[0].Name)
		}
		return "pod gone, claim too"
	}
	if pod.Spec.NodeName == "" {
		w.t.Fatal("the pod was not bound")
	}
	if w.offered != nil && pod.Status.ExtendedResourceClaimStatus == nil {
		if len(claims) > 0 {
			w.t.Errorf("claim %s is left", claims[0].Name)
		}
		return fmt.Sprintf("bound in attempt %d, by the plugin", w.attempts)
	}
	if len(claims) != 1 {
		w.t.Fatalf("got %d claims, want 1", len(claims))
	}
	w.verifyClaim(pod, claims[0])
	return fmt.Sprintf("bound in attempt %d", w.attempts)
}

func (w *stage) verifyClaim(pod *v1.Pod, claim *resourceapi.ResourceClaim) {
	if len(devicesOf(claim)) != 1 || claim.Status.Allocation.Devices.Results[0].Pool != pod.Spec.NodeName || !slices.Contains(claim.Finalizers, resourceapi.Finalizer) || claim.DeletionTimestamp != nil {
		w.t.Errorf("the pod is on node %s with claim %v", pod.Spec.NodeName, claim)
	}
	if diff := cmp.Diff([]string{"uid-p"}, consumersOf(claim)); diff != "" {
		w.t.Errorf("consumers (-want +got):\n%s", diff)
	}
	if status := pod.Status.ExtendedResourceClaimStatus; status == nil || status.ResourceClaimName != claim.Name {
		w.t.Errorf("the status names %v, want claim %s", status, claim.Name)
	}
	if class := claim.Spec.Devices.Requests[0].Exactly.DeviceClassName; w.attempts > 1 {
		if _, err := w.r.manager.DeviceClasses().Get("gpu-b"); err == nil && class != "gpu-b" {
			w.t.Errorf("the claim is one of class %s", class)
		}
	}
	if len(w.api.claims(w.t)) != 1 {
		w.t.Error("there is a second claim")
	}
}

// TestExtendedResourcesSurvive lets each step of the way to the node fail in each
// way. Whatever happens, in the end the pod runs with one claim, or it is gone and
// nothing is left of it.
func TestExtendedResourcesSurvive(t *testing.T) {
	header := []string{"what happens at the step"}
	for _, s := range steps {
		header = append(header, s.name)
	}
	rows := [][]string{header}
	for _, f := range faults {
		row := []string{f.name}
		for _, s := range steps {
			cell := ""
			t.Run(f.name+"/"+s.name, func(t *testing.T) {
				w := newStage(t, s, f)
				w.run(f)
				if !w.happened {
					t.Fatal("the step was not taken")
				}
				cell = w.verify()
			})
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	if !t.Failed() {
		compareTable(t, rows)
	}
}

func compareTable(t *testing.T, rows [][]string) {
	t.Helper()
	const file, begin, end = "../../docs/reliability.md", "<!-- table: go test ./kube/scheduler -run Survive -update -->\n", "<!-- end -->"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), begin)
	got, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table", file)
	}
	var want strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&want, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			want.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	if *updateTable {
		if err := os.WriteFile(file, []byte(before+begin+want.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want.String(), got); diff != "" {
		t.Errorf("%s is out of date, run the test with -update (-want +got):\n%s", file, diff)
	}
}
