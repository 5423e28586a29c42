// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
)

// ready is the condition Ready of a Fabric, empty before it has one.
func (r *rig) ready(name string) metav1.Condition {
	r.t.Helper()
	f := &v1alpha1.Fabric{ObjectMeta: metav1.ObjectMeta{Name: name}}
	r.get(f)
	if c := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.FabricReady); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// another makes another Fabric like the rig's.
func (r *rig) another(name, endpoint string, authority []byte) *v1alpha1.Fabric {
	r.t.Helper()
	f := &v1alpha1.Fabric{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 1}, Spec: *r.fabric.Spec.DeepCopy()}
	f.Spec.Redfish.Endpoint, f.Spec.Redfish.CABundle = endpoint, authority
	r.must(r.client.Create(r.t.Context(), f))
	return f
}

// second makes another Fabric like the rig's, and runs its loop.
func (r *rig) second(name, endpoint string, authority []byte) *v1alpha1.Fabric {
	r.t.Helper()
	f := r.another(name, endpoint, authority)
	_, err := r.fabrics.Reconcile(r.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: name}})
	r.must(err)
	fabrics := r.fabrics
	r.t.Cleanup(func() { fabrics.stop(name) })
	return f
}

// TestTwoFabricsOfAManager refuses the younger, which leaves alone what the other has
// attached, and takes its place when it is gone.
func TestTwoFabricsOfAManager(t *testing.T) {
	r := newRig(t)
	claim := r.settle()
	r.eventually("the fabric is ready", func() bool { return r.ready("shelf").Reason == "Published" })
	same, authority := r.listen(r.service.Handler())
	twin := r.second("twin", same, authority)
	r.eventually("the younger is refused", func() bool {
		c := r.ready("twin")
		return c.Status == metav1.ConditionFalse && c.Reason == "Invalid" && strings.Contains(c.Message, "Fabric shelf")
	})
	r.quiet("the device is where it was, and nobody else has an attachment", func() bool {
		return len(r.attachments()) == 1 && r.phase() == string(fabric.PhaseSettled) && len(r.service.Sees("host-a")) == 1
	})
	if c := r.ready("shelf"); c.Status != metav1.ConditionTrue {
		t.Errorf("the older is refused: %+v", c)
	}
	offered := func() int {
		mine := r.fabric
		defer func() { r.fabric = mine }()
		r.fabric = twin
		return len(r.offered())
	}
	r.eventually("the younger offers nothing", func() bool { return offered() == 0 })
	r.must(r.client.Delete(t.Context(), claim))
	r.eventually("the device is back", func() bool { return len(r.service.Sees("host-a")) == 0 && len(r.attachments()) == 0 })
	r.must(r.client.Delete(t.Context(), r.fabric.DeepCopy()))
	r.reconcile()
	r.eventually("the other takes its place", func() bool { return r.ready("twin").Reason == "Published" && offered() == 3 })
}

// TestSameEndpoint refuses the younger before any manager was asked, by age and not by
// name.
func TestSameEndpoint(t *testing.T) {
	mine := &v1alpha1.Fabric{ObjectMeta: metav1.ObjectMeta{Name: "a", CreationTimestamp: metav1.NewTime(t0.Add(time.Hour))}}
	mine.Spec.Redfish.Endpoint = "https://fabric.example.com"
	n, p := newNeighbours(mine), fabric.New(fabric.Policy{Fabric: "a"})
	other := mine.DeepCopy()
	other.Name, other.CreationTimestamp = "b", metav1.NewTime(t0)
	n.set(p, other)
	if c := n.refusal(); c == nil || c.Reason != "Invalid" || !strings.Contains(c.Message, "Fabric b") {
		t.Errorf("refusal is %+v, want one that names b", c)
	}
	n.forget(p, "b")
	if c := n.refusal(); c != nil {
		t.Errorf("refused for a Fabric that is gone: %+v", c)
	}
}

// TestNeighbours tells another manager, whose devices may have the same names, from the
// same one.
func TestNeighbours(t *testing.T) {
	for _, tc := range []struct {
		name, mine, other string
		foreign           bool
	}{
		{"the same", "a", "a", true}, {"another", "a", "b", false}, {"not known", "", "b", true}, {"told nothing", "a", "", true},
	} {
		n := newNeighbours(&v1alpha1.Fabric{ObjectMeta: metav1.ObjectMeta{Name: "b"}})
		p := fabric.New(fabric.Policy{Fabric: "b", OrphanGrace: 1, Models: []fabric.Model{{Name: "m", Driver: gpuDriver}}})
		p.ObserveNode(fabric.Node{Name: "n", Machine: "m"})
		p.ObserveInventory(fabric.Inventory{Machines: []fabric.Machine{{Ref: "m"}}, Devices: []fabric.Device{{Ref: "/d", Machine: "m", Healthy: true}}}, t0)
		n.attached(p, &v1alpha1.DeviceAttachment{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: v1alpha1.DeviceAttachmentSpec{Fabric: "z", Device: "/d"}})
		other := &v1alpha1.Fabric{ObjectMeta: metav1.ObjectMeta{Name: "z"}, Status: v1alpha1.FabricStatus{Service: &v1alpha1.ServiceReference{UUID: tc.other}}}
		n.set(p, other)
		n.answered(p, tc.mine)
		p.Ready()
		created := false
		for i := range 2 {
			for _, step := range p.Plan(t0.AddDate(0, 0, i+1)).Steps {
				_, ok := step.Action.(fabric.CreateAttachment)
				created = created || ok
			}
		}
		if created == tc.foreign || n.elder() != "" {
			t.Errorf("%s: made an attachment: %v, elder %q", tc.name, created, n.elder())
		}
	}
}

// TestNotPermitted offers no device whose claims the controller cannot tell of it.
func TestNotPermitted(t *testing.T) {
	r := newRig(t, func(f *v1alpha1.Fabric) {
		other := f.Spec.Models[0]
		other.Name, other.Driver, other.Match.Model = "other", "other.example.com", "A100"
		f.Spec.Models = []v1alpha1.DeviceModel{other}
	})
	const want = "may not write the status of claims for driver other.example.com: add it to resourceNames of ClusterRole kerf-controller:drivers"
	r.eventually("the Fabric says so", func() bool {
		c := r.ready("shelf")
		return c.Status == metav1.ConditionFalse && c.Reason == "NotPermitted" && c.Message == want
	})
	r.quiet("nothing is offered", func() bool { return len(r.offered()) == 0 })
	result, err := r.fabrics.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "shelf"}})
	if err != nil || result.RequeueAfter != deniedPeriod {
		t.Errorf("looks again after %v, error %v, want %v", result.RequeueAfter, err, deniedPeriod)
	}
	// It was permitted meanwhile, which the next look finds.
	l := r.fabrics.loops["shelf"]
	l.deny(map[string]bool{})
	r.eventually("the devices are offered", func() bool { return len(r.offered()) == 3 && r.ready("shelf").Reason == "Published" })
	r.reconcile()
	r.eventually("they are not any more", func() bool { return len(r.offered()) == 0 && r.ready("shelf").Reason == "NotPermitted" })
}

// TestResolveIsRefused has a Fabric say that nothing carries out its mode.
func TestResolveIsRefused(t *testing.T) {
	r := stillRig(t, func(f *v1alpha1.Fabric) { f.Spec.HandOver = v1alpha1.HandOverResolve })
	r.fabrics = r.newFabrics()
	_, err := r.fabrics.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "shelf"}})
	if c := r.ready("shelf"); err == nil || c.Reason != "Invalid" || !strings.Contains(c.Message, "use Reallocate or Reschedule") || len(r.fabrics.loops) > 0 {
		t.Errorf("error %v, condition %+v, want that Resolve is refused", err, c)
	}
}

// TestUselessFabric is ready, and says why it is of no use.
func TestUselessFabric(t *testing.T) {
	r := newRig(t, func(f *v1alpha1.Fabric) {
		f.Spec.Machines.Label.Key, f.Spec.Models[0].Match.Model = "example.com/other", "B200"
	})
	r.eventually("the Fabric says why", func() bool {
		c := r.ready("shelf")
		return c.Status == metav1.ConditionTrue && strings.Contains(c.Message, "check spec.machines") && strings.Contains(c.Message, "check spec.models[].match")
	})
	text, err := json.Marshal(v1alpha1.FabricStatus{})
	if s := string(text); err != nil || !strings.Contains(s, `"nodes":0`) || !strings.Contains(s, `"total":0`) {
		t.Errorf("an empty status is %s, error %v", s, err)
	}
}

// TestRetries has a Fabric that was wrong often be looked at as often as any other.
func TestRetries(t *testing.T) {
	limiter := retries()
	for range 100 {
		if wait := limiter.When(ctrl.Request{}); wait > credentialsPeriod {
			t.Fatalf("waits %v, want at most %v", wait, credentialsPeriod)
		}
	}
}
