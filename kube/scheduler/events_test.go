// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/inventory"
)

// partitions is a card with two halves and a device that is not part of it, in
// one slice per kind.
func partitions(node string) (counters, devices *resourceapi.ResourceSlice) {
	counters, devices = newSlice(node), newSlice(node)
	counters.Name, devices.Name = node+"-counters", node+"-devices"
	counters.Spec.Pool.ResourceSliceCount, devices.Spec.Pool.ResourceSliceCount = 2, 2
	counters.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "card", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse("2")}}}}
	half := func(name, profile string) resourceapi.Device {
		d := withProfile(name, profile)
		d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "card", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse("1")}}}}
		return d
	}
	devices.Spec.Devices = []resourceapi.Device{half("half", "half"), half("other-half", "other"), withProfile("apart", "apart")}
	return counters, devices
}

func withProfile(name, profile string) resourceapi.Device {
	d := newDevice(name)
	d.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"profile": {StringValue: &profile}}
	return d
}

// wanting returns a claim that asks for a profile.
func wanting(name, profile string) *resourceapi.ResourceClaim {
	claim := newClaim(name)
	claim.Spec.Devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{
		CEL: &resourceapi.CELDeviceSelector{Expression: `device.attributes["gpu.example.com"].profile == "` + profile + `"`},
	}}
	return claim
}

func TestHints(t *testing.T) {
	counters, devices := partitions("n1")
	labelled := newNode("n1")
	labelled.Labels["a"] = "b"
	otherClass := newClass()
	otherClass.Name = "other"
	sameClass := newClass()
	sameClass.Labels = map[string]string{"a": "b"}
	newerClass := newClass()
	newerClass.Spec.Selectors = nil
	statusOnly := func(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
		claim = claim.DeepCopy()
		claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{UID: "x"}}
		return claim
	}
	finalizer := wanting("half", "half")
	finalizer.Finalizers = []string{"x"}
	r := newRig(t, "", newClass(), counters, devices, wanting("half", "half"), wanting("apart", "apart"),
		allocated(newClaim("here"), "n1", "apart"), allocated(newClaim("there"), "n2", "d1"))
	// Queueing hints look at the snapshot of the last attempt.
	r.succeed("PreFilter", r.cycle(newPod("warm", "half")).preFilter())
	gone := allocated(newClaim("gone"), "n1", "other-half")

	type change struct{ before, after any }
	claims := func(before, after *resourceapi.ResourceClaim) change {
		c := change{}
		if before != nil {
			c.before = before
		}
		if after != nil {
			c.after = after
		}
		return c
	}
	for name, tc := range map[string]struct {
		hint   fwk.QueueingHintFn
		pod    *v1.Pod
		change change
		want   fwk.QueueingHint
	}{
		"a node for a pod that needs devices":   {r.plugin.hints.afterNodeChange, newPod("p", "half"), change{nil, newNode("n1")}, fwk.Queue},
		"a node where the claim is":             {r.plugin.hints.afterNodeChange, newPod("p", "here"), change{newNode("n1"), labelled}, fwk.Queue},
		"a node where the claim is not":         {r.plugin.hints.afterNodeChange, newPod("p", "there"), change{newNode("n1"), labelled}, fwk.QueueSkip},
		"a node for a pod without claim":        {r.plugin.hints.afterNodeChange, newPod("p", "nope"), change{nil, newNode("n1")}, fwk.QueueSkip},
		"the claim appears":                     {r.plugin.hints.afterClaimChange, newPod("p", "half"), claims(nil, wanting("half", "half")), fwk.Queue},
		"another claim appears":                 {r.plugin.hints.afterClaimChange, newPod("p", "half"), claims(nil, wanting("apart", "apart")), fwk.QueueSkip},
		"the claim's status changes":            {r.plugin.hints.afterClaimChange, newPod("p", "half"), claims(wanting("half", "half"), statusOnly(wanting("half", "half"))), fwk.Queue},
		"something else of the claim changes":   {r.plugin.hints.afterClaimChange, newPod("p", "half"), claims(wanting("half", "half"), finalizer), fwk.QueueSkip},
		"its counters become free":              {r.plugin.hints.afterClaimChange, newPod("p", "half"), claims(gone, newClaim("gone")), fwk.Queue},
		"a claim with its counters is deleted":  {r.plugin.hints.afterClaimChange, newPod("p", "half"), claims(gone, nil), fwk.Queue},
		"counters of others become free":        {r.plugin.hints.afterClaimChange, newPod("p", "apart"), claims(gone, newClaim("gone")), fwk.QueueSkip},
		"an unknown device becomes free":        {r.plugin.hints.afterClaimChange, newPod("p", "half"), claims(allocated(newClaim("gone"), "n9", "d"), newClaim("gone")), fwk.Queue},
		"devices for a pod that needs none":     {r.plugin.hints.afterClaimChange, newPod("p", "here"), claims(gone, newClaim("gone")), fwk.QueueSkip},
		"a claim is deleted unseen":             {r.plugin.hints.afterClaimChange, newPod("p", "half"), change{cache.DeletedFinalStateUnknown{}, nil}, fwk.Queue},
		"the pod's claims are complete":         {r.plugin.hints.afterPodChange, newPod("p", "half"), change{newPod("p"), newPod("p", "half")}, fwk.Queue},
		"the pod's claims are incomplete":       {r.plugin.hints.afterPodChange, newPod("p", "half"), change{newPod("p"), newPod("p", "half", "nope")}, fwk.QueueSkip},
		"a pod leaves before it was bound":      {r.plugin.hints.afterPodGone, newPod("p", "half"), change{newPod("q", "apart"), nil}, fwk.Queue},
		"a pod leaves that ran":                 {r.plugin.hints.afterPodGone, newPod("p", "half"), change{newPod("q", "here"), nil}, fwk.QueueSkip},
		"a pod without claims leaves":           {r.plugin.hints.afterPodGone, newPod("p", "half"), change{newPod("q"), nil}, fwk.QueueSkip},
		"the class appears":                     {r.plugin.hints.afterClassChange, newPod("p", "half"), change{nil, newClass()}, fwk.Queue},
		"the class changes":                     {r.plugin.hints.afterClassChange, newPod("p", "half"), change{newClass(), newerClass}, fwk.Queue},
		"the class gets a label":                {r.plugin.hints.afterClassChange, newPod("p", "half"), change{newClass(), sameClass}, fwk.QueueSkip},
		"another class appears":                 {r.plugin.hints.afterClassChange, newPod("p", "half"), change{nil, otherClass}, fwk.QueueSkip},
		"a slice with such a device appears":    {r.plugin.hints.afterSliceChange, newPod("p", "half"), change{nil, newSlice("n3", withProfile("d", "half"))}, fwk.Queue},
		"a slice without such a device appears": {r.plugin.hints.afterSliceChange, newPod("p", "half"), change{nil, newSlice("n3", withProfile("d", "apart"))}, fwk.QueueSkip},
		"such a device disappears":              {r.plugin.hints.afterSliceChange, newPod("p", "half"), change{newSlice("n3", withProfile("d", "half")), newSlice("n3")}, fwk.Queue},
		"a slice is deleted":                    {r.plugin.hints.afterSliceChange, newPod("p", "half"), change{newSlice("n3", withProfile("d", "half")), nil}, fwk.Queue},
		"a slice stays the same":                {r.plugin.hints.afterSliceChange, newPod("p", "half"), change{newSlice("n3", withProfile("d", "half")), newSlice("n3", withProfile("d", "half"))}, fwk.QueueSkip},
		"a pool becomes complete":               {r.plugin.hints.afterSliceChange, newPod("p", "half"), change{nil, counters}, fwk.Queue},
		"a slice for a pod that needs none":     {r.plugin.hints.afterSliceChange, newPod("p", "here"), change{nil, newSlice("n3", withProfile("d", "half"))}, fwk.QueueSkip},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.hint(klog.Background(), tc.pod, tc.change.before, tc.change.after)
			if err != nil {
				t.Fatal(err)
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestPodsForClaimChange(t *testing.T) {
	template := newPod("t")
	template.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "g", ResourceClaimTemplateName: new("tpl")}}
	template.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "g", ResourceClaimName: new("c")}}
	elsewhere := newPod("p", "c")
	elsewhere.Namespace = "other"
	r := newRig(t, "", newPod("p", "c"), newPod("q", "d"), template, elsewhere)
	names := func(pods ...string) fwk.PreQueueingHintResult {
		var result fwk.PreQueueingHintResult
		for _, pod := range pods {
			result.Pods = append(result.Pods, types.NamespacedName{Namespace: "ns", Name: pod})
		}
		return result
	}
	for name, tc := range map[string]struct {
		before, after any
		want          fwk.PreQueueingHintResult
	}{
		"appears":           {nil, newClaim("c"), names("p", "t")},
		"changes":           {newClaim("c"), newClaim("c"), names("p", "t")},
		"is deleted":        {newClaim("c"), nil, names("p", "t")},
		"nobody uses it":    {nil, newClaim("e"), names()},
		"is deallocated":    {allocated(newClaim("c"), "n1", "d1"), newClaim("c"), fwk.PreQueueingHintResult{AllPods: true}},
		"deleted allocated": {allocated(newClaim("c"), "n1", "d1"), nil, fwk.PreQueueingHintResult{AllPods: true}},
		"deleted unseen":    {cache.DeletedFinalStateUnknown{}, nil, fwk.PreQueueingHintResult{AllPods: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := r.plugin.hints.podsForClaimChange(klog.Background(), tc.before, tc.after)
			if err != nil {
				t.Fatal(err)
			}
			sortNames := cmp.Transformer("sort", func(in []types.NamespacedName) map[types.NamespacedName]bool {
				out := map[types.NamespacedName]bool{}
				for _, n := range in {
					out[n] = true
				}
				return out
			})
			if diff := cmp.Diff(tc.want, got, sortNames); diff != "" {
				t.Errorf("unexpected pods (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSignPod(t *testing.T) {
	r := newRig(t, "")
	if _, got := r.plugin.SignPod(r.ctx, newPod("p")); !got.IsSuccess() {
		t.Errorf("without claims: got %s", got.Code())
	}
	if _, got := r.plugin.SignPod(r.ctx, newPod("p", "c")); got.Code() != fwk.Unschedulable {
		t.Errorf("with claims: got %s", got.Code())
	}
}

// TestFailuresGoWithTheClaim: nothing is remembered about claims that are gone.
func TestFailuresGoWithTheClaim(t *testing.T) {
	r := newRig(t, "", newClaim("c"))
	uid := newClaim("c").UID
	r.plugin.ledger.Failures.Add(uid, []inventory.DeviceID{{Device: "d1"}})
	if err := r.api.client.ResourceV1().ResourceClaims("ns").Delete(r.ctx, "c", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventually("the claim is forgotten", func() bool {
		return len(r.plugin.ledger.Failures.Of(uid)) == 0
	})
}
