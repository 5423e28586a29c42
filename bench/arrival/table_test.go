// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package arrival

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/kube/scheduler"
	"kerf.dev/kerf/sandbox"
)

var (
	table  = flag.Bool("table", false, "print the table")
	rounds = flag.Int("rounds", 20, "rounds of the table")
)

const driver = "gpu.example.com"

// kinds are the pods that are compared, in the order in which they take turns.
var kinds = []kind{
	{"stock: device is ready", "stock", false},
	{"kerf: device is ready", "default-scheduler", false},
	{"kerf: device is handed over", "default-scheduler", true},
}

type kind struct {
	name, scheduler string
	// handedOver: the device has another name on the node.
	handedOver bool
}

// profiles has the stock scheduler beside kerf's.
func profiles() []byte {
	return []byte(scheduler.DefaultConfiguration() + "\n- schedulerName: stock\n")
}

func TestTable(t *testing.T) {
	n := 1
	if *table {
		n = *rounds
	}
	s, err := sandbox.Start(t.Context(), sandbox.Options{Nodes: 1, ParentDir: t.TempDir(), Scheduler: &sandbox.SchedulerOptions{
		Plugins: frameworkruntime.Registry{scheduler.Name: scheduler.New}, Config: profiles(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}()
	r := &rig{t: t, ctx: t.Context(), Sandbox: s}
	r.publish(n * len(kinds))
	waits := make([][]time.Duration, len(kinds))
	for round := range n {
		for i, k := range kinds {
			waits[i] = append(waits[i], r.measure(k, fmt.Sprintf("%d-%d", round, i), pollPeriod*time.Duration(round)/time.Duration(n)))
		}
	}
	if !*table {
		return
	}
	fmt.Printf("| %-28s | %7s | %7s | %7s |\n|%s|%s:|%s:|%s:|\n", "condition true until bound", "median", "p90", "worst", strings.Repeat("-", 30), strings.Repeat("-", 8), strings.Repeat("-", 8), strings.Repeat("-", 8))
	for i, k := range kinds {
		slices.Sort(waits[i])
		at := func(part float64) string {
			return waits[i][int(part*float64(len(waits[i])-1))].Round(time.Millisecond).String()
		}
		fmt.Printf("| %-28s | %7s | %7s | %7s |\n", k.name, at(0.5), at(0.9), at(1))
	}
}

// pollPeriod is that of the stock plugin while it waits. The devices of the rounds
// arrive at moments spread over it.
const pollPeriod = 5 * time.Second

type rig struct {
	*sandbox.Sandbox
	t   *testing.T
	ctx context.Context
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func pointer[T any](v T) *T { return &v }

// publish offers devices that have to become ready, and others by whose names they
// are handed over. The class has only the former: the latter are kept by a taint
// that no claim tolerates.
func (r *rig) publish(n int) {
	r.t.Helper()
	_, err := r.Client().ResourceV1().DeviceClasses().Create(r.ctx, &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}, metav1.CreateOptions{})
	r.must(err)
	offered := resourceapi.ResourceSliceSpec{Driver: driver, Pool: resourceapi.ResourcePool{Name: "shelf", ResourceSliceCount: 1}, AllNodes: pointer(true)}
	local := resourceapi.ResourceSliceSpec{Driver: driver, Pool: resourceapi.ResourcePool{Name: "node-1", ResourceSliceCount: 1}, NodeName: pointer("node-1")}
	for i := range n {
		offered.Devices = append(offered.Devices, resourceapi.Device{
			Name: fmt.Sprintf("f%d", i), BindsToNode: pointer(true),
			BindingConditions: []string{v1alpha1.ConditionAttached}, BindingFailureConditions: []string{v1alpha1.ConditionAttachFailed},
		})
		local.Devices = append(local.Devices, resourceapi.Device{
			Name:   fmt.Sprintf("gpu-f%d", i),
			Taints: []resourceapi.DeviceTaint{{Key: "fabric.kerf.dev/arriving", Value: "somebody", Effect: resourceapi.DeviceTaintEffectNoSchedule}},
		})
	}
	for name, spec := range map[string]resourceapi.ResourceSliceSpec{"shelf": offered, "local": local} {
		_, err := r.Client().ResourceV1().ResourceSlices().Create(r.ctx, &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
		r.must(err)
	}
}

// measure has a pod wait for a device, says that it is there, and returns how long
// it took until the pod was bound.
func (r *rig) measure(k kind, name string, delay time.Duration) time.Duration {
	r.t.Helper()
	claims, pods := r.Client().ResourceV1().ResourceClaims("default"), r.Client().CoreV1().Pods("default")
	only := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()}
	_, err := claims.Create(r.ctx, &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name: "gpu", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: "gpu"},
		}}}},
	}, metav1.CreateOptions{})
	r.must(err)
	_, err = pods.Create(r.ctx, &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PodSpec{
			SchedulerName: k.scheduler, Containers: []v1.Container{{Name: "c", Image: "none"}},
			ResourceClaims: []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &name}},
		},
	}, metav1.CreateOptions{})
	r.must(err)

	claimEvents, err := claims.Watch(r.ctx, only)
	r.must(err)
	var claim *resourceapi.ResourceClaim
	for claim == nil || claim.Status.Allocation == nil {
		claim, _ = (<-claimEvents.ResultChan()).Object.(*resourceapi.ResourceClaim)
	}
	claimEvents.Stop()
	time.Sleep(delay)

	podEvents, err := pods.Watch(r.ctx, only)
	r.must(err)
	defer podEvents.Stop()
	ready := r.ready(claim, k.handedOver)
	_, err = claims.UpdateStatus(r.ctx, ready, metav1.UpdateOptions{})
	r.must(err)
	began := time.Now()
	for event := range podEvents.ResultChan() {
		if pod, ok := event.Object.(*v1.Pod); ok && pod.Spec.NodeName != "" {
			return time.Since(began)
		}
	}
	r.t.Fatalf("pod %s was not bound", name)
	return 0
}

// ready is the claim with its device attached.
func (r *rig) ready(claim *resourceapi.ResourceClaim, handedOver bool) *resourceapi.ResourceClaim {
	result := claim.Status.Allocation.Devices.Results[0]
	status := resourceapi.AllocatedDeviceStatus{
		Driver: result.Driver, Pool: result.Pool, Device: result.Device,
		Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionAttached, Status: metav1.ConditionTrue, Reason: "Attached", LastTransitionTime: metav1.Now(),
		}},
	}
	if handedOver {
		data, err := json.Marshal(v1alpha1.Arrival{
			TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.ArrivalKind},
			Target:   &v1alpha1.DeviceReference{Driver: driver, Pool: "node-1", Device: "gpu-" + result.Device},
		})
		r.must(err)
		status.Data = &runtime.RawExtension{Raw: data}
	}
	ready := claim.DeepCopy()
	ready.Status.Devices = []resourceapi.AllocatedDeviceStatus{status}
	return ready
}
