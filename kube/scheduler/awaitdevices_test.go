// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
)

// setConditions sets conditions of the first device of a claim, as a driver does.
func (r *rig) setConditions(claim string, at time.Time, conditions ...string) *resourceapi.ResourceClaim {
	r.t.Helper()
	return r.api.change(r.t, claim, func(c *resourceapi.ResourceClaim) { addConditions(c, at, conditions...) })
}

func addConditions(c *resourceapi.ResourceClaim, at time.Time, conditions ...string) {
	result := c.Status.Allocation.Devices.Results[0]
	status := resourceapi.AllocatedDeviceStatus{Driver: result.Driver, Pool: result.Pool, Device: result.Device}
	for _, condition := range conditions {
		status.Conditions = append(status.Conditions, metav1.Condition{
			Type: condition, Status: metav1.ConditionTrue, Reason: "Test", Message: "said the test", LastTransitionTime: metav1.NewTime(at),
		})
	}
	c.Status.Devices = []resourceapi.AllocatedDeviceStatus{status}
}

// preBindAsync runs PreBind and waits until it waits.
func (c *cycle) preBindAsync(node string) <-chan *fwk.Status {
	c.t.Helper()
	done := make(chan *fwk.Status, 1)
	go func() { done <- c.preBind(node) }()
	c.eventually("PreBind waits", func() bool { return c.clock.HasWaiters() })
	return done
}

// result returns what PreBind returned in the end.
func (c *cycle) result(done <-chan *fwk.Status) *fwk.Status {
	c.t.Helper()
	select {
	case status := <-done:
		return status
	case <-time.After(patience):
		c.t.Fatal("PreBind does not return")
		return nil
	}
}

func fabricRig(t *testing.T, devices ...string) (*rig, *cycle) {
	t.Helper()
	pod := newPod("p", "c")
	var published []resourceapi.Device
	for _, d := range devices {
		published = append(published, fabricDevice(d))
	}
	r := newRig(t, `{"bindingTimeout":"10s"}`, newClass(), newSlice("n1", published...), newClaim("c"), pod)
	return r, r.cycle(pod)
}

func TestBindsWhenConditionsAreTrue(t *testing.T) {
	r, c := fabricRig(t, "f0")
	c.place("n1")
	done := c.preBindAsync("n1")
	r.expect("c", []string{"f0"}, []string{"uid-p"})
	if got := <-r.recorder.Events; !strings.Contains(got, "BindingConditionsPending") {
		t.Errorf("got event %q", got)
	}
	// Something that does not matter does not end the wait.
	r.seen(r.setConditions("c", start, "other"))
	r.setConditions("c", start, "attached")
	r.succeed("PreBind", c.result(done))
	r.expect("c", []string{"f0"}, []string{"uid-p"})
}

func TestReadyFromTheStart(t *testing.T) {
	r, c := fabricRig(t, "f0")
	c.place("n1")
	done := c.preBindAsync("n1")
	r.setConditions("c", start, "attached")
	r.succeed("PreBind", c.result(done))
	c.unreserveAfterRestart(r)
}

// unreserveAfterRestart runs the attempt that follows when the scheduler restarts
// after PreBind: everything is ready.
func (c *cycle) unreserveAfterRestart(r *rig) {
	c.t.Helper()
	r.seen(r.api.claim(r.t, "c"))
	again := r.cycle(c.pod)
	again.bind("n1")
}

func TestFailureConditionFreesTheDevice(t *testing.T) {
	r, c := fabricRig(t, "f0", "f1")
	c.place("n1")
	done := c.preBindAsync("n1")
	r.setConditions("c", start, "attach-failed")
	got := c.result(done)
	want := "binding failed: claim ns/c: device gpu.example.com/n1/f0: condition attach-failed is true: Test: said the test"
	if got.Code() != fwk.Unschedulable || got.Message() != want {
		t.Errorf("got %s: %q, want %q", got.Code(), got.Message(), want)
	}
	// At once, not when the framework gets round to it.
	r.expect("c", nil, nil)
	c.unreserve("n1")
	r.expect("c", nil, nil)
	r.seen(r.api.claim(t, "c"))

	// The pod is back in the queue when its condition arrives.
	if n := r.activated.count(); n != 0 {
		t.Errorf("the pod was activated %d times before it is in the queue", n)
	}
	c.refused(got.Message())
	r.eventually("the pod is activated", func() bool { return r.activated.count() == 1 })

	// The next attempt takes the other device.
	next := r.cycle(c.pod)
	next.place("n1")
	done = next.preBindAsync("n1")
	r.expect("c", []string{"f1"}, []string{"uid-p"})
	r.setConditions("c", start, "attached")
	r.succeed("PreBind", next.result(done))
}

// refused writes the pod's condition as the framework does.
func (c *cycle) refused(reason string) {
	c.t.Helper()
	pod := c.pod.DeepCopy()
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: reason}}
	if _, err := c.api.client.CoreV1().Pods("ns").UpdateStatus(c.ctx, pod, metav1.UpdateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// TestSameDeviceAgain: where there is no other device the one that failed is
// tried again, but not immediately.
func TestSameDeviceAgain(t *testing.T) {
	r, c := fabricRig(t, "f0")
	for range 2 {
		c = r.cycle(c.pod)
		c.place("n1")
		done := c.preBindAsync("n1")
		r.expect("c", []string{"f0"}, []string{"uid-p"})
		r.setConditions("c", r.clock.Now(), "attach-failed")
		got := c.result(done)
		c.unreserve("n1")
		r.seen(r.api.claim(t, "c"))
		c.refused(got.Message())
		r.clock.Step(time.Second)
	}
	r.plugin.ledger.Retries.Started(c.pod.UID)
	if n := r.activated.count(); n > 1 {
		t.Errorf("the pod was activated %d times, want once for the first failure", n)
	}
}

func TestTimeoutFreesTheDevice(t *testing.T) {
	r, c := fabricRig(t, "f0")
	c.place("n1")
	done := c.preBindAsync("n1")
	r.clock.Step(10 * time.Second)
	got := c.result(done)
	want := "binding timeout: claim ns/c: not ready within 10s: device gpu.example.com/n1/f0: waits for condition attached"
	if got.Code() != fwk.Unschedulable || got.Message() != want {
		t.Errorf("got %s: %q, want %q", got.Code(), got.Message(), want)
	}
	r.expect("c", nil, nil)
}

// TestTimeoutSurvivesRestart: an attempt that finds the claim allocated waits
// for what is left of the time.
func TestTimeoutSurvivesRestart(t *testing.T) {
	r, c := fabricRig(t, "f0")
	c.place("n1")
	ctx, kill := context.WithCancel(r.ctx)
	done := make(chan *fwk.Status, 1)
	go func() { done <- r.plugin.PreBind(ctx, c.state, c.pod, "n1") }()
	r.eventually("PreBind waits", func() bool { return r.clock.HasWaiters() })
	kill()
	if got := c.result(done); got.Code() != fwk.Error {
		t.Errorf("got %s: %s", got.Code(), got.Message())
	}
	r.seen(r.api.claim(t, "c"))
	r.eventually("the timer ends", func() bool { return !r.clock.HasWaiters() })

	r.clock.Step(9 * time.Second)
	again := r.cycle(c.pod)
	again.place("n1")
	done2 := again.preBindAsync("n1")
	r.clock.Step(time.Second)
	if got := again.result(done2); !strings.Contains(got.Message(), "binding timeout") {
		t.Errorf("got %s: %s", got.Code(), got.Message())
	}
	r.expect("c", nil, nil)
}

// TestFoundBroken: what failed while no scheduler was there is given up by
// PostFilter.
func TestFoundBroken(t *testing.T) {
	for name, tc := range map[string]struct {
		conditions []string
		elapsed    time.Duration
		want       string
	}{
		"failure": {conditions: []string{"attach-failed"}, want: "binding failed"},
		"timeout": {elapsed: 10 * time.Second, want: "binding timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			r, c := fabricRig(t, "f0", "f1")
			claim := r.api.change(t, "c", func(claim *resourceapi.ResourceClaim) {
				*claim = *allocatedFabric(claim, "f0", "uid-p")
				addConditions(claim, start, tc.conditions...)
			})
			r.seen(claim)
			r.clock.Step(tc.elapsed)
			got := c.preFilter()
			if got.Code() != fwk.UnschedulableAndUnresolvable || !strings.Contains(got.Message(), tc.want) {
				t.Errorf("PreFilter: got %s: %s", got.Code(), got.Message())
			}
			_, got = r.plugin.PostFilter(r.ctx, c.state, c.pod, nil)
			if got.Code() != fwk.UnschedulableAndUnresolvable || !strings.Contains(got.Message(), "giving up the allocation of claim ns/c") {
				t.Errorf("PostFilter: got %s: %s", got.Code(), got.Message())
			}
			r.idle()
			r.expect("c", nil, nil)
			r.seen(r.api.claim(t, "c"))
			next := r.cycle(c.pod)
			next.place("n1")
			if found, _ := next.pending("c"); found != "f1" {
				t.Errorf("the next attempt takes %s, want f1", found)
			}
		})
	}
}

// pending returns the device that is reserved for a claim.
func (c *cycle) pending(claim string) (string, bool) {
	allocation := c.manager.ResourceClaims().GetPendingAllocation(newClaim(claim).UID)
	if allocation == nil {
		return "", false
	}
	return allocation.Devices.Results[0].Device, true
}

func allocatedFabric(claim *resourceapi.ResourceClaim, device string, consumers ...string) *resourceapi.ResourceClaim {
	claim = allocated(claim, "n1", device)
	result := &claim.Status.Allocation.Devices.Results[0]
	result.BindingConditions, result.BindingFailureConditions = []string{"attached"}, []string{"attach-failed"}
	for _, uid := range consumers {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: uid, UID: newPod(strings.TrimPrefix(uid, "uid-")).UID})
	}
	return claim
}

// TestSharedClaimIsNotCleared: somebody else may run with what failed for this
// pod.
func TestSharedClaimIsNotCleared(t *testing.T) {
	r, c := fabricRig(t, "f0")
	c.place("n1")
	done := c.preBindAsync("n1")
	r.seen(r.api.change(t, "c", func(claim *resourceapi.ResourceClaim) {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: "q", UID: "uid-q"})
	}))
	r.setConditions("c", start, "attach-failed")
	if got := c.result(done); !strings.Contains(got.Message(), "binding failed") {
		t.Errorf("got %s", got.Message())
	}
	c.unreserve("n1")
	r.expect("c", []string{"f0"}, []string{"uid-q"})
}

// TestReservedAtTheLastMoment: the write that gives the allocation up fails if the
// claim was reserved by somebody else in between.
func TestReservedAtTheLastMoment(t *testing.T) {
	r, c := fabricRig(t, "f0")
	c.place("n1")
	done := c.preBindAsync("n1")
	var once sync.Once
	r.api.onWrite(func(clienttesting.Action) error {
		once.Do(func() {
			r.api.change(t, "c", func(claim *resourceapi.ResourceClaim) {
				claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: "q", UID: "uid-q"})
			})
		})
		return nil
	}, nil)
	r.setConditions("c", start, "attach-failed")
	if got := c.result(done); !strings.Contains(got.Message(), "binding failed") {
		t.Errorf("got %s", got.Message())
	}
	c.unreserve("n1")
	r.expect("c", []string{"f0"}, []string{"uid-q"})
}

func TestWhatEndsTheWait(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(r *rig)
		want   string
	}{
		"deallocated": {
			change: func(r *rig) {
				r.api.change(r.t, "c", func(c *resourceapi.ResourceClaim) { c.Status = resourceapi.ResourceClaimStatus{} })
			},
			want: "claim ns/c got deallocated elsewhere in the meantime",
		},
		"not reserved any more": {
			change: func(r *rig) {
				r.api.change(r.t, "c", func(c *resourceapi.ResourceClaim) { c.Status.ReservedFor = nil })
			},
			want: "claim ns/c is not reserved for the pod any more",
		},
		"deleted": {
			change: func(r *rig) {
				if err := r.api.client.Tracker().Delete(claimResource, "ns", "c"); err != nil {
					r.t.Fatal(err)
				}
			},
			want: "claim ns/c",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, c := fabricRig(t, "f0")
			c.place("n1")
			done := c.preBindAsync("n1")
			tc.change(r)
			wantError(c, c.result(done), tc.want)
			c.unreserve("n1")
		})
	}
}
