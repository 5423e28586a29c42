// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func podInfo(t *testing.T, pod *v1.Pod) fwk.PodInfo {
	t.Helper()
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// used returns an allocated claim that the pods use.
func used(name, node, device string, pods ...string) *resourceapi.ResourceClaim {
	claim := allocated(newClaim(name), node, device)
	for _, pod := range pods {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod, UID: newPod(pod).UID})
	}
	return claim
}

func TestPreemptionFreesDevices(t *testing.T) {
	for name, tc := range map[string]struct {
		claims []runtime.Object
		// remove and add are pods with their claim.
		remove, add [][2]string
		want        fwk.Code
	}{
		"nobody goes":           {claims: []runtime.Object{used("a", "n1", "d1", "v")}, want: fwk.Unschedulable},
		"the only consumer":     {claims: []runtime.Object{used("a", "n1", "d1", "v")}, remove: [][2]string{{"v", "a"}}, want: fwk.Success},
		"one of two consumers":  {claims: []runtime.Object{used("a", "n1", "d1", "v", "w")}, remove: [][2]string{{"v", "a"}}, want: fwk.Unschedulable},
		"both consumers":        {claims: []runtime.Object{used("a", "n1", "d1", "v", "w")}, remove: [][2]string{{"v", "a"}, {"w", "a"}}, want: fwk.Success},
		"one comes back":        {claims: []runtime.Object{used("a", "n1", "d1", "v", "w")}, remove: [][2]string{{"v", "a"}, {"w", "a"}}, add: [][2]string{{"w", "a"}}, want: fwk.Unschedulable},
		"nobody's claim":        {claims: []runtime.Object{used("a", "n1", "d1")}, want: fwk.Unschedulable},
		"a device of elsewhere": {claims: []runtime.Object{used("a", "n1", "d1", "x"), used("b", "n2", "d1", "v")}, remove: [][2]string{{"v", "b"}}, want: fwk.Unschedulable},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "", append([]runtime.Object{newClass(), newClaim("c"), newSlice("n1", newDevice("d1")), newSlice("n2", newDevice("d1"))}, tc.claims...)...)
			c := r.cycle(newPod("p", "c"))
			r.succeed("PreFilter", c.preFilter())
			if got := c.filter("n1"); got.Code() != fwk.Unschedulable {
				t.Fatalf("before: got %s: %s", got.Code(), got.Message())
			}
			simulated := c.state.Clone()
			extensions := r.plugin.PreFilterExtensions()
			for _, pod := range tc.remove {
				r.succeed("RemovePod", extensions.RemovePod(r.ctx, simulated, c.pod, podInfo(t, newPod(pod[0], pod[1])), nil))
			}
			for _, pod := range tc.add {
				r.succeed("AddPod", extensions.AddPod(r.ctx, simulated, c.pod, podInfo(t, newPod(pod[0], pod[1])), nil))
			}
			got := r.plugin.Filter(r.ctx, simulated, c.pod, nodeInfo("n1"))
			if got.Code() != tc.want {
				t.Errorf("got %s: %s, want %s", got.Code(), got.Message(), tc.want)
			}
			// The simulation leaves nothing behind.
			if got := c.filter("n1"); got.Code() != fwk.Unschedulable {
				t.Errorf("afterwards: got %s: %s", got.Code(), got.Message())
			}
			if got := c.reserve("n1"); got.Code() != fwk.Error {
				t.Errorf("Reserve: got %s, want an error: no devices were found", got.Code())
			}
		})
	}
}

// TestPreemptionOfPodOnItsWay: the allocation of its claim has not been written.
func TestPreemptionOfPodOnItsWay(t *testing.T) {
	r := newRig(t, "", newClass(), newClaim("a"), newClaim("c"), newSlice("n1", newDevice("d1")))
	victim := newPod("v", "a")
	r.cycle(victim).place("n1")
	c := r.cycle(newPod("p", "c"))
	r.succeed("PreFilter", c.preFilter())
	r.succeed("RemovePod", r.plugin.RemovePod(r.ctx, c.state, c.pod, podInfo(t, victim), nil))
	r.succeed("Filter", c.filter("n1"))
}

// TestPreemptionKeepsOwnClaim: the devices of a claim that the pod shares with
// the victim do not become free.
func TestPreemptionKeepsOwnClaim(t *testing.T) {
	r := newRig(t, "", newClass(), used("shared", "n1", "d1", "v"), newClaim("c"), newSlice("n1", newDevice("d1")))
	c := r.cycle(newPod("p", "shared", "c"))
	r.succeed("PreFilter", c.preFilter())
	r.succeed("RemovePod", r.plugin.RemovePod(r.ctx, c.state, c.pod, podInfo(t, newPod("v", "shared")), nil))
	if got := c.filter("n1"); got.Code() != fwk.Unschedulable {
		t.Errorf("got %s: %s", got.Code(), got.Message())
	}
}
