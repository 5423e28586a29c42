// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"strings"
	"testing"
	"time"
)

// lone is a planner with one device at a node's machine that nobody has a claim for.
func lone() *Planner {
	p := New(Policy{Fabric: "f", Models: []Model{{Name: "a", Driver: "gpu"}}, Guards: Guards{Rules: true}, OrphanGrace: time.Millisecond})
	p.ObserveNode(Node{"n1", "m1"})
	p.ObserveInventory(Inventory{Machines: []Machine{{Ref: "m1"}}, Devices: []Device{{Ref: "/Blocks/0", UUID: "U0", Healthy: true, Machine: "m1"}}}, t0)
	p.Ready()
	return p
}

// creates tells whether an attachment is made within a second.
func creates(p *Planner, now time.Time) bool {
	for _, at := range []time.Time{now, now.Add(time.Second)} {
		for _, step := range p.Plan(at).Steps {
			if _, ok := step.Action.(CreateAttachment); ok {
				return true
			}
		}
	}
	return false
}

// TestForeignDeviceIsNoOrphan has a device that another fabric attached be left alone,
// until that one has no attachment for it any more.
func TestForeignDeviceIsNoOrphan(t *testing.T) {
	p := lone()
	p.ObserveForeign("other", Foreign{Device: "/Blocks/0", Claimed: true})
	if creates(p, t0.Add(time.Minute)) {
		t.Error("a device of another fabric is taken for an orphan")
	}
	p.ForgetForeign("other")
	if !creates(p, t0.Add(time.Hour)) {
		t.Error("a device that nobody has an attachment for is no orphan")
	}
}

// TestForeignDeviceIsInUse has an orphan's attachment not detach what another fabric
// attached for a claim.
func TestForeignDeviceIsInUse(t *testing.T) {
	p := lone()
	p.ObserveForeign("other", Foreign{Device: "/Blocks/0", Claimed: true})
	p.ObserveAttachment(Attachment{Name: "a", Spec: AttachmentSpec{Fabric: "f", Device: "/Blocks/0", Node: "n1", Machine: "m1"},
		Status: AttachmentStatus{Phase: PhaseRetained, IdleSince: t0, Revision: 1}})
	for range 3 {
		for _, step := range p.Plan(t0.Add(time.Hour)).Steps {
			if record, ok := step.Action.(RecordStatus); ok && record.Status.Phase != PhaseRetained {
				t.Fatalf("goes on to %s", record.Status.Phase)
			}
			if _, reads := step.Action.(ReadInventory); !reads {
				p.Report(step, Outcome{}, t0.Add(time.Hour))
			}
		}
	}
}

// TestBarred offers and attaches nothing.
func TestBarred(t *testing.T) {
	r := newRig(PhaseNone)
	p := New(r.policy)
	p.ObserveNode(Node{"n1", "m1"})
	p.ObserveInventory(Inventory{Machines: []Machine{{Ref: "m1"}}, Devices: []Device{*r.dev}}, t0)
	p.Ready()
	if got := len(p.Offers()); got != 1 {
		t.Fatalf("%d offers, want 1", got)
	}
	p.Bar(true)
	p.ObserveClaim(*r.claim)
	if got := len(p.Offers()); got != 0 || creates(p, r.now) {
		t.Errorf("%d offers, want none and no attachment", got)
	}
	p.Bar(false)
	if !creates(p, r.now) {
		t.Error("nothing is attached though nothing is barred")
	}
}

// TestWhyTooLate has each way not to get a device in time tell its own.
func TestWhyTooLate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		phase  Phase
		change func(*rig)
		want   string
	}{
		{"no scheduler", PhaseAllocated, both(late, unguarded), "while waiting for the guard: no scheduler has seen the DeviceTaintRule for driver gpu on node n1"},
		{"no taint", PhaseGuarded, both(late, func(r *rig) { r.a.Spec.Tainted = true }), "condition NodeGuarded"},
		{"manager", PhaseGuarded, both(late, func(r *rig) { r.a.Status.Message = "it is down" }), "while waiting for the fabric's manager: it is down"},
		{"operation", PhaseAttaching, both(known, late), "(1h0m0s) is over while waiting for the fabric's manager"},
		{"driver", PhaseAttached, late, "/Blocks/0 is at n1, but driver gpu publishes no device there with uuid=U0: check spec.identity and the driver"},
		{"driver, no identity", PhaseAttached, both(late, func(r *rig) { r.dev.UUID = "" }), "publishes no new device there that can be it"},
		{"node", PhaseGuarded, func(r *rig) { delete(r.nodes, "n1") }, "node n1 is gone"},
		{"claim", PhaseAttached, func(r *rig) { r.claim.Devices[0].Failed = true }, "failure condition of the claim's device"},
	} {
		r := newRig(tc.phase)
		tc.change(r)
		step, _ := r.step()
		message := ""
		switch action := step.Action.(type) {
		case RecordStatus:
			message = action.Status.Message
		case SetCondition:
			message = action.Message
		}
		if !strings.Contains(message, tc.want) {
			t.Errorf("%s: %s says %q, want %q", tc.name, step, message, tc.want)
		}
	}
}
