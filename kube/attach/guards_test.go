// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
	"kerf.dev/kerf/inventory"
)

// TestGuardIsAcknowledgedInTime has a rule count as seen once it is old enough,
// however late the controller was started.
func TestGuardIsAcknowledgedInTime(t *testing.T) {
	now, policy := t0, fabric.Policy{Fabric: "shelf", HandOver: fabric.Reschedule}
	g, planner := newGuards(policy, func() time.Time { return now }), fabric.New(policy)
	owner := &v1alpha1.DeviceAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u"}, Spec: v1alpha1.DeviceAttachmentSpec{Fabric: "shelf"}}
	rule := rulesFor(&fabric.SetGuard{Guard: fabric.GuardPool, Node: "n", Driver: gpuDriver}, owner, nil)[0]
	rule.CreationTimestamp = metav1.NewTime(t0)
	g.set(planner, rule, false)
	if want := t0.Add(3 * time.Second); !g.wake().Equal(want) {
		t.Fatalf("wakes at %v, want %v", g.wake(), want)
	}
	now = t0.Add(2 * time.Second)
	g.acknowledge(planner, now)
	if g.wake().IsZero() {
		t.Error("the guard is acknowledged too early")
	}
	now = t0.Add(3 * time.Second)
	g.acknowledge(planner, now)
	if !g.wake().IsZero() {
		t.Error("the guard is not acknowledged")
	}
	restarted := newGuards(policy, func() time.Time { return now })
	restarted.set(planner, rule, false)
	if !restarted.wake().IsZero() {
		t.Error("after a restart, the guard has to wait again")
	}
	other := newGuards(fabric.Policy{Fabric: "other"}, func() time.Time { return t0 })
	other.set(planner, rule, false)
	if !other.wake().IsZero() {
		t.Error("the rule is taken for one of another fabric")
	}
}

func TestRulesFor(t *testing.T) {
	owner := &v1alpha1.DeviceAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u"}, Spec: v1alpha1.DeviceAttachmentSpec{Fabric: "shelf"}}
	claim := fabric.Attachment{Spec: fabric.AttachmentSpec{Claim: &fabric.ClaimRef{UID: "c"}}}
	device := &fabric.LocalDevice{Driver: gpuDriver, Pool: "n", Device: "gpu-0"}
	for _, tc := range []struct {
		name   string
		action fabric.SetGuard
		pools  []string
		want   []string // pool/device key=value
	}{
		{"none", fabric.SetGuard{Attachment: claim, Guard: fabric.GuardNone}, nil, nil},
		{"nothing published", fabric.SetGuard{Attachment: claim, Guard: fabric.GuardPool, Node: "n"}, nil, []string{"n/ " + inventory.ArrivingTaint + "=c"}},
		{"two pools", fabric.SetGuard{Attachment: claim, Guard: fabric.GuardPool, Node: "n"}, []string{"p", "q"},
			[]string{"p/ " + inventory.ArrivingTaint + "=c", "q/ " + inventory.ArrivingTaint + "=c"}},
		{"device", fabric.SetGuard{Attachment: claim, Guard: fabric.GuardDevice, Device: device}, []string{"p"}, []string{"n/gpu-0 " + inventory.ClaimTaint + "=c"}},
		{"drain", fabric.SetGuard{Attachment: claim, Guard: fabric.GuardDrain, Device: device}, nil, []string{"n/gpu-0 " + DrainTaint + "="}},
	} {
		rules := rulesFor(&tc.action, owner, tc.pools)
		if len(rules) != len(tc.want) {
			t.Errorf("%s: %d rules, want %d", tc.name, len(rules), len(tc.want))
			continue
		}
		for i, rule := range rules {
			if got := ruleText(rule); got != tc.want[i] {
				t.Errorf("%s: rule %q, want %q", tc.name, got, tc.want[i])
			}
			if guardedFor(rule) != "a" {
				t.Errorf("%s: the rule belongs to %q", tc.name, guardedFor(rule))
			}
		}
	}
}

func ruleText(rule *resourceapi.DeviceTaintRule) string {
	device := ""
	if d := rule.Spec.DeviceSelector.Device; d != nil {
		device = *d
	}
	return *rule.Spec.DeviceSelector.Pool + "/" + device + " " + rule.Spec.Taint.Key + "=" + rule.Spec.Taint.Value
}
