// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
	"kerf.dev/kerf/fabric/redfish/description"
	"kerf.dev/kerf/inventory"
)

// TestDeviceForAClaim follows one device from the shelf to a claim and back.
func TestDeviceForAClaim(t *testing.T) {
	r := newRig(t)
	r.eventually("three devices are offered", func() bool { return len(r.offered()) == 3 })
	claim := r.claim("train", "gpu-2", "node-a")
	r.eventually("the device is at the host", func() bool { return len(r.service.Sees("host-a")) == 1 })
	r.wantRules("Pool", "", "uid-train")
	r.drive("node-a", "host-a")
	r.eventually("the claim is told", func() bool { r.get(claim); return attached(claim) })
	r.wantRules("Device", "gpu-0", "uid-train")
	r.wantHandOver(claim, v1alpha1.DeviceReference{Driver: gpuDriver, Pool: "node-a", Device: "gpu-0"})
	if got := keptFor(r.offered()[offerOf("gpu-2")]); got != "uid-train" {
		t.Errorf("the attached device is published as kept for %q, want uid-train", got)
	}
	for _, event := range []string{
		"ResourceClaim train: Normal DeviceAttaching", "Pod pod-train: Normal DeviceAttaching",
		"ResourceClaim train: Normal DeviceAttached", "Pod pod-train: Normal DeviceAttached",
	} {
		if !r.events.has(event) {
			t.Errorf("no event %q in\n%s", event, strings.Join(r.events.all(), "\n"))
		}
	}

	r.allocate(claim, fabric.LocalDevice{Driver: gpuDriver, Pool: "node-a", Device: "gpu-0"}, "node-a")
	r.eventually("the device is handed over", func() bool { return r.phase() == string(fabric.PhaseSettled) })
	r.eventually("the guard is lifted", func() bool { return len(r.rules()) == 0 })
	r.eventually("the device is not published any more", func() bool { return len(r.offered()) == 2 })

	r.must(r.client.Delete(t.Context(), claim))
	r.eventually("the device is back", func() bool { return len(r.service.Sees("host-a")) == 0 })
	r.eventually("it is offered again", func() bool { return len(r.offered()) == 3 })
	r.eventually("nothing is left of it", func() bool { return len(r.attachments()) == 0 && len(r.rules()) == 0 })
}

// TestLoopIsReplaced ends the loop where a device has been attached and nobody was
// told.
func TestLoopIsReplaced(t *testing.T) {
	r := newRig(t)
	claim := r.claim("train", "gpu-1", "node-b")
	r.eventually("the device is at the host", func() bool { return len(r.service.Sees("host-b")) == 1 })
	r.stop(r.fabrics)
	r.drive("node-b", "host-b")
	r.run()
	r.eventually("the claim is told", func() bool { r.get(claim); return attached(claim) })
	r.wantHandOver(claim, v1alpha1.DeviceReference{Driver: gpuDriver, Pool: "node-b", Device: "gpu-0"})
	if n := len(r.attachments()); n != 1 {
		t.Errorf("%d attachments, want 1", n)
	}
}

// TestManagerRefuses has the claim fail with the manager's reason, and the device
// stay where it is.
func TestManagerRefuses(t *testing.T) {
	r := newRig(t)
	r.must(r.service.AddFault(description.Fault{Kind: description.FaultRefused, Operation: description.OperationAttach, Times: -1}))
	claim := r.claim("train", "gpu-1", "node-a")
	r.eventually("the claim is failed", func() bool { r.get(claim); return failed(claim) })
	condition := meta.FindStatusCondition(claim.Status.Devices[0].Conditions, v1alpha1.ConditionAttachFailed)
	if condition.Reason != string(fabric.ReasonRefused) || condition.Message == "" {
		t.Errorf("condition is %+v, want reason %s and a message", condition, fabric.ReasonRefused)
	}
	if n := len(r.service.Sees("host-a")); n != 0 {
		t.Errorf("host-a sees %d devices, want none", n)
	}
	if !r.events.has("Pod pod-train: Warning DeviceAttachFailed") {
		t.Errorf("the pod has no event:\n%s", strings.Join(r.events.all(), "\n"))
	}
}

// TestReplyIsLost has the device arrive although the controller's call failed.
func TestReplyIsLost(t *testing.T) {
	r := newRig(t)
	r.must(r.service.AddFault(description.Fault{Kind: description.FaultLostReply, Operation: description.OperationAttach}))
	claim := r.claim("train", "gpu-1", "node-a")
	r.eventually("the device is at the host", func() bool { return len(r.service.Sees("host-a")) == 1 })
	r.drive("node-a", "host-a")
	r.eventually("the claim is told", func() bool { r.get(claim); return attached(claim) })
	all := r.attachments()
	if len(all) != 1 || all[0].Status.Attempts != 1 {
		t.Errorf("attachments %+v, want one with one attempt", all)
	}
}

// TestTemplate has a claim that was allocated any device get one.
func TestTemplate(t *testing.T) {
	r := newRig(t, func(f *v1alpha1.Fabric) { f.Spec.Models[0].Template = true })
	r.eventually("three templates are offered", func() bool { _, ok := r.offered()["a100-2"]; return ok && len(r.offered()) == 3 })
	claim := r.claimOffer("train", "a100-1", "node-a")
	r.eventually("a device is at the host", func() bool { return len(r.service.Sees("host-a")) == 1 })
	r.drive("node-a", "host-a")
	r.eventually("the claim is told", func() bool { r.get(claim); return attached(claim) })
	if offered := r.offered(); len(offered) != 2 {
		t.Errorf("%d templates are offered, want 2", len(offered))
	}
}

// TestReschedule fails the claim when the device has arrived.
func TestReschedule(t *testing.T) {
	r := newRig(t, func(f *v1alpha1.Fabric) { f.Spec.HandOver = v1alpha1.HandOverReschedule })
	claim := r.claim("train", "gpu-1", "node-a")
	r.eventually("the device is at the host", func() bool { return len(r.service.Sees("host-a")) == 1 })
	r.get(claim)
	if failed(claim) {
		t.Error("the claim is failed before the node shows the device")
	}
	r.drive("node-a", "host-a")
	r.eventually("the claim is failed", func() bool { r.get(claim); return failed(claim) })
	condition := meta.FindStatusCondition(claim.Status.Devices[0].Conditions, v1alpha1.ConditionAttachFailed)
	if condition.Reason != string(fabric.ReasonArrived) {
		t.Errorf("reason is %s, want %s", condition.Reason, fabric.ReasonArrived)
	}
}

// TestNodeIsDeleted has a device that arrived at a node which is gone go back, and
// its claim fail.
func TestNodeIsDeleted(t *testing.T) {
	r := newRig(t)
	claim := r.claim("train", "gpu-1", "node-a")
	r.eventually("the device is at the host", func() bool { return len(r.service.Sees("host-a")) == 1 })
	r.must(r.client.Delete(t.Context(), node("node-a", "host-a")))
	r.eventually("the claim is failed", func() bool { r.get(claim); return failed(claim) })
	condition := meta.FindStatusCondition(claim.Status.Devices[0].Conditions, v1alpha1.ConditionAttachFailed)
	if condition.Reason != string(fabric.ReasonNodeGone) {
		t.Errorf("reason is %s, want %s", condition.Reason, fabric.ReasonNodeGone)
	}
	r.must(r.client.Delete(t.Context(), claim))
	r.eventually("the device is back", func() bool { return len(r.service.Sees("host-a")) == 0 })
	r.eventually("nothing is left of it", func() bool { return len(r.attachments()) == 0 && len(r.rules()) == 0 })
}

// TestTwoDevicesInAClaim has each told on its own.
func TestTwoDevicesInAClaim(t *testing.T) {
	r := newRig(t)
	claim := r.claim("train", "gpu-1", "node-a")
	both := claim.Status.Allocation.Devices.Results
	second := both[0]
	second.Request, second.Device = "other", offerOf("gpu-2")
	claim.Status.Allocation.Devices.Results = append(both, second)
	r.must(r.client.Status().Update(t.Context(), claim))
	r.eventually("both devices are at the host", func() bool { return len(r.service.Sees("host-a")) == 2 })
	r.drive("node-a", "host-a")
	r.eventually("the claim is told of both", func() bool {
		r.get(claim)
		n := 0
		for _, d := range claim.Status.Devices {
			if meta.IsStatusConditionTrue(d.Conditions, v1alpha1.ConditionAttached) && d.Data != nil {
				n++
			}
		}
		return n == 2
	})
	if one, two := string(claim.Status.Devices[0].Data.Raw), string(claim.Status.Devices[1].Data.Raw); one == two {
		t.Errorf("both devices are handed over as %s", one)
	}
}

// TestCredentials has a Fabric say what is wrong with its Secret, and its loop use a
// new one.
func TestCredentials(t *testing.T) {
	r := newRig(t)
	f := r.fabric.DeepCopy()
	r.eventually("the fabric is reachable", func() bool {
		r.get(f)
		return meta.IsStatusConditionTrue(f.Status.Conditions, v1alpha1.FabricReachable)
	})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kerf-system", Name: "fabric-credentials"}}
	r.get(secret)
	secret.Data["password"] = []byte("hunter2")
	r.must(r.client.Update(t.Context(), secret))
	r.reconcile()
	r.eventually("the new password is refused", func() bool {
		r.get(f)
		return meta.IsStatusConditionFalse(f.Status.Conditions, v1alpha1.FabricReachable)
	})
	if message := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.FabricReachable).Message; strings.Contains(message, "hunter2") {
		t.Errorf("the password is in the status: %s", message)
	} else if !strings.Contains(message, "password of secret kerf-system/fabric-credentials (spec.redfish.credentialsSecretRef) is wrong") || strings.Contains(message, "busy") {
		t.Errorf("message is %q, want one that names the Secret", message)
	}
	r.stop(r.fabrics)
	delete(secret.Data, "password")
	r.must(r.client.Update(t.Context(), secret))
	request := ctrl.Request{NamespacedName: types.NamespacedName{Name: r.fabric.Name}}
	if _, err := r.fabrics.Reconcile(t.Context(), request); err == nil || !strings.Contains(err.Error(), "password") {
		t.Errorf("error is %v, want one that names the key", err)
	}
	r.get(f)
	if c := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.FabricReady); c.Reason != "Invalid" || !strings.Contains(c.Message, "password") {
		t.Errorf("condition is %+v, want reason Invalid with a message that names the key", c)
	}
}

// TestInvalidStays has a Fabric be marked for as long as its Secret is wrong, though
// the loop that it has works on with the old one.
func TestInvalidStays(t *testing.T) {
	r := newRig(t)
	ready := func() string {
		f := r.fabric.DeepCopy()
		r.get(f)
		if c := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.FabricReady); c != nil {
			return c.Reason
		}
		return ""
	}
	r.eventually("the fabric is ready", func() bool { return ready() == "Published" })
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kerf-system", Name: "fabric-credentials"}}
	r.get(secret)
	password := secret.Data["password"]
	delete(secret.Data, "password")
	r.must(r.client.Update(t.Context(), secret))
	request := ctrl.Request{NamespacedName: types.NamespacedName{Name: r.fabric.Name}}
	if _, err := r.fabrics.Reconcile(t.Context(), request); err == nil {
		t.Error("a Secret without a password is taken")
	}
	r.quiet("it is marked", func() bool { return ready() == "Invalid" })
	secret.Data["password"] = password
	r.must(r.client.Update(t.Context(), secret))
	r.reconcile()
	r.eventually("the fabric is ready again", func() bool { return ready() == "Published" })
}

// TestFabricStatus looks at what an administrator sees.
func TestFabricStatus(t *testing.T) {
	r := newRig(t)
	f := r.fabric.DeepCopy()
	r.eventually("the fabric is ready", func() bool { r.get(f); return meta.IsStatusConditionTrue(f.Status.Conditions, v1alpha1.FabricReady) })
	if want := (v1alpha1.DeviceCounts{Total: 3, Free: 3}); f.Status.Devices != want || f.Status.Nodes != 2 {
		t.Errorf("devices %+v, nodes %d, want %+v and 2", f.Status.Devices, f.Status.Nodes, want)
	}
	if !meta.IsStatusConditionTrue(f.Status.Conditions, v1alpha1.FabricReachable) || f.Status.LastInventoryTime == nil {
		t.Errorf("status is %+v, want it reachable, with the time of the inventory", f.Status)
	}
}

// keptFor is the claim that a device of the fabric's pool is kept for, empty where
// others can take it.
func keptFor(d resourceapi.Device) string {
	if len(d.Taints) != 1 || d.Taints[0].Key != inventory.ArrivingTaint {
		return ""
	}
	return d.Taints[0].Value
}

func attached(c *resourceapi.ResourceClaim) bool { return deviceHas(c, v1alpha1.ConditionAttached) }
func failed(c *resourceapi.ResourceClaim) bool   { return deviceHas(c, v1alpha1.ConditionAttachFailed) }

func deviceHas(c *resourceapi.ResourceClaim, kind string) bool {
	return len(c.Status.Devices) == 1 && meta.IsStatusConditionTrue(c.Status.Devices[0].Conditions, kind)
}

func (r *rig) phase() string {
	all := r.attachments()
	if len(all) != 1 {
		return ""
	}
	return string(all[0].Status.Phase)
}

func (r *rig) rules() []resourceapi.DeviceTaintRule {
	r.t.Helper()
	var list resourceapi.DeviceTaintRuleList
	r.list(&list)
	return list.Items
}

// wantRules waits for one rule, of a guard for a device of the node, or for its
// pool.
func (r *rig) wantRules(guard, device, claim string) {
	r.t.Helper()
	r.eventually("one rule, "+guard, func() bool {
		rules := r.rules()
		if len(rules) != 1 || rules[0].Labels[labelGuard] != guard {
			return false
		}
		s := rules[0].Spec
		got := ""
		if s.DeviceSelector.Device != nil {
			got = *s.DeviceSelector.Device
		}
		return got == device && *s.DeviceSelector.Pool == "node-a" && *s.DeviceSelector.Driver == gpuDriver &&
			s.Taint.Key == map[string]string{"Pool": inventory.ArrivingTaint, "Device": inventory.ClaimTaint}[guard] && s.Taint.Value == claim && s.Taint.Effect == resourceapi.DeviceTaintEffectNoSchedule
	})
}

func (r *rig) wantHandOver(c *resourceapi.ResourceClaim, want v1alpha1.DeviceReference) {
	r.t.Helper()
	var data v1alpha1.Arrival
	if raw := c.Status.Devices[0].Data; raw == nil || json.Unmarshal(raw.Raw, &data) != nil {
		r.t.Fatalf("data of the device is %v, want a HandOver", raw)
	}
	if data.Target == nil || *data.Target != want || data.Kind != "HandOver" || data.APIVersion != "fabric.kerf.dev/v1alpha1" {
		r.t.Errorf("hand-over is %+v, want target %+v", data, want)
	}
}
