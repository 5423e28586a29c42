// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
	"kerf.dev/kerf/inventory"
)

var t0 = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func TestAttachmentThereAndBack(t *testing.T) {
	local := fabric.LocalDevice{Driver: gpuDriver, Pool: "node-a", Device: "gpu-0"}
	want := fabric.Attachment{
		Name: "a",
		Spec: fabric.AttachmentSpec{
			Fabric: "shelf", Device: "/blocks/1", Node: "node-a", Machine: "/systems/a", AllocatedAt: t0, Template: true,
			Claim: &fabric.ClaimRef{Namespace: "default", Name: "c", UID: "u"}, Offer: local,
			Identity: &fabric.Identity{Attribute: "uuid", Value: "GPU-1"}, Tainted: true,
		},
		Status: fabric.AttachmentStatus{
			Phase: fabric.PhaseFailed, Reason: fabric.ReasonTimeout, Message: "m", Since: t0.Add(time.Microsecond), Operation: "op",
			Machine: "/systems/b", Target: &local, Before: []fabric.LocalDevice{local}, Attempts: 2, RetryAt: t0, IdleSince: t0, Revision: 7,
		},
	}
	o := &v1alpha1.DeviceAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: specFor(want.Spec), Status: statusFor(want.Status, nil)}
	if diff := cmp.Diff(want, attachmentOf(o)); diff != "" {
		t.Error(diff)
	}
	o = &v1alpha1.DeviceAttachment{Status: statusFor(fabric.AttachmentStatus{}, nil)}
	if diff := cmp.Diff(fabric.Attachment{}, attachmentOf(o)); diff != "" {
		t.Errorf("nothing becomes something: %s", diff)
	}
}

// TestPolicyIdle keeps what zero, absent and forever mean.
func TestPolicyIdle(t *testing.T) {
	for _, tc := range []struct {
		name        string
		spec        v1alpha1.FabricSpec
		idle, grace time.Duration
	}{
		{"absent", v1alpha1.FabricSpec{}, 5 * time.Minute, 5 * time.Minute},
		{"at once", v1alpha1.FabricSpec{IdleDetachAfter: &metav1.Duration{}}, 0, time.Nanosecond},
		{"a minute", v1alpha1.FabricSpec{IdleDetachAfter: &metav1.Duration{Duration: time.Minute}}, time.Minute, time.Minute},
		{"kept", v1alpha1.FabricSpec{KeepIdle: true}, -1, -1},
	} {
		p := policyOf(&v1alpha1.Fabric{Spec: tc.spec})
		if p.IdleDetachAfter != tc.idle || p.OrphanGrace != tc.grace {
			t.Errorf("%s: idle %v, orphans %v, want %v and %v", tc.name, p.IdleDetachAfter, p.OrphanGrace, tc.idle, tc.grace)
		}
	}
}

func allocatedClaim(conditions ...metav1.Condition) *resourceapi.ResourceClaim {
	at := metav1.NewTime(t0)
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: "u"},
		Status: resourceapi.ResourceClaimStatus{
			Allocation: &resourceapi.AllocationResult{
				AllocationTimestamp: &at,
				Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
					{Request: "gpu", Driver: gpuDriver, Pool: "p", Device: "d"},
				}},
				NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n"}}},
				}}},
			},
			Devices: []resourceapi.AllocatedDeviceStatus{{Driver: gpuDriver, Pool: "p", Device: "d", Conditions: conditions}},
		},
	}
}

func isTrue(kind string, at time.Time) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}
}

// TestOldConditionsDoNotCount looks at conditions from before the allocation.
// TestModelInBothSpellings: of an attribute that a model has with the driver's domain and
// without, that with the domain is published, and expected of what arrives.
func TestModelInBothSpellings(t *testing.T) {
	value := func(v string) v1alpha1.AttributeValue { return v1alpha1.AttributeValue{String: &v} }
	model := &v1alpha1.DeviceModel{Driver: gpuDriver, Attributes: map[string]v1alpha1.AttributeValue{"kind": value("a"), gpuDriver + "/kind": value("b"), "size": value("c")}}
	want := map[string]string{gpuDriver + "/kind": "b", gpuDriver + "/size": "c"}
	for range 20 {
		if diff := cmp.Diff(want, modelOf(model).Attributes); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
}

func TestOldConditionsDoNotCount(t *testing.T) {
	for _, tc := range []struct {
		name      string
		condition metav1.Condition
		attached  bool
		failed    bool
	}{
		{"attached", isTrue(v1alpha1.ConditionAttached, t0), true, false},
		{"attached before", isTrue(v1alpha1.ConditionAttached, t0.Add(-time.Second)), false, false},
		{"failed", isTrue(v1alpha1.ConditionAttachFailed, t0.Add(time.Second)), false, true},
		{"failed before", isTrue(v1alpha1.ConditionAttachFailed, t0.Add(-time.Second)), false, false},
		{"not attached", metav1.Condition{Type: v1alpha1.ConditionAttached, Status: metav1.ConditionFalse, LastTransitionTime: metav1.NewTime(t0)}, false, false},
	} {
		c := claimOf(allocatedClaim(tc.condition))
		if d := c.Devices[0]; d.Attached != tc.attached || d.Failed != tc.failed || c.Node != "n" || !c.AllocatedAt.Equal(t0) {
			t.Errorf("%s: attached %v, failed %v, node %q, at %v", tc.name, d.Attached, d.Failed, c.Node, c.AllocatedAt)
		}
	}
}

func TestConditionOn(t *testing.T) {
	action := func(change func(*fabric.SetCondition)) *fabric.SetCondition {
		target := fabric.LocalDevice{Driver: gpuDriver, Pool: "n", Device: "gpu-3"}
		a := &fabric.SetCondition{
			Claim: fabric.ClaimRef{Namespace: "default", Name: "c", UID: "u"}, AllocatedAt: t0,
			Device: fabric.LocalDevice{Driver: gpuDriver, Pool: "p", Device: "d"}, Message: "here", Target: &target,
		}
		change(a)
		return a
	}
	now := metav1.NewTime(t0.Add(time.Minute))
	for _, tc := range []struct {
		name    string
		claim   *resourceapi.ResourceClaim
		action  *fabric.SetCondition
		now     metav1.Time
		changes bool
		data    bool
	}{
		{"first", allocatedClaim(), action(func(*fabric.SetCondition) {}), now, true, true},
		{"again", allocatedClaim(isTrue(v1alpha1.ConditionAttached, t0)), action(func(*fabric.SetCondition) {}), now, false, false},
		{"old condition", allocatedClaim(isTrue(v1alpha1.ConditionAttached, t0.Add(-time.Hour))), action(func(*fabric.SetCondition) {}), now, true, true},
		{"clock behind", allocatedClaim(), action(func(*fabric.SetCondition) {}), metav1.NewTime(t0.Add(-time.Hour)), true, true},
		{"failed", allocatedClaim(), action(func(a *fabric.SetCondition) { a.Failed, a.Reason = true, fabric.ReasonTimeout }), now, true, false},
		{"another claim", allocatedClaim(), action(func(a *fabric.SetCondition) { a.Claim.UID = "v" }), now, false, false},
		{"allocated anew", allocatedClaim(), action(func(a *fabric.SetCondition) { a.AllocatedAt = t0.Add(-time.Second) }), now, false, false},
		{"another device", allocatedClaim(), action(func(a *fabric.SetCondition) { a.Device.Device = "e" }), now, false, false},
	} {
		changed, err := conditionOn(tc.claim, tc.action, tc.now)
		if err != nil || changed != tc.changes {
			t.Errorf("%s: changed %v, error %v, want %v", tc.name, changed, err, tc.changes)
			continue
		}
		if !changed {
			continue
		}
		if d := claimOf(tc.claim).Devices[0]; d.Attached == tc.action.Failed || d.Failed != tc.action.Failed {
			t.Errorf("%s: the claim's device is %+v", tc.name, d)
		}
		message := "device d has arrived as " + gpuDriver + "/n/gpu-3"
		if tc.action.Failed {
			message = tc.action.Message
		}
		if cs := tc.claim.Status.Devices[0].Conditions; cs[len(cs)-1].Message != message {
			t.Errorf("%s: message %q, want %q", tc.name, cs[len(cs)-1].Message, message)
		}
		if n := len(tc.claim.Status.Devices); n != 1 || (tc.claim.Status.Devices[0].Data != nil) != tc.data {
			t.Errorf("%s: %d devices, data %v", tc.name, n, tc.claim.Status.Devices[0].Data)
		}
	}
}

// TestPoolsAreToldWhole keeps a pool back until all its slices are there.
func TestPoolsAreToldWhole(t *testing.T) {
	f := &v1alpha1.Fabric{Spec: v1alpha1.FabricSpec{
		Models: []v1alpha1.DeviceModel{{Driver: gpuDriver}}, Identity: v1alpha1.DeviceIdentity{Attribute: "uuid", TrimPrefix: "GPU-"},
	}}
	p, planner := newPools(f), fabric.New(policyOf(f))
	slice := func(name, node string, generation, count int64, driver string) *resourceapi.ResourceSlice {
		return &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: &node,
			Pool: resourceapi.ResourcePool{Name: "n", Generation: generation, ResourceSliceCount: count},
		}}
	}
	set := func(gone bool, s *resourceapi.ResourceSlice) {
		p.set(s, gone)
		p.tell(planner)
	}
	told := func(node string) int { return len(p.on(node, gpuDriver)) }
	set(false, slice("a", "n", 1, 2, gpuDriver))
	if told("n") != 0 {
		t.Error("half a pool is told")
	}
	set(false, slice("other", "n", 1, 1, "nic.example.com"))
	set(false, slice("b", "n", 1, 2, gpuDriver))
	if told("n") != 1 {
		t.Error("a whole pool is not told")
	}
	set(false, slice("evil", "m", 9, 1, gpuDriver))
	if told("n") != 1 || told("m") != 1 {
		t.Error("a node's pool is not told because another node publishes one of that name")
	}
	for _, s := range []*resourceapi.ResourceSlice{slice("a", "n", 1, 2, gpuDriver), slice("b", "n", 1, 2, gpuDriver)} {
		set(true, s)
	}
	if told("n") != 0 || told("m") != 1 {
		t.Error("a pool that is gone is still told, or that of another node is not any more")
	}
	d := p.device(gpuDriver, &resourceapi.Device{
		Name:       "gpu-0",
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"uuid": {StringValue: ptr.To("GPU-1")}, gpuDriver + "/n": {IntValue: ptr.To[int64](3)}},
		Taints:     []resourceapi.DeviceTaint{{Key: inventory.ClaimTaint, Value: "u"}},
	})
	want := fabric.NodeDevice{Name: "gpu-0", Identity: "1", ClaimTaint: "u", Attributes: map[string]string{gpuDriver + "/uuid": "GPU-1", gpuDriver + "/n": "3"}}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Error(diff)
	}
}

func TestCutKeepsRunes(t *testing.T) {
	for _, tc := range []struct {
		in   string
		most int
		want string
	}{{"abc", 3, "abc"}, {"abc", 2, "ab"}, {"aé", 2, "a"}, {"aé", 3, "aé"}, {"é", 1, ""}} {
		if got := cut(tc.in, tc.most); got != tc.want {
			t.Errorf("cut(%q, %d) is %q, want %q", tc.in, tc.most, got, tc.want)
		}
	}
}
