// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
	"kerf.dev/kerf/inventory"
)

func guardedBy(guards ...v1alpha1.GuardKind) func(*v1alpha1.Fabric) {
	return func(f *v1alpha1.Fabric) { f.Spec.Guards = guards }
}

// sayGuarded writes the condition of an attachment's node.
func (r *rig) sayGuarded(ctx context.Context, name string, status metav1.ConditionStatus) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		o := &v1alpha1.DeviceAttachment{}
		if err := r.client.Get(ctx, client.ObjectKey{Name: name}, o); err != nil {
			return err
		}
		meta.SetStatusCondition(&o.Status.Conditions, metav1.Condition{Type: v1alpha1.AttachmentNodeGuarded, Status: status, Reason: "Test"})
		return r.client.Status().Update(ctx, o)
	})
}

// TestAllGuards has the manager called once all of them are acknowledged.
func TestAllGuards(t *testing.T) {
	r := stillRig(t, guardedBy(v1alpha1.GuardDeviceTaintRule, v1alpha1.GuardReservation, v1alpha1.GuardTaint))
	var called atomic.Bool
	r.beforeAttach = func(fabric.DeviceRef) {
		called.Store(true)
		if got := keptFor(r.offered()[offerOf("gpu-1")]); got != "uid-train" {
			t.Errorf("the manager is called while the device is published as kept for %q", got)
		}
		if rules := r.rules(); len(rules) != 1 || !seen(&rules[0]) {
			t.Errorf("the manager is called while there are rules %+v", rules)
		}
	}
	r.run()
	claim := r.claim("train", "gpu-1", "node-a")
	r.eventually("all but the node has acknowledged", func() bool {
		return r.phase() == string(fabric.PhaseGuarded) && keptFor(r.offered()[offerOf("gpu-1")]) == "uid-train"
	})
	a := r.attachments()[0]
	if a.Spec.Identity == nil || a.Spec.Identity.Attribute != "uuid" || !strings.HasPrefix(a.Spec.Identity.Value, "GPU-") {
		t.Errorf("the node is told identity %+v", a.Spec.Identity)
	}
	if called.Load() {
		t.Error("the manager was called before the node had acknowledged")
	}
	r.must(r.sayGuarded(t.Context(), a.Name, metav1.ConditionTrue))
	r.eventually("the device is at the host", func() bool { return len(r.service.Sees("host-a")) == 1 })
	r.drive("node-a", "host-a")
	r.eventually("the claim is told", func() bool { r.get(claim); return attached(claim) })
	if a := r.attachments()[0]; !meta.IsStatusConditionTrue(a.Status.Conditions, v1alpha1.AttachmentNodeGuarded) {
		t.Errorf("the node's condition is lost: %+v", a.Status.Conditions)
	}
}

// TestReservationAlone needs no rule, and no ear in the scheduler.
func TestReservationAlone(t *testing.T) {
	r := stillRig(t, guardedBy(v1alpha1.GuardReservation))
	r.deaf.Store(true)
	r.beforeAttach = func(fabric.DeviceRef) {
		d := r.offered()[offerOf("gpu-1")]
		if got := d.Attributes[inventory.ClaimAttribute].StringValue; keptFor(d) != "uid-train" || got == nil || *got != "uid-train" {
			t.Errorf("the manager is called while the device is published as %+v", d)
		}
	}
	r.run()
	claim := r.claim("train", "gpu-1", "node-a")
	r.eventually("the device is at the host", func() bool { return len(r.service.Sees("host-a")) == 1 })
	r.drive("node-a", "host-a")
	r.eventually("the claim is told", func() bool { r.get(claim); return attached(claim) })
	if n := len(r.rules()); n != 0 {
		t.Errorf("%d rules, want none", n)
	}
	r.allocate(claim, fabric.LocalDevice{Driver: gpuDriver, Pool: "node-a", Device: "gpu-0"}, "node-a")
	r.eventually("the device is not published any more", func() bool { return len(r.offered()) == 2 })
}

// TestNothingGuards says that a Fabric's guards cannot keep what it offers.
func TestNothingGuards(t *testing.T) {
	template := func(f *v1alpha1.Fabric) { f.Spec.Models[0].Template = true }
	for name, changes := range map[string][]func(*v1alpha1.Fabric){
		"template":    {guardedBy(v1alpha1.GuardReservation), template},
		"PCI address": {guardedBy(v1alpha1.GuardTaint), func(f *v1alpha1.Fabric) { f.Spec.Identity.Source = v1alpha1.IdentityPCIAddress }},
	} {
		r := stillRig(t, changes...)
		r.fabrics = r.newFabrics()
		_, err := r.fabrics.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: r.fabric.Name}})
		f := r.fabric.DeepCopy()
		r.get(f)
		c := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.FabricReady)
		if err == nil || c == nil || c.Reason != "Invalid" || !strings.Contains(c.Message, "spec.guards") || len(r.fabrics.loops) > 0 {
			t.Errorf("%s: error %v, condition %+v, want one about spec.guards and no loop", name, err, c)
		}
	}
	for name, f := range map[string]*v1alpha1.Fabric{
		"none":           {Spec: v1alpha1.FabricSpec{Models: []v1alpha1.DeviceModel{{Template: true}}}},
		"taint":          {Spec: v1alpha1.FabricSpec{Models: []v1alpha1.DeviceModel{{Template: true}}, Guards: []v1alpha1.GuardKind{v1alpha1.GuardTaint}}},
		"rule as well":   {Spec: v1alpha1.FabricSpec{Models: []v1alpha1.DeviceModel{{Template: true}}, Guards: []v1alpha1.GuardKind{v1alpha1.GuardReservation, v1alpha1.GuardDeviceTaintRule}}},
		"no template":    {Spec: v1alpha1.FabricSpec{Models: []v1alpha1.DeviceModel{{}}, Guards: []v1alpha1.GuardKind{v1alpha1.GuardReservation}}},
		"taint with PCI": {Spec: v1alpha1.FabricSpec{Identity: v1alpha1.DeviceIdentity{Source: v1alpha1.IdentityPCIAddress}, Guards: []v1alpha1.GuardKind{v1alpha1.GuardTaint, v1alpha1.GuardDeviceTaintRule}}},
	} {
		if err := checkGuards(f); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWhenRulesCountAsSeen looks at a rule at an age, in each mode.
func TestWhenRulesCountAsSeen(t *testing.T) {
	owner := &v1alpha1.DeviceAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u"}, Spec: v1alpha1.DeviceAttachmentSpec{Fabric: "shelf"}}
	said := func(status metav1.ConditionStatus, generation int64) []metav1.Condition {
		return []metav1.Condition{{Type: v1alpha1.RuleSeen, Status: status, ObservedGeneration: generation}}
	}
	for _, tc := range []struct {
		name       string
		mode       fabric.HandOver
		guard      fabric.Guard
		age        time.Duration
		conditions []metav1.Condition
		want       bool
		wakes      time.Duration // age at which it will be seen, zero for never
	}{
		{"old", fabric.Reallocate, fabric.GuardPool, time.Hour, nil, false, 0},
		{"seen", fabric.Reallocate, fabric.GuardPool, 0, said(metav1.ConditionTrue, 2), true, 0},
		{"seen before", fabric.Reallocate, fabric.GuardPool, 0, said(metav1.ConditionTrue, 1), false, 0},
		{"not seen", fabric.Reallocate, fabric.GuardPool, 0, said(metav1.ConditionFalse, 2), false, 0},
		{"drain", fabric.Reallocate, fabric.GuardDrain, 59 * time.Second, nil, false, time.Minute},
		{"drain seen", fabric.Reallocate, fabric.GuardDrain, 0, said(metav1.ConditionTrue, 2), true, 0},
		{"old drain", fabric.Reallocate, fabric.GuardDrain, time.Minute, nil, true, 0},
		{"any scheduler", fabric.Reschedule, fabric.GuardPool, 2 * time.Second, nil, false, 3 * time.Second},
		{"any scheduler, old", fabric.Reschedule, fabric.GuardPool, 3 * time.Second, nil, true, 0},
		{"any scheduler, seen", fabric.Resolve, fabric.GuardDrain, 0, said(metav1.ConditionTrue, 2), true, 0},
	} {
		policy := fabric.Policy{Fabric: "shelf", HandOver: tc.mode}
		g := newGuards(policy, func() time.Time { return t0.Add(tc.age) })
		rule := rulesFor(&fabric.SetGuard{Guard: tc.guard, Node: "n", Driver: gpuDriver}, owner, nil)[0]
		rule.CreationTimestamp, rule.Generation, rule.Status.Conditions = metav1.NewTime(t0), 2, tc.conditions
		g.set(fabric.New(policy), rule, false)
		if got, _ := g.status(g.seen["a"]); got.Acknowledged != tc.want {
			t.Errorf("%s: acknowledged %v, want %v", tc.name, got.Acknowledged, tc.want)
		}
		var wakes time.Time
		if tc.wakes > 0 {
			wakes = t0.Add(tc.wakes)
		}
		if !g.wake().Equal(wakes) {
			t.Errorf("%s: wakes at %v, want %v", tc.name, g.wake(), wakes)
		}
	}
}

// TestNodeWritesMeanwhile has the node write its condition all the time while a device
// goes to a claim and back.
func TestNodeWritesMeanwhile(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		for status := metav1.ConditionTrue; ctx.Err() == nil; {
			var list v1alpha1.DeviceAttachmentList
			err := r.client.List(ctx, &list)
			for i := range list.Items {
				err = errors.Join(err, r.sayGuarded(ctx, list.Items[i].Name, status))
			}
			if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				t.Error(err)
				return
			}
			if status == metav1.ConditionTrue {
				status = metav1.ConditionFalse
			} else {
				status = metav1.ConditionTrue
			}
			time.Sleep(time.Millisecond)
		}
	})
	r.thereAndBack()
	cancel()
	writer.Wait()
}

// TestSharedClaim has the events of a claim that two pods share reach both, and the
// device go back once the claim is gone.
func TestSharedClaim(t *testing.T) {
	r := newRig(t)
	claim := r.claim("train", "gpu-1", "node-a")
	claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: "pod-second", UID: "second"})
	r.must(r.client.Status().Update(t.Context(), claim))
	r.eventually("the device is at the host", func() bool { return len(r.service.Sees("host-a")) == 1 })
	r.drive("node-a", "host-a")
	r.eventually("both pods are told", func() bool {
		return r.events.has("Pod pod-train: Normal DeviceAttached") && r.events.has("Pod pod-second: Normal DeviceAttached")
	})
	r.get(claim)
	r.allocate(claim, fabric.LocalDevice{Driver: gpuDriver, Pool: "node-a", Device: "gpu-0"}, "node-a")
	r.eventually("the device is handed over", func() bool { return r.phase() == string(fabric.PhaseSettled) })
	// One of two pods ends: the claim stays.
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "pod-second", UID: "second"}}
	r.must(r.client.Status().Update(t.Context(), claim))
	r.quiet("the device is where it was", func() bool { return r.phase() == string(fabric.PhaseSettled) && len(r.service.Sees("host-a")) == 1 })
	r.must(r.client.Delete(t.Context(), claim))
	r.eventually("nothing is left of it", func() bool { return len(r.attachments()) == 0 && len(r.service.Sees("host-a")) == 0 })
}

// quiet checks that something stays true while the loop reads three more inventories.
func (r *rig) quiet(what string, holds func() bool) {
	r.t.Helper()
	reads := func() int { return r.service.Stats().Requests["GET /redfish/v1/CompositionService/ResourceBlocks"] }
	for end := reads() + 3; reads() < end; {
		r.eventually("another inventory is read", func() bool { return reads() >= end || !holds() })
		if !holds() {
			r.t.Fatalf("not any more: %s\n%s", what, r.show())
		}
	}
}

// TestRestartKeepsUsedDevices has successors detach nothing that is used, however late
// they learn of the claims.
func TestRestartKeepsUsedDevices(t *testing.T) {
	r := newRig(t, func(f *v1alpha1.Fabric) { f.Spec.IdleDetachAfter = &metav1.Duration{} })
	claim := r.claim("train", "gpu-1", "node-a")
	r.eventually("the device is at the host", func() bool { return len(r.service.Sees("host-a")) == 1 })
	r.drive("node-a", "host-a")
	r.eventually("the claim is told", func() bool { r.get(claim); return attached(claim) })
	r.allocate(claim, fabric.LocalDevice{Driver: gpuDriver, Pool: "node-a", Device: "gpu-0"}, "node-a")
	r.eventually("the device is handed over", func() bool { return r.phase() == string(fabric.PhaseSettled) })
	for range 3 {
		r.stop(r.fabrics)
		r.late = &late{released: make(chan struct{})}
		r.run()
		r.eventually("the controller waits for claims", func() bool { return r.late.asked.Load() > 3 })
		if r.phase() != string(fabric.PhaseSettled) || len(r.service.Sees("host-a")) != 1 {
			t.Fatalf("something is done before the claims are known\n%s", r.show())
		}
		close(r.late.released)
		r.quiet("the device is where it was", func() bool { return r.phase() == string(fabric.PhaseSettled) && len(r.service.Sees("host-a")) == 1 })
	}
}

// TestOrphan has a device that somebody attached, and nobody uses, go back; one that a
// claim uses stays.
func TestOrphan(t *testing.T) {
	r := stillRig(t)
	for _, block := range []string{"gpu-1", "gpu-2"} {
		r.must(r.service.Compose(block, "host-a"))
	}
	r.drive("node-a", "host-a")
	used := r.service.Sees("host-a")[0].Block
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "old", UID: "uid-old"}}
	r.must(r.client.Create(t.Context(), claim))
	r.allocate(claim, fabric.LocalDevice{Driver: gpuDriver, Pool: "node-a", Device: "gpu-0"}, "node-a")
	r.run()
	r.eventually("the unused one is back", func() bool {
		there := r.service.Sees("host-a")
		return len(there) == 1 && there[0].Block == used
	})
	r.quiet("the used one stays", func() bool { return len(r.service.Sees("host-a")) == 1 })
	r.eventually("it is known", func() bool {
		return slices.ContainsFunc(r.attachments(), func(a v1alpha1.DeviceAttachment) bool { return a.Spec.Claim == nil })
	})
}
