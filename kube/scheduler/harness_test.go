// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
	clocktesting "k8s.io/utils/clock/testing"
)

// patience is how long tests wait for what has to come.
const patience = time.Minute

func TestMain(m *testing.M) {
	metrics.Register()
	SurviveTrackerPanics()
	goleak.VerifyTestMain(m,
		// Queues of the event broadcaster and klog live as long as the process.
		goleak.IgnoreTopFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
	)
}

// rig is a plugin with everything around it.
type rig struct {
	t         *testing.T
	ctx       context.Context
	api       *apiServer
	plugin    *Plugin
	clock     *clocktesting.FakeClock
	recorder  *events.FakeRecorder
	activated *activations
	manager   *dynamicresources.DefaultDRAManager
	tracker   *resourceslicetracker.Tracker
}

// reach has the parts of the plugin reach the API server through another client.
func (r *rig) reach(client kubernetes.Interface) {
	pl := r.plugin
	pl.writer.Client, pl.status.client, pl.handover.Client, pl.specialClaims.Client = client, client, client, client
}

// stand has the parts of the plugin stand in another framework.
func (r *rig) stand(handle fwk.Handle) {
	pl := r.plugin
	pl.handle, pl.lookup.handle, pl.refusals.handle, pl.keepers.handle = handle, handle, handle, handle
	pl.room.handle, pl.taints.Handle, pl.status.handle, pl.handover.Handle = handle, handle, handle, handle
}

// activations are the pods that were activated.
type activations struct {
	mutex sync.Mutex
	pods  []string
}

func (a *activations) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for name := range pods {
		a.pods = append(a.pods, name)
	}
}

func (a *activations) count() int {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return len(a.pods)
}

// start is when the clock of a rig starts, on a full second.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newRig(t *testing.T, arguments string, objects ...runtime.Object) *rig {
	t.Helper()
	return newRigOn(t, arguments, newAPIServer(objects...))
}

// newRigOn starts a scheduler on an API server that has its own past.
func newRigOn(t *testing.T, arguments string, api *apiServer) *rig {
	t.Helper()
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	r := &rig{t: t, ctx: ctx, api: api, clock: clocktesting.NewFakeClock(start), recorder: events.NewFakeRecorder(1000), activated: &activations{}}
	factory := informers.NewSharedInformerFactory(r.api.client, 0)
	tracker, err := resourceslicetracker.StartTracker(ctx, resourceslicetracker.Options{
		EnableDeviceTaintRules: true,
		SliceInformer:          factory.Resource().V1().ResourceSlices(),
		TaintInformer:          factory.Resource().V1().DeviceTaintRules(),
		KubeClient:             r.api.client,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.tracker = tracker
	claims := assumecache.NewAssumeCache(klog.FromContext(ctx), factory.Resource().V1().ResourceClaims().Informer(), "resource claim", "", nil)
	r.manager = dynamicresources.NewDRAManager(ctx, claims, tracker, factory)
	handle, err := frameworkruntime.NewFramework(ctx, nil, nil,
		frameworkruntime.WithClientSet(r.api.client),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithEventRecorder(r.recorder),
		frameworkruntime.WithSharedDRAManager(r.manager),
		frameworkruntime.WithPodActivator(r.activated),
		frameworkruntime.WithSnapshotSharedLister(schedulercache.NewEmptySnapshot()),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
	)
	if err != nil {
		t.Fatal(err)
	}
	r.plugin, err = newPlugin(ctx, &runtime.Unknown{Raw: []byte(arguments)}, handle, r.clock)
	if err != nil {
		t.Fatal(err)
	}
	r.plugin.hints.dear.limit = patience // what hints say is not to depend on the machine
	synced := claims.AddEventHandler(cache.ResourceEventHandlerFuncs{})
	before := api.watches()
	factory.Start(ctx.Done())
	t.Cleanup(func() {
		if err := r.plugin.Close(); err != nil {
			t.Error(err)
		}
		cancel()
		factory.Shutdown()
		frameworkruntime.WaitForShutdown(handle)
	})
	factory.WaitForCacheSync(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced.HasSynced, tracker.HasSynced) {
		t.Fatal("caches did not sync")
	}
	// The fake client does not tell what happens between list and watch.
	for resource, n := range before {
		r.eventually(resource+" are watched", func() bool { return api.watches()[resource] > n })
	}
	return r
}

// cycle is one attempt to schedule a pod.
type cycle struct {
	*rig
	pod   *v1.Pod
	state fwk.CycleState
}

func (r *rig) cycle(pod *v1.Pod) *cycle {
	return &cycle{rig: r, pod: pod, state: framework.NewCycleState()}
}

func (c *cycle) preFilter() *fwk.Status {
	_, status := c.plugin.PreFilter(c.ctx, c.state, c.pod, nil)
	return status
}

func (c *cycle) filter(node string) *fwk.Status {
	return c.plugin.Filter(c.ctx, c.state, c.pod, nodeInfo(node))
}

func (c *cycle) reserve(node string) *fwk.Status {
	return c.plugin.Reserve(c.ctx, c.state, c.pod, node)
}

func (c *cycle) preBind(node string) *fwk.Status {
	return c.plugin.PreBind(c.ctx, c.state, c.pod, node)
}

func (c *cycle) unreserve(node string) {
	c.plugin.Unreserve(c.ctx, c.state, c.pod, node)
}

// place takes the pod up to PreBind, which it does not call.
func (c *cycle) place(node string) {
	c.t.Helper()
	c.placeOn(nodeInfo(node))
}

// placeOn is the same for a node that is not like the others.
func (c *cycle) placeOn(node fwk.NodeInfo) {
	c.t.Helper()
	c.succeed("PreFilter", c.preFilter())
	c.succeed("Filter", c.filterOn(node))
	c.succeed("Reserve", c.reserve(node.Node().Name))
}

// bind takes the pod through PreBind.
func (c *cycle) bind(node string) {
	c.t.Helper()
	c.place(node)
	c.succeed("PreBind", c.preBind(node))
}

func (r *rig) succeed(point string, status *fwk.Status) {
	r.t.Helper()
	if !status.IsSuccess() {
		r.t.Fatalf("%s: %s: %s", point, status.Code(), status.Message())
	}
}

// eventually waits until the condition holds.
func (r *rig) eventually(what string, condition func() bool) {
	r.t.Helper()
	err := wait.PollUntilContextTimeout(r.ctx, time.Millisecond, patience, true, func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		r.t.Fatalf("%s: %v", what, err)
	}
}

// idle waits until the plugin has done what it does beside the scheduling of pods.
func (r *rig) idle() {
	r.t.Helper()
	r.eventually("all chores are done", r.plugin.chores.Idle)
}

// seen waits until the plugin has seen the claim.
func (r *rig) seen(claim *resourceapi.ResourceClaim) {
	r.t.Helper()
	r.eventually("claim "+claim.Name+" arrives", func() bool {
		got, err := r.manager.ResourceClaims().Get(claim.Namespace, claim.Name)
		lister, lerr := r.plugin.handle.SharedInformerFactory().Resource().V1().ResourceClaims().Lister().ResourceClaims(claim.Namespace).Get(claim.Name)
		return err == nil && lerr == nil && got.ResourceVersion == claim.ResourceVersion && lister.ResourceVersion == claim.ResourceVersion
	})
}

func nodeInfo(name string) fwk.NodeInfo {
	info := framework.NewNodeInfo()
	info.SetNode(newNode(name))
	return info
}

func newNode(name string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}}}
}

const driver = "gpu.example.com"

// newClass is a class of all devices of the driver.
func newClass() *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu"},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{
			CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", driver)},
		}}},
	}
}

// newSlice is a pool of a node, named after it.
func newSlice(node string, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, Pool: resourceapi.ResourcePool{Name: node, ResourceSliceCount: 1}, NodeName: &node, Devices: devices,
		},
	}
}

func newDevice(name string) resourceapi.Device { return resourceapi.Device{Name: name} }

// fabricDevice has to become ready.
func fabricDevice(name string) resourceapi.Device {
	return resourceapi.Device{Name: name, BindingConditions: []string{"attached"}, BindingFailureConditions: []string{"attach-failed"}}
}

func newClaim(name string) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name:    "r",
			Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1},
		}}}},
	}
}

func newPod(name string, claims ...string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}}
	for _, claim := range claims {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, v1.PodResourceClaim{Name: claim, ResourceClaimName: &claim})
	}
	return pod
}

// devicesOf returns the names of the allocated devices.
func devicesOf(claim *resourceapi.ResourceClaim) []string {
	if claim.Status.Allocation == nil {
		return nil
	}
	var names []string
	for _, r := range claim.Status.Allocation.Devices.Results {
		names = append(names, r.Device)
	}
	return names
}

// consumersOf returns the UIDs in reservedFor, sorted.
func consumersOf(claim *resourceapi.ResourceClaim) []string {
	var uids []string
	for _, r := range claim.Status.ReservedFor {
		uids = append(uids, string(r.UID))
	}
	slices.Sort(uids)
	return uids
}
