// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/kube/scheduler/ledger"
)

const drain = "fabric.kerf.dev/drain"

// guardRule keeps everybody from a device of the pool n1.
func guardRule(name, device string) *resourceapi.DeviceTaintRule {
	of, pool := driver, "n1"
	return &resourceapi.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1, Labels: map[string]string{v1alpha1.GuardLabel: "Drain"}},
		Spec: resourceapi.DeviceTaintRuleSpec{
			DeviceSelector: &resourceapi.DeviceTaintSelector{Driver: &of, Pool: &pool, Device: &device},
			Taint:          resourceapi.DeviceTaint{Key: drain, Effect: resourceapi.DeviceTaintEffectNoSchedule},
		},
	}
}

// addRule waits until the plugin has looked at the rule: another one that nobody's
// devices stand against is acknowledged after it.
func (r *rig) addRule(rule *resourceapi.DeviceTaintRule) {
	r.t.Helper()
	rules := r.api.client.ResourceV1().DeviceTaintRules()
	for _, next := range []*resourceapi.DeviceTaintRule{rule, guardRule("after-"+rule.Name, "none")} {
		if _, err := rules.Create(r.ctx, next, metav1.CreateOptions{}); err != nil {
			r.t.Fatal(err)
		}
	}
	r.eventually("rules are looked at", func() bool { return r.acknowledged("after-" + rule.Name) })
}

func (r *rig) acknowledged(rule string) bool {
	r.t.Helper()
	got, err := r.api.client.ResourceV1().DeviceTaintRules().Get(r.ctx, rule, metav1.GetOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return apimeta.IsStatusConditionTrue(got.Status.Conditions, v1alpha1.RuleSeen)
}

// TestRuleWaitsForReservation: a device is reserved in memory when a rule comes that
// drains it. The rule is not acknowledged before the reservation has ended, however it
// does, and the pod does not get the device.
func TestRuleWaitsForReservation(t *testing.T) {
	for name, tc := range map[string]struct {
		end         func(c *cycle)
		wantDevices []string
	}{
		"given back": {end: func(c *cycle) { c.unreserve("n1") }},
		"given up before it is written": {end: func(c *cycle) {
			got := c.preBind("n1")
			if got.Code() != fwk.Unschedulable || !strings.Contains(got.Message(), "gpu.example.com/n1/d1, which claim ns/c was to get, has been tainted by DeviceTaintRule drain") {
				t.Errorf("PreBind: got %s: %s", got.Code(), got.Message())
			}
			if len(c.api.writes()) > 0 {
				t.Errorf("got writes %v, want none", c.api.writes())
			}
			c.unreserve("n1")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), newClaim("c"))
			c := r.cycle(newPod("p", "c"))
			c.place("n1")
			r.addRule(guardRule("drain", "d1"))
			if r.acknowledged("drain") {
				t.Fatal("the rule is acknowledged while a pod has reserved the device")
			}
			tc.end(c)
			r.eventually("the rule is acknowledged", func() bool { return r.acknowledged("drain") })
			r.expect("c", tc.wantDevices, nil)
		})
	}
}

// TestRuleWaitsForWrite: the rule comes when PreBind has looked and is writing. It is
// acknowledged when the API says who has the device.
func TestRuleWaitsForWrite(t *testing.T) {
	r := newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), newClaim("c"))
	c := r.cycle(newPod("p", "c"))
	c.place("n1")
	held := r.holdRequests("update status", "c")
	done := make(chan *fwk.Status)
	go func() { done <- c.preBind("n1") }()
	<-held.arrived
	r.addRule(guardRule("drain", "d1"))
	if r.acknowledged("drain") {
		t.Error("the rule is acknowledged while the allocation is being written")
	}
	held.release()
	r.succeed("PreBind", <-done)
	r.eventually("the rule is acknowledged", func() bool { return r.acknowledged("drain") })
	r.expect("c", []string{"d1"}, []string{"uid-p"})
}

// TestRuleEndsWaitingAtPermit: a pod that waits there for others gives its devices back
// when a rule comes, and not if it tolerates that.
func TestRuleEndsWaitingAtPermit(t *testing.T) {
	claim := newClaim("c")
	claim.Spec.Devices.Requests[0].Exactly.Tolerations = []resourceapi.DeviceToleration{{Key: "example.com/tolerated", Operator: resourceapi.DeviceTolerationOpExists}}
	r := newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), claim)
	waiting := &waitingPod{rejected: make(chan string, 10)}
	r.stand(permitHandle{r.plugin.handle, waiting})
	c := r.cycle(newPod("p", "c"))
	c.place("n1")
	tolerated := guardRule("tolerated", "d1")
	tolerated.Spec.Taint.Key = "example.com/tolerated"
	r.addRule(tolerated)
	r.addRule(guardRule("drain", "d1"))
	if got := <-waiting.rejected; !strings.Contains(got, "tainted by DeviceTaintRule drain") {
		t.Errorf("rejected because of %q", got)
	}
	c.unreserve("n1")
	r.eventually("the rules are acknowledged", func() bool { return r.acknowledged("drain") && r.acknowledged("tolerated") })
}

// permitHandle has a pod that waits at Permit.
type permitHandle struct {
	fwk.Handle
	waiting fwk.WaitingPod
}

func (h permitHandle) GetWaitingPod(types.UID) fwk.WaitingPod { return h.waiting }

type waitingPod struct {
	fwk.WaitingPod
	rejected chan string
}

func (p *waitingPod) Reject(_, reason string) bool {
	p.rejected <- reason
	return true
}

// TestRuleDuringSlowFilter: the rule was acknowledged while a search that began before
// it went on. What that finds is not reserved.
func TestRuleDuringSlowFilter(t *testing.T) {
	r := newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), newClaim("c"))
	c := r.cycle(newPod("p", "c"))
	r.succeed("PreFilter", c.preFilter())
	r.succeed("Filter", c.filter("n1"))
	r.addRule(guardRule("drain", "d1"))
	r.eventually("the rule is acknowledged", func() bool { return r.acknowledged("drain") })
	if got := c.reserve("n1"); got.Code() != fwk.Unschedulable || !strings.Contains(got.Message(), "tainted by DeviceTaintRule drain") {
		t.Errorf("Reserve: got %s: %s", got.Code(), got.Message())
	}
	if r.manager.ResourceClaims().GetPendingAllocation("uid-c") != nil {
		t.Error("the device is reserved")
	}
}

// TestRulesThatDoNotConcern: rules that the claim tolerates, that are there for it,
// that select other devices or keep nobody away are no reason to give up.
func TestRulesThatDoNotConcern(t *testing.T) {
	tolerated, own, other, none := guardRule("tolerated", "d1"), guardRule("own", "d1"), guardRule("other", "d2"), guardRule("none", "d1")
	tolerated.Spec.Taint.Key = "example.com/tolerated"
	own.Spec.Taint.Key, own.Spec.Taint.Value = inventory.ClaimTaint, "uid-c"
	none.Spec.Taint.Effect = resourceapi.DeviceTaintEffectNone
	claim := newClaim("c")
	claim.Spec.Devices.Requests[0].Exactly.Tolerations = []resourceapi.DeviceToleration{{Key: "example.com/tolerated", Operator: resourceapi.DeviceTolerationOpExists}}
	r := newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), claim)
	c := r.cycle(newPod("p", "c"))
	r.succeed("PreFilter", c.preFilter())
	r.succeed("Filter", c.filter("n1"))
	for _, rule := range []*resourceapi.DeviceTaintRule{tolerated, own, other, none} {
		r.addRule(rule)
	}
	r.succeed("Reserve", c.reserve("n1"))
	r.succeed("PreBind", c.preBind("n1"))
	r.expect("c", []string{"d1"}, []string{"uid-p"})
}

// ruleQueue forgets what it is told.
type ruleQueue struct{}

func (ruleQueue) Add(string) {}

// TestProfilesShareReservations: what one profile has reserved keeps another from
// acknowledging a rule.
func TestProfilesShareReservations(t *testing.T) {
	r := newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), newClaim("c"))
	c := r.cycle(newPod("p", "c"))
	c.place("n1")
	other := ledger.ReservationsOf(r.manager)
	defer other.Leave(r.manager)
	if other != r.plugin.ledger.Held {
		t.Error("another profile has reservations of its own")
	}
	if !other.Against(guardRule("drain", "d1"), ruleQueue{}) {
		t.Error("the device counts as not reserved")
	}
}
