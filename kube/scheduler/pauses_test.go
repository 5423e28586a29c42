// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/kube/scheduler/ledger"
)

const pausePrefix = "the search for devices gave up "

// fail lets the search of a new attempt for the pod give up, up to PostFilter.
func (r *rig) fail(pod *v1.Pod) {
	r.t.Helper()
	c := r.cycle(pod)
	r.succeed("PreFilter", c.preFilter())
	c.attempt().purses.attempt.left.Store(1)
	if got := c.filter("n1"); !strings.HasPrefix(got.Message(), "gave up after ") {
		r.t.Fatalf("Filter: got %s: %q", got.Code(), got.Message())
	}
	r.succeed("PostFilter", postFilter(c))
}

// paused returns what a new attempt for the pod says, empty where it goes on.
func (r *rig) paused(pod *v1.Pod) string {
	r.t.Helper()
	status := r.cycle(pod).preFilter()
	if status.IsSuccess() {
		return ""
	}
	if status.Code() != fwk.UnschedulableAndUnresolvable || !strings.HasPrefix(status.Message(), pausePrefix) {
		r.t.Fatalf("PreFilter: got %s: %q", status.Code(), status.Message())
	}
	return status.Message()
}

func (r *rig) pausesKept() int {
	return r.plugin.ledger.Pauses.Count()
}

// pauseRig has a pod that can be placed.
func pauseRig(t *testing.T) (*rig, *v1.Pod) {
	t.Helper()
	pod := newPod("p", "c")
	r := newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), newClaim("c"), pod)
	return r, pod
}

// TestPausesGrow: each is twice as long as the one before. When it is over the pod
// comes back, not before.
func TestPausesGrow(t *testing.T) {
	r, pod := pauseRig(t)
	for i, seconds := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
		length := time.Duration(seconds) * time.Second
		r.fail(pod)
		got := r.paused(pod)
		if at := r.clock.Now().Add(length).Format(time.RFC3339); !strings.Contains(got, " and is tried again at "+at+"; the last time: gave up after ") {
			t.Errorf("pause %d: got %q, want %s", i+1, got, at)
		}
		r.clock.Step(length - 1)
		if r.paused(pod) == "" || r.activated.count() != i {
			t.Fatalf("pause %d of %s ended early", i+1, length)
		}
		r.clock.Step(1)
		if got := r.paused(pod); got != "" || r.activated.count() != i+1 {
			t.Fatalf("pause %d of %s: %d activations, refused because %q", i+1, length, r.activated.count(), got)
		}
	}
}

// TestPausesForgotten: the first pause of a pod is short again.
func TestPausesForgotten(t *testing.T) {
	for name, forget := range map[string]func(r *rig, pod *v1.Pod){
		"success": func(r *rig, pod *v1.Pod) {
			r.clock.Step(time.Minute)
			c := r.cycle(pod)
			c.place("n1")
			c.unreserve("n1")
		},
		"deletion": func(r *rig, pod *v1.Pod) {
			if err := r.api.client.CoreV1().Pods("ns").Delete(r.ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
				r.t.Fatal(err)
			}
			r.eventually("the pod is forgotten", func() bool { return r.pausesKept() == 0 })
		},
		"quiet": func(r *rig, _ *v1.Pod) { r.clock.Step(2*time.Second + ledger.PauseMemory + 1) },
	} {
		t.Run(name, func(t *testing.T) {
			r, pod := pauseRig(t)
			r.fail(pod)
			r.clock.Step(time.Second)
			r.fail(pod)
			if got := r.paused(pod); !strings.HasPrefix(got, pausePrefix+"2 times and is tried again at "+r.clock.Now().Add(2*time.Second).Format(time.RFC3339)) {
				t.Fatalf("before: got %q", got)
			}
			forget(r, pod)
			r.fail(pod)
			if got := r.paused(pod); !strings.HasPrefix(got, pausePrefix+"once and ") {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestPauseOfPodThatIsGone: nobody is brought back when the pause ends.
func TestPauseOfPodThatIsGone(t *testing.T) {
	r, pod := pauseRig(t)
	r.fail(pod)
	replaced := pod.DeepCopy()
	replaced.UID = "another"
	if _, err := r.api.client.CoreV1().Pods("ns").Update(r.ctx, replaced, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("the other pod of the name arrives", func() bool {
		got, err := r.plugin.ledger.Users.Lister.Pods("ns").Get("p")
		return err == nil && got.UID == "another"
	})
	r.clock.Step(time.Second)
	if n := r.activated.count(); n != 0 || r.pausesKept() != 0 {
		t.Errorf("%d activations, %d pauses kept", n, r.pausesKept())
	}
}

// TestPauseEndsWithTheQuestion: a pod is tried at once where its class or its claims
// are others than those that the search gave up on.
func TestPauseEndsWithTheQuestion(t *testing.T) {
	r, pod := pauseRig(t)
	r.fail(pod)
	if r.paused(pod) == "" {
		t.Fatal("the pod has no pause")
	}
	class := newClass()
	class.Generation++
	class.Spec.Selectors = nil
	if _, err := r.api.client.ResourceV1().DeviceClasses().Update(r.ctx, class, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("the class arrives", func() bool {
		got, err := r.manager.DeviceClasses().Get(class.Name)
		return err == nil && got.Generation == class.Generation
	})
	if got, err := r.plugin.hints.afterClassChange(klog.Background(), pod, newClass(), class); err != nil || got != fwk.Queue {
		t.Errorf("hint for the changed class: got %s, %v", got, err)
	}
	r.fail(pod)
	if got := r.paused(pod); !strings.HasPrefix(got, pausePrefix+"2 times and is tried again at "+start.Add(2*time.Second).Format(time.RFC3339)) {
		t.Errorf("after the class changed: got %q", got)
	}
	r.clock.Step(time.Second)
	if n := r.activated.count(); n != 0 {
		t.Error("the timer of the first pause was not stopped")
	}

	r.seen(r.api.change(t, "c", func(c *resourceapi.ResourceClaim) { *c = *allocated(c, "n1", "d1") }))
	if got := r.paused(pod); got != "" {
		t.Errorf("after the claim was allocated: got %q", got)
	}
}

// TestPauseKeepsNomination: a pod whose search gave up on a node may preempt on
// another. It is tried there during its pause, and nowhere else.
func TestPauseKeepsNomination(t *testing.T) {
	r, pod := pauseRig(t)
	r.fail(pod)
	nominated := pod.DeepCopy()
	nominated.Status.NominatedNodeName = "n1"
	c := r.cycle(nominated)
	result, status := r.plugin.PreFilter(r.ctx, c.state, nominated, nil)
	r.succeed("PreFilter", status)
	if result == nil || !result.NodeNames.Equal(sets.New("n1")) {
		t.Errorf("got %v, want n1 only", result)
	}
	r.succeed("Filter", c.filter("n1"))
	r.succeed("Reserve", c.reserve("n1"))
	if r.pausesKept() != 0 {
		t.Error("the pod keeps its pause")
	}
}

// TestPausesClose: no timer is left, and none begins.
func TestPausesClose(t *testing.T) {
	r, pod := pauseRig(t)
	r.fail(pod)
	if !r.clock.HasWaiters() {
		t.Fatal("no timer")
	}
	r.plugin.ledger.Pauses.Close()
	r.plugin.ledger.Pauses.Lengthen(pod, "", nil)
	if r.clock.HasWaiters() || r.pausesKept() != 0 {
		t.Error("there is still a timer")
	}
}

// TestStrain: where a search gave up, the pods of the namespace get a part of what others
// get, and find what is easy to find.
func TestStrain(t *testing.T) {
	r, pod := pauseRig(t)
	other := newPod("other", "c")
	limits := func() (most int64) {
		c := r.cycle(other)
		r.succeed("PreFilter", c.preFilter())
		r.succeed("Filter", c.filter("n1"))
		return c.attempt().purses.attempt.most
	}
	if got := limits(); got != attemptWork {
		t.Errorf("before: a search may take %d, want %d", got, attemptWork)
	}
	r.fail(pod)
	if got := limits(); got != attemptWork/strainedPart {
		t.Errorf("after a search gave up: another may take %d, want %d", got, attemptWork/strainedPart)
	}
	if r.plugin.ledger.Pauses.Strained("elsewhere") {
		t.Error("another namespace is strained")
	}
	r.clock.Step(ledger.StrainMemory)
	if got := limits(); got != attemptWork {
		t.Errorf("later: a search may take %d, want %d", got, attemptWork)
	}
}
