// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// condition is what the framework writes into the condition of a pod that was refused
// on the nodes, which are filtered in that order.
func (c *cycle) condition(nodes ...string) string {
	c.t.Helper()
	c.succeed("PreFilter", c.preFilter())
	statuses := framework.NewDefaultNodeToStatus()
	for _, node := range nodes {
		status := c.filter(node)
		if status.IsSuccess() {
			c.t.Fatalf("the pod fits on %s", node)
		}
		status.SetPlugin(Name)
		statuses.Set(node, status)
	}
	_, status := c.plugin.PostFilter(c.ctx, c.state, c.pod, statuses)
	for _, node := range nodes {
		if got := statuses.Get(node).Plugin(); got != Name {
			c.t.Errorf("the status of %s is one of plugin %q", node, got)
		}
	}
	fit := &framework.FitError{Pod: c.pod, NumAllNodes: len(nodes), Diagnosis: framework.Diagnosis{NodeToStatus: statuses, PostFilterMsg: status.Message()}}
	return fit.Error()
}

// event is the event of PostFilter, empty where there is none.
func (r *rig) event() string {
	select {
	case event := <-r.recorder.Events:
		return event
	default:
		return ""
	}
}

// TestConditionNamesHolders of the pod's own namespace, and counts the others: nobody
// who reads the condition may learn their names.
func TestConditionNamesHolders(t *testing.T) {
	theirs := newClaim("secret")
	theirs.Namespace = "elsewhere"
	r := newRig(t, "", newClass(), newClaim("c"), newSlice("n1", newDevice("d1")), newSlice("n2", newDevice("d1")), newSlice("n3", newDevice("d1")),
		allocated(newClaim("y"), "n1", "d1"), allocated(theirs, "n2", "d1"), allocated(newClaim("x"), "n3", "d1"))
	got := r.cycle(newPod("p", "c")).condition("n2", "n1", "n3")
	const want = "0/3 nodes are available: 3 cannot allocate all claims: r: needs 1 device, none of 1 that matches is left: 1 in use; held by ns/x, ns/y and 1 claim in another namespace."
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if event := r.event(); event != "" {
		t.Errorf("there is nothing to add, but the event %q", event)
	}
}

// TestConditionNamesPools: nodes in the same situation are counted, whatever their pools.
func TestConditionNamesPools(t *testing.T) {
	var objects []runtime.Object
	var nodes []string
	for i := range 8 {
		node := fmt.Sprint("n", i)
		nodes = append(nodes, node)
		whole := newSlice(node, newDevice("other"))
		whole.Name, whole.Spec.Pool.Name = node+"-other", node+"-other"
		objects = append(objects, incomplete(newSlice(node, newDevice("d1"))), whole)
	}
	claim := newClaim("c")
	claim.Spec.Devices.Requests[0].Exactly.AllocationMode, claim.Spec.Devices.Requests[0].Exactly.Count = resourceapi.DeviceAllocationModeAll, 0
	r := newRig(t, "", append(objects, newClass(), claim)...)
	got := r.cycle(newPod("p", "c")).condition(nodes...)
	const want = "0/8 nodes are available: 8 cannot allocate all claims: claim c, request r: asks for all devices, but pools n0, n1, n2, n3 and 4 more of gpu.example.com are incomplete: 1 of 2 slices published."
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	got = r.cycle(newPod("p", "c")).condition("n3")
	const one = "0/1 nodes are available: 1 cannot allocate all claims: claim c, request r: asks for all devices, but pool gpu.example.com/n3 is incomplete: 1 of 2 slices of generation 0 published (slice n3)."
	if got != one {
		t.Errorf("got  %s\nwant %s", got, one)
	}
}

// TestConditionTellsMostFirst: nodes without devices of the class do not have a reason of
// their own, which would stand before what there is to tell of others. Where they are all
// nodes there is nothing else.
func TestConditionTellsMostFirst(t *testing.T) {
	r := newRig(t, "", newClass(), newClaim("c"), newSlice("n1", newDevice("d1")), allocated(newClaim("x"), "n1", "d1"))
	for _, tc := range []struct {
		nodes []string
		want  string
	}{
		{[]string{"n0", "n1"}, "0/2 nodes are available: 1 cannot allocate all claims: r: needs 1 device, none of 1 that matches is left: 1 in use; held by ns/x; 1 other node has no device of a class that is asked for."},
		{[]string{"n0", "n1", "n2", "n3"}, "0/4 nodes are available: 1 cannot allocate all claims: r: needs 1 device, none of 1 that matches is left: 1 in use; held by ns/x; 3 other nodes have no device of a class that is asked for."},
		{[]string{"n2", "n3"}, "0/2 nodes are available: 2 cannot allocate all claims."},
	} {
		if got := r.cycle(newPod("p", "c")).condition(tc.nodes...); got != tc.want {
			t.Errorf("got  %s\nwant %s", got, tc.want)
		}
	}
}

// TestConditionIsBounded: where each node has a reason of its own, those that tell most
// are told, the same ones whatever the order of the nodes. The rest is counted.
func TestConditionIsBounded(t *testing.T) {
	var objects []runtime.Object
	var nodes []string
	for i := range 60 {
		node := fmt.Sprintf("n%02d", i)
		nodes = append(nodes, node)
		small := newDevice("d1")
		small.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: *resource.NewQuantity(int64(i), resource.DecimalSI)}}
		objects = append(objects, newSlice(node, small))
	}
	// Two nodes have what the pod needs, in use by others.
	for _, node := range []string{"n57", "n58"} {
		big := newDevice("d2")
		big.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}}
		slice := newSlice(node, big)
		slice.Name, slice.Spec.Pool.Name = node+"-big", node+"-big"
		objects = append(objects, slice, allocated(newClaim("x-"+node), node+"-big", "d2"))
	}
	claim := newClaim("c")
	claim.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
		Expression: `device.capacity["gpu.example.com"].memory.compareTo(quantity("16Gi")) >= 0`,
	}}}
	r := newRig(t, "", append(objects, newClass(), claim)...)
	got := r.cycle(newPod("p", "c")).condition(nodes...)
	event := r.event()
	if len(got) > maxNote-100 || len(event) > maxNote+len("Warning DevicesUnavailable ") {
		t.Errorf("a condition of %d bytes, an event of %d", len(got), len(event))
	}
	for _, want := range []string{
		"2 cannot allocate all claims: r: needs 1 device, none of 1 that matches is left: 1 in use; held by ns/x-n57 and ns/x-n58",
		"1 cannot allocate all claims: r: needs 1 device, none of 1 of class gpu matches the selectors (gpu.example.com/memory: 16Gi asked, 0 at most)",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	if !strings.HasSuffix(got, " cannot allocate all claims.") {
		t.Errorf("the other nodes are not counted in %s", got)
	}
	if !strings.HasPrefix(event, "Warning DevicesUnavailable 1 cannot allocate all claims: r: needs 1 device, none of 1 of class gpu matches") {
		t.Errorf("got the event %q", event)
	}
	slices.Reverse(nodes)
	if again := r.cycle(newPod("p", "c")).condition(nodes...); again != got {
		t.Errorf("in another order the nodes give\n%s\nnot\n%s", again, got)
	}
	if again := r.event(); again != event {
		t.Errorf("in another order the nodes give the event\n%s\nnot\n%s", again, event)
	}
}

// TestRefusalKeepsItsCode when its reason is completed.
func TestRefusalKeepsItsCode(t *testing.T) {
	r := newRig(t, "", newClass(), newClaim("c"), newSlice("n1", newDevice("d1")), allocated(newClaim("x"), "n1", "d1"))
	c := r.cycle(newPod("p", "c"))
	r.succeed("PreFilter", c.preFilter())
	status := c.filter("n1")
	before := status.Message()
	r.succeed("PostFilter", postFilter(c))
	if status.Code() != fwk.Unschedulable || status.Message() != before+"; held by ns/x" {
		t.Errorf("got %s: %s, before that %s", status.Code(), status.Message(), before)
	}
}
