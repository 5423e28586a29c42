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
			r := newRig(t, "", append([]runtime.Object{newClass(), newClaim("c"), newSlice("n1", newDevice("d1")), newSlice("n2", newDevice("d1")), newPod("v"), newPod("w"), newPod("x")}, tc.claims...)...)
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

// TestAbandonedDevices: nobody is evicted for devices that will be free anyway.
func TestAbandonedDevices(t *testing.T) {
	done := newPod("done")
	done.Status.Phase = v1.PodSucceeded
	replaced := newPod("replaced")
	replaced.UID = "another"
	for name, tc := range map[string]struct {
		consumers []string
		want      fwk.Code
	}{
		"gone":             {consumers: []string{"gone"}, want: fwk.UnschedulableAndUnresolvable},
		"done":             {consumers: []string{"done"}, want: fwk.UnschedulableAndUnresolvable},
		"replaced":         {consumers: []string{"replaced"}, want: fwk.UnschedulableAndUnresolvable},
		"running":          {consumers: []string{"running"}, want: fwk.Unschedulable},
		"running and gone": {consumers: []string{"running", "gone"}, want: fwk.Unschedulable},
		"nobody":           {want: fwk.Unschedulable},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "", newClass(), newClaim("c"), newSlice("n1", newDevice("d1")), used("a", "n1", "d1", tc.consumers...), done, replaced, newPod("running"))
			c := r.cycle(newPod("p", "c"))
			r.succeed("PreFilter", c.preFilter())
			if got := c.filter("n1"); got.Code() != tc.want {
				t.Errorf("got %s: %s, want %s", got.Code(), got.Message(), tc.want)
			}
		})
	}
}

// TestAbandonedDevicesSaveVictims: of two devices that are needed one becomes
// free anyway.
func TestAbandonedDevicesSaveVictims(t *testing.T) {
	claim := newClaim("c")
	claim.Spec.Devices.Requests[0].Exactly.Count = 2
	r := newRig(t, "", newClass(), claim, newSlice("n1", newDevice("d1"), newDevice("d2"), newDevice("d3")), newPod("v"), newPod("w"),
		used("a", "n1", "d1", "gone"), used("b", "n1", "d2", "v"), used("d", "n1", "d3", "w"))
	c := r.cycle(newPod("p", "c"))
	r.succeed("PreFilter", c.preFilter())
	if got := c.filter("n1"); got.Code() != fwk.Unschedulable {
		t.Errorf("got %s: %s", got.Code(), got.Message())
	}
	simulated := c.state.Clone()
	r.succeed("RemovePod", r.plugin.RemovePod(r.ctx, simulated, c.pod, podInfo(t, newPod("v", "b")), nil))
	r.succeed("Filter", r.plugin.Filter(r.ctx, simulated, c.pod, nodeInfo("n1")))
}

// TestNominatedPod: somebody was evicted for it, so others leave it its devices.
func TestNominatedPod(t *testing.T) {
	small := withProfile("small", "small")
	large := withProfile("large", "large")
	for name, tc := range map[string]struct {
		devices []resourceapi.Device
		// nominated is the claim of the pod that is nominated to the node.
		nominated *resourceapi.ResourceClaim
		want      fwk.Code
		// wantDevice is what the pod gets.
		wantDevice string
	}{
		"nothing is left":             {devices: []resourceapi.Device{small}, nominated: newClaim("n"), want: fwk.UnschedulableAndUnresolvable},
		"enough for both":             {devices: []resourceapi.Device{small, large}, nominated: newClaim("n"), want: fwk.Success},
		"it needs the one, not other": {devices: []resourceapi.Device{small, large}, nominated: wanting("n", "small"), want: fwk.Success, wantDevice: "large"},
		"it cannot be satisfied":      {devices: []resourceapi.Device{small}, nominated: unknownClass(newClaim("n")), want: fwk.Success, wantDevice: "small"},
		"it has its devices":          {devices: []resourceapi.Device{small, large}, nominated: allocated(newClaim("n"), "n1", "large"), want: fwk.Success, wantDevice: "small"},
		"it shares the claim":         {devices: []resourceapi.Device{small}, want: fwk.Success, wantDevice: "small"},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []runtime.Object{newClass(), newClaim("c"), newSlice("n1", tc.devices...)}
			nominated := newPod("nominated", "c")
			if tc.nominated != nil {
				objects = append(objects, tc.nominated)
				nominated = newPod("nominated", "n")
			}
			r := newRig(t, "", objects...)
			c := r.cycle(newPod("p", "c"))
			r.succeed("PreFilter", c.preFilter())
			// As the framework does: first with the nominated pod, then, if that
			// succeeds, without.
			with := c.state.Clone()
			r.succeed("AddPod", r.plugin.AddPod(r.ctx, with, c.pod, podInfo(t, nominated), nil))
			got := r.plugin.Filter(r.ctx, with, c.pod, nodeInfo("n1"))
			if got.Code() != tc.want {
				t.Fatalf("got %s: %s, want %s", got.Code(), got.Message(), tc.want)
			}
			if !got.IsSuccess() {
				return
			}
			r.succeed("Filter", c.filter("n1"))
			r.succeed("Reserve", c.reserve("n1"))
			if device, _ := c.pending("c"); tc.wantDevice != "" && device != tc.wantDevice {
				t.Errorf("got %s, want %s", device, tc.wantDevice)
			}
		})
	}
}

func unknownClass(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	claim.Spec.Devices.Requests[0].Exactly.DeviceClassName = "nope"
	return claim
}
