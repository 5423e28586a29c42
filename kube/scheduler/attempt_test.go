// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
)

// expect compares what a claim holds and who uses it.
func (r *rig) expect(claim string, devices, consumers []string) {
	r.t.Helper()
	got := r.api.claim(r.t, claim)
	if diff := cmp.Diff(devices, devicesOf(got)); diff != "" {
		r.t.Errorf("claim %s: unexpected devices (-want +got):\n%s", claim, diff)
	}
	if diff := cmp.Diff(consumers, consumersOf(got)); diff != "" {
		r.t.Errorf("claim %s: unexpected consumers (-want +got):\n%s", claim, diff)
	}
}

func TestBind(t *testing.T) {
	r := newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), newClaim("c"))
	r.cycle(newPod("p", "c")).bind("n1")

	r.expect("c", []string{"d1"}, []string{"uid-p"})
	claim := r.api.claim(t, "c")
	if !slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
		t.Error("the finalizer is missing")
	}
	if got := claim.Status.Allocation.AllocationTimestamp; got == nil || !got.Time.Equal(start) {
		t.Errorf("got timestamp %v, want %v", got, start)
	}
	if diff := cmp.Diff([]string{"update c", "update/status c"}, r.api.writes()); diff != "" {
		t.Errorf("unexpected writes (-want +got):\n%s", diff)
	}
	if r.manager.ResourceClaims().GetPendingAllocation("uid-c") != nil {
		t.Error("the allocation is still pending")
	}
	// Known at once, without waiting for an event.
	if got := r.cycle(newPod("other", "c2")).preFilter(); got.IsSuccess() {
		t.Error("a pod with an unknown claim passed PreFilter")
	}
	seen, err := r.manager.ResourceClaims().Get("ns", "c")
	if err != nil || seen.Status.Allocation == nil {
		t.Errorf("got claim %v, error %v; want it allocated in the cache", seen, err)
	}
}

func TestPodWithoutClaims(t *testing.T) {
	r := newRig(t, "")
	c := r.cycle(newPod("p"))
	if got := c.preFilter(); !got.IsSkip() {
		t.Errorf("PreFilter: got %s, want Skip", got.Code())
	}
	r.succeed("Filter", c.filter("n1"))
	r.succeed("Reserve", c.reserve("n1"))
	if _, got := r.plugin.PreBindPreFlight(r.ctx, c.state, c.pod, "n1"); !got.IsSkip() {
		t.Errorf("PreBindPreFlight: got %s, want Skip", got.Code())
	}
	r.succeed("PreBind", c.preBind("n1"))
	c.unreserve("n1")
}

func TestReservedDevicesAreTaken(t *testing.T) {
	r := newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), newClaim("a"), newClaim("b"), newPod("p1", "a"))
	first := r.cycle(newPod("p1", "a"))
	first.place("n1")

	second := r.cycle(newPod("p2", "b"))
	r.succeed("PreFilter", second.preFilter())
	if got := second.filter("n1"); got.Code() != fwk.Unschedulable {
		t.Errorf("got %s, want Unschedulable while the device is reserved", got.Code())
	}
	first.unreserve("n1")
	r.cycle(newPod("p2", "b")).bind("n1")
	r.expect("a", nil, nil)
	r.expect("b", []string{"d1"}, []string{"uid-p2"})
}

func TestClaimInFlight(t *testing.T) {
	r := newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), newClaim("c"))
	r.cycle(newPod("p1", "c")).place("n1")
	got := r.cycle(newPod("p2", "c")).preFilter()
	if got.Code() != fwk.UnschedulableAndUnresolvable || !strings.Contains(got.Message(), "ns/c is in the process of being allocated") {
		t.Errorf("got %s: %s", got.Code(), got.Message())
	}
}

func TestUnreserve(t *testing.T) {
	reply := errors.New("connection lost")
	for name, tc := range map[string]struct {
		// fail makes a step of the attempt fail.
		fail func(c *cycle)
		// wantPatched is set where only the reservation is taken back.
		wantDevices, wantConsumers []string
	}{
		"before PreBind": {fail: func(*cycle) {}},
		"after PreBind":  {fail: func(c *cycle) { c.succeed("PreBind", c.preBind("n1")) }},
		"PreBind fails at the finalizer": {fail: func(c *cycle) {
			c.api.onWrite(func(clienttesting.Action) error { return reply }, nil)
			wantError(c, c.preBind("n1"), "add finalizer to claim ns/c")
			c.api.onWrite(nil, nil)
		}},
		"PreBind fails at the status": {fail: func(c *cycle) {
			c.api.onWrite(func(a clienttesting.Action) error {
				if a.GetSubresource() == "status" {
					return reply
				}
				return nil
			}, nil)
			wantError(c, c.preBind("n1"), "add allocation and reservation to claim ns/c")
			c.api.onWrite(nil, nil)
		}},
		"the reply to the status write is lost": {fail: func(c *cycle) {
			c.api.onWrite(nil, func(a clienttesting.Action) error {
				if a.GetSubresource() == "status" {
					return reply
				}
				return nil
			})
			wantError(c, c.preBind("n1"), "connection lost")
			c.api.onWrite(nil, nil)
		}},
		"the pod was bound after all": {
			fail: func(c *cycle) {
				c.succeed("PreBind", c.preBind("n1"))
				bound := c.pod.DeepCopy()
				bound.Spec.NodeName = "n1"
				if _, err := c.api.client.CoreV1().Pods("ns").Update(c.ctx, bound, metav1.UpdateOptions{}); err != nil {
					c.t.Fatal(err)
				}
			},
			wantDevices: []string{"d1"}, wantConsumers: []string{"uid-p"},
		},
		"somebody else reserved the claim": {
			fail: func(c *cycle) {
				c.succeed("PreBind", c.preBind("n1"))
				c.seen(c.api.claim(c.t, "c"))
				c.rig.cycle(newPod("other", "c")).bind("n1")
			},
			wantDevices: []string{"d1"}, wantConsumers: []string{"uid-other"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod("p", "c")
			r := newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), newClaim("c"), pod)
			c := r.cycle(pod)
			c.place("n1")
			tc.fail(c)
			c.unreserve("n1")
			c.unreserve("n1")
			r.expect("c", tc.wantDevices, tc.wantConsumers)
			if r.manager.ResourceClaims().GetPendingAllocation("uid-c") != nil {
				t.Error("the allocation is still pending")
			}
			r.seen(r.api.claim(t, "c"))
			if len(tc.wantDevices) == 0 {
				r.cycle(newPod("p", "c")).bind("n1")
			}
		})
	}
}

func wantError(c *cycle, status *fwk.Status, part string) {
	c.t.Helper()
	if status.Code() != fwk.Error || !strings.Contains(status.Message(), part) {
		c.t.Fatalf("got %s: %q, want an error with %q", status.Code(), status.Message(), part)
	}
}

// TestWhatUnreserveLeaves: a pod that finds its claim allocated and reserved, as
// after a restart of the scheduler, does not undo that.
func TestWhatUnreserveLeaves(t *testing.T) {
	pod := newPod("p", "c")
	r := newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), newClaim("c"), pod)
	r.cycle(pod).bind("n1")
	r.seen(r.api.claim(t, "c"))

	again := r.cycle(pod)
	again.bind("n1")
	again.unreserve("n1")
	r.expect("c", []string{"d1"}, []string{"uid-p"})
}

func TestSharedClaim(t *testing.T) {
	r := newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), newClaim("c"))
	r.cycle(newPod("p1", "c")).bind("n1")
	r.seen(r.api.claim(t, "c"))

	second := r.cycle(newPod("p2", "c"))
	r.succeed("PreFilter", second.preFilter())
	if got := second.filter("n2"); got.Code() != fwk.UnschedulableAndUnresolvable || !strings.Contains(got.Message(), "resourceclaim not available on the node") {
		t.Errorf("other node: got %s: %s", got.Code(), got.Message())
	}
	r.succeed("Filter", second.filter("n1"))
	r.succeed("Reserve", second.reserve("n1"))
	r.succeed("PreBind", second.preBind("n1"))
	r.expect("c", []string{"d1"}, []string{"uid-p1", "uid-p2"})

	second.unreserve("n1")
	r.expect("c", []string{"d1"}, []string{"uid-p1"})
}

func TestTooManyConsumers(t *testing.T) {
	claim := allocated(newClaim("c"), "n1", "d1")
	for i := range resourceapi.ResourceClaimReservedForMaxSize {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: "x", UID: types.UID(rune('a' + i))})
	}
	r := newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), claim)
	got := r.cycle(newPod("p", "c")).preFilter()
	if got.Code() != fwk.UnschedulableAndUnresolvable || !strings.Contains(got.Message(), "resourceclaim in use: claim ns/c has 256 consumers") {
		t.Errorf("got %s: %s", got.Code(), got.Message())
	}
}

// TestConcurrentChanges changes the claim between Reserve and PreBind, without
// the plugin knowing.
func TestConcurrentChanges(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*resourceapi.ResourceClaim)
		// wantErr is empty where the attempt goes on.
		wantErr string
	}{
		"a label": {change: func(c *resourceapi.ResourceClaim) { c.Labels = map[string]string{"a": "b"} }},
		"allocated elsewhere": {
			change:  func(c *resourceapi.ResourceClaim) { *c = *allocated(c, "n2", "d2") },
			wantErr: "claim ns/c got allocated elsewhere in the meantime",
		},
		"deletion": {
			change:  func(c *resourceapi.ResourceClaim) { c.DeletionTimestamp = &metav1.Time{Time: start} },
			wantErr: "claim ns/c got deleted in the meantime",
		},
		"a new claim of the same name": {
			change:  func(c *resourceapi.ResourceClaim) { c.UID = "other" },
			wantErr: "claim ns/c got deleted and created anew in the meantime",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), newClaim("c"))
			c := r.cycle(newPod("p", "c"))
			c.place("n1")
			r.api.change(t, "c", tc.change)
			got := c.preBind("n1")
			if tc.wantErr == "" {
				r.succeed("PreBind", got)
				r.expect("c", []string{"d1"}, []string{"uid-p"})
				return
			}
			wantError(c, got, tc.wantErr)
			before := r.api.claim(t, "c")
			c.unreserve("n1")
			if diff := cmp.Diff(before, r.api.claim(t, "c")); diff != "" {
				t.Errorf("Unreserve changed what is not the attempt's (-want +got):\n%s", diff)
			}
		})
	}
}

// TestClaimGoneOrMoved changes an allocated claim under a second consumer.
func TestClaimGoneOrMoved(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*resourceapi.ResourceClaim)
		wantErr string
	}{
		"deallocated": {
			change:  func(c *resourceapi.ResourceClaim) { c.Status = resourceapi.ResourceClaimStatus{} },
			wantErr: "may not be specified when allocation is not set",
		},
		"moved": {
			change:  func(c *resourceapi.ResourceClaim) { *c = *allocated(c, "n2", "d2") },
			wantErr: "claim ns/c got allocated elsewhere in the meantime",
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod("p", "c")
			r := newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), allocated(newClaim("c"), "n1", "d1"), pod)
			c := r.cycle(pod)
			c.place("n1")
			r.api.change(t, "c", tc.change)
			wantError(c, c.preBind("n1"), tc.wantErr)
			c.unreserve("n1")
			if got := consumersOf(r.api.claim(t, "c")); len(got) != 0 {
				t.Errorf("the claim is still reserved for %v", got)
			}
		})
	}
}

func TestClaimDeletedBeforePreBind(t *testing.T) {
	r := newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), newClaim("c"))
	c := r.cycle(newPod("p", "c"))
	c.place("n1")
	if err := r.api.client.Tracker().Delete(claimResource, "ns", "c"); err != nil {
		t.Fatal(err)
	}
	got := c.preBind("n1")
	if err := got.AsError(); !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "ns/c") {
		t.Errorf("got %v, want a NotFound that names the claim", err)
	}
	c.unreserve("n1")
}

func TestPreEnqueue(t *testing.T) {
	deleted := newClaim("deleted")
	deleted.DeletionTimestamp = &metav1.Time{Time: start}
	deleted.Finalizers = []string{"x"}
	foreign := newClaim("foreign")
	r := newRig(t, "", newClaim("c"), deleted, foreign)
	template := newPod("p")
	template.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "t", ResourceClaimTemplateName: new("tpl")}}
	generated := template.DeepCopy()
	generated.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "t", ResourceClaimName: new("foreign")}}
	for name, tc := range map[string]struct {
		pod  *v1.Pod
		want string
	}{
		"no claims":           {pod: newPod("p")},
		"claim":               {pod: newPod("p", "c")},
		"missing":             {pod: newPod("p", "c", "nope"), want: "ns/nope"},
		"deleted":             {pod: newPod("p", "deleted"), want: `resourceclaim "deleted" is being deleted`},
		"not generated":       {pod: template, want: "not created yet"},
		"somebody else's own": {pod: generated, want: "was not created for"},
	} {
		t.Run(name, func(t *testing.T) {
			got := r.plugin.PreEnqueue(r.ctx, tc.pod)
			if tc.want == "" {
				r.succeed("PreEnqueue", got)
				return
			}
			if got.Code() != fwk.UnschedulableAndUnresolvable || !strings.Contains(got.Message(), tc.want) {
				t.Errorf("got %s: %q, want %q", got.Code(), got.Message(), tc.want)
			}
		})
	}
}

// allocated returns the claim with a device of the pool of a node.
func allocated(claim *resourceapi.ResourceClaim, node, device string) *resourceapi.ResourceClaim {
	claim = claim.DeepCopy()
	if !slices.Contains(claim.Finalizers, resourceapi.Finalizer) {
		claim.Finalizers = append(claim.Finalizers, resourceapi.Finalizer)
	}
	claim.Status.Allocation = &resourceapi.AllocationResult{
		Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{
			Request: "r", Driver: driver, Pool: node, Device: device,
		}}},
		NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{node}}},
		}}},
		AllocationTimestamp: &metav1.Time{Time: start},
	}
	return claim
}

// TestDeviceGivenOutTwice: another scheduler gave the device to a second claim. It
// stays taken when one of the two is gone, and both are told.
func TestDeviceGivenOutTwice(t *testing.T) {
	r := newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), newClaim("c"),
		used("a", "n1", "d1", "x"), used("b", "n1", "d1", "y"), newPod("x"), newPod("y"))
	refused := func(when string) {
		t.Helper()
		c := r.cycle(newPod("p", "c"))
		r.succeed("PreFilter", c.preFilter())
		if got := c.filter("n1"); got.IsSuccess() {
			t.Errorf("%s: the device was given out a third time", when)
		}
	}
	refused("held twice")
	for range 2 {
		if got := <-r.recorder.Events; got != "Warning DeviceAllocatedTwice device gpu.example.com/n1/d1 is also allocated to 1 other claim(s)" {
			t.Errorf("got event %q", got)
		}
	}
	r.seen(r.api.change(t, "a", func(c *resourceapi.ResourceClaim) { c.Status = resourceapi.ResourceClaimStatus{} }))
	refused("held once")
	r.seen(r.api.change(t, "b", func(c *resourceapi.ResourceClaim) { c.Status = resourceapi.ResourceClaimStatus{} }))
	r.eventually("the device is free", func() bool {
		c := r.cycle(newPod("p", "c"))
		r.succeed("PreFilter", c.preFilter())
		return c.filter("n1").IsSuccess()
	})
}

// TestClaimWithoutRequests: there is nothing to find, also where there is nothing.
func TestClaimWithoutRequests(t *testing.T) {
	claim := newClaim("c")
	claim.Spec.Devices.Requests = nil
	pod := newPod("p", "c")
	r := newRig(t, "", claim, pod)
	r.cycle(pod).bind("n1")
	r.expect("c", nil, []string{"uid-p"})
}
