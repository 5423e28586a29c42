// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
	"kerf.dev/kerf/fabric/redfish/description"
)

// settle has one device with its claim.
func (r *rig) settle() (claim client.Object) {
	r.t.Helper()
	c := r.claim("train", "gpu-1", "node-a")
	r.eventually("the device is at the host", func() bool { return len(r.service.Sees("host-a")) == 1 })
	r.drive("node-a", "host-a")
	r.eventually("the claim is told", func() bool { r.get(c); return attached(c) })
	r.allocate(c, fabric.LocalDevice{Driver: gpuDriver, Pool: "node-a", Device: "gpu-0"}, "node-a")
	r.eventually("the device is handed over", func() bool { return r.phase() == string(fabric.PhaseSettled) })
	return c
}

// TestFabricIsDeleted has a Fabric stay, and work, until its device is free, whatever
// it says of idle devices.
func TestFabricIsDeleted(t *testing.T) {
	r := newRig(t, func(f *v1alpha1.Fabric) { f.Spec.IdleDetachAfter, f.Spec.KeepIdle = nil, true })
	claim := r.settle()
	r.must(r.client.Delete(t.Context(), r.fabric.DeepCopy()))
	r.reconcile()
	f := r.fabric.DeepCopy()
	r.eventually("the Fabric says what it waits for", func() bool {
		r.get(f)
		c := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.FabricDeleting)
		return c != nil && c.Status == metav1.ConditionTrue && strings.Contains(c.Message, r.attachments()[0].Name+" (Settled)")
	})
	r.eventually("nothing is offered any more", func() bool { return len(r.offered()) == 0 })
	r.quiet("the device is where it was", func() bool { return len(r.service.Sees("host-a")) == 1 })
	r.must(r.client.Delete(t.Context(), claim))
	r.eventually("the device is back", func() bool { return len(r.service.Sees("host-a")) == 0 && len(r.attachments()) == 0 })
	r.reconcile()
	if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(f), f); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the Fabric is there still: %v, finalizers %v", err, f.Finalizers)
	}
	if len(r.fabrics.loops) != 0 {
		t.Error("the loop goes on")
	}
}

// TestUnusedFabricIsDeleted goes at once, whatever is wrong with it.
func TestUnusedFabricIsDeleted(t *testing.T) {
	r := stillRig(t)
	r.fabrics = r.newFabrics()
	r.must(r.fabrics.hold(t.Context(), r.fabric.Name))
	f := r.fabric.DeepCopy()
	r.get(f)
	f.Spec.Redfish.CredentialsSecretRef.Name = "missing"
	r.must(r.client.Update(t.Context(), f))
	r.must(r.client.Delete(t.Context(), f))
	r.reconcile()
	if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(f), f); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the Fabric is there still: %v, finalizers %v", err, f.Finalizers)
	}
}

// moveTo changes the endpoint of the rig's Fabric and returns what the controller says.
func (r *rig) moveTo(endpoint string, authority []byte) error {
	r.t.Helper()
	f := r.fabric.DeepCopy()
	// The loop writes the status meanwhile.
	r.must(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		r.get(f)
		f.Generation++
		f.Spec.Redfish.Endpoint, f.Spec.Redfish.CABundle = endpoint, authority
		return r.client.Update(r.t.Context(), f)
	}))
	_, err := r.fabrics.Reconcile(r.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: f.Name}})
	return err
}

// TestEndpointChanges has the service be reached at another address, and another
// service, which knows nothing of what is attached, be refused.
func TestEndpointChanges(t *testing.T) {
	r := newRig(t)
	claim := r.settle()
	_, other, authority := r.serve(description.Config{Name: "other", Hosts: []description.Host{{ID: "host-a"}}, Blocks: []description.Block{{ID: "x", Model: "A100"}}})
	err := r.moveTo(other, authority)
	if err == nil || !strings.Contains(err.Error(), "spec.redfish.endpoint") || !strings.Contains(err.Error(), "1 devices") {
		t.Errorf("error is %v, want one about spec.redfish.endpoint", err)
	}
	f := r.fabric.DeepCopy()
	r.get(f)
	if c := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.FabricReady); c.Reason != "Invalid" {
		t.Errorf("condition is %+v, want reason Invalid", c)
	}
	r.quiet("the attachment is as it was", func() bool { return r.phase() == string(fabric.PhaseSettled) })
	r.permit("https://127.0.0.1:1")
	if err := r.moveTo("https://127.0.0.1:1", authority); err == nil || !strings.Contains(err.Error(), "cannot be asked") {
		t.Errorf("error is %v, want that the service cannot be asked", err)
	}

	same, authority := r.listen(r.service.Handler())
	r.must(r.moveTo(same, authority))
	r.eventually("the new address is in the status", func() bool {
		r.get(f)
		return f.Status.Service != nil && f.Status.Service.Endpoint == same
	})
	r.quiet("the attachment is as it was", func() bool { return r.phase() == string(fabric.PhaseSettled) })
	r.must(r.client.Delete(t.Context(), claim))
	r.eventually("the device is back", func() bool { return len(r.service.Sees("host-a")) == 0 && len(r.attachments()) == 0 })
	if err := r.moveTo(other, authority); err != nil {
		t.Errorf("without attachments, another service is refused: %v", err)
	}
}

// TestTrust reaches services that ask for no password, and that nobody vouches for.
func TestTrust(t *testing.T) {
	for name, change := range map[string]func(r *rig, redfish *v1alpha1.Redfish){
		"no credentials": func(r *rig, redfish *v1alpha1.Redfish) {
			redfish.CredentialsSecretRef = nil
			redfish.Endpoint, redfish.CABundle = r.listen(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if name, _, asked := q.BasicAuth(); asked {
					r.t.Errorf("user %q is told to a service that does not ask", name)
				}
				q.SetBasicAuth("kerf", "secret")
				r.service.Handler().ServeHTTP(w, q)
			}))
		},
		"any certificate": func(r *rig, redfish *v1alpha1.Redfish) {
			redfish.CABundle, redfish.InsecureSkipVerify = nil, true
			r.own(func(s *corev1.Secret) { s.Annotations[v1alpha1.SecretInsecure] = "true" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := stillRig(t)
			r.get(r.fabric)
			change(r, &r.fabric.Spec.Redfish)
			r.must(r.client.Update(t.Context(), r.fabric))
			r.run()
			r.settle()
		})
	}
}

// TestCallsHaveTime has no call end sooner than after a minute.
func TestCallsHaveTime(t *testing.T) {
	for asked, want := range map[time.Duration]time.Duration{time.Second: time.Minute, 2 * time.Minute: 2 * time.Minute} {
		if got := callTimeout(&v1alpha1.Redfish{Timeout: &metav1.Duration{Duration: asked}}); got != want {
			t.Errorf("a timeout of %v is %v, want %v", asked, got, want)
		}
	}
	if got := callTimeout(&v1alpha1.Redfish{}); got != time.Minute {
		t.Errorf("without a timeout it is %v, want a minute", got)
	}
}

// TestLeadershipIsLost ends a controller in the middle of a step, at several of them,
// and has another go on.
func TestLeadershipIsLost(t *testing.T) {
	for _, step := range []string{"Attach", "Inventory", "DeviceAttachment", "DeviceTaintRule"} {
		t.Run(step, func(t *testing.T) {
			r := newRig(t)
			r.crashAt.Store(step)
			claim := r.claim("train", "gpu-1", "node-a")
			r.eventually("the controller has ended", func() bool { return r.crashes.Load() == 1 })
			<-r.current.Load().ended
			r.run()
			r.eventually("the device is at the host", func() bool { return len(r.service.Sees("host-a")) == 1 })
			r.drive("node-a", "host-a")
			r.eventually("the claim is told", func() bool { r.get(claim); return attached(claim) })
			if n := len(r.attachments()); n != 1 {
				t.Errorf("%d attachments, want 1", n)
			}
			if got := r.service.Stats().Operations; got > 1 {
				t.Errorf("%d operations, want one", got)
			}
		})
	}
}
