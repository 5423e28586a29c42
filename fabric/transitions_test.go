// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"errors"
	"testing"
	"time"
)

var t0 = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// rig is one device, one claim, and their attachment in a phase, as it looks when
// there is nothing to do or only what the phase always does. Cases change it.
type rig struct {
	policy Policy
	now    time.Time
	read   time.Time // when the reading of the inventory began
	dev    *Device
	claim  *Claim
	other  *Claim
	a      *Attachment
	rival  *Attachment
	guard  GuardStatus
	nodes  map[string]MachineRef
	pool   *NodePool
	wanted Reason // in the status or condition, if not the table's
	// withheld says that the device is withheld.
	withheld bool
	memory   func(*entry)
	look     key
}

var (
	rigOffer  = LocalDevice{"gpu", PoolName("f"), DeviceName("/Blocks/0")}
	rigTarget = LocalDevice{"gpu", "n1", "gpu-0"}
)

func newRig(phase Phase) *rig {
	r := &rig{
		policy: Policy{Fabric: "f", Models: []Model{{Name: "a", Driver: "gpu"}}, Guards: Guards{Rules: true},
			AttachTimeout: time.Hour, IdleDetachAfter: 2 * time.Hour, HandOverTimeout: time.Minute},
		now: t0.Add(5 * time.Minute), read: t0.Add(4 * time.Minute),
		dev:   &Device{Ref: "/Blocks/0", UUID: "U0", Healthy: true},
		claim: &Claim{UID: "c", Node: "n1", AllocatedAt: t0, Devices: []ClaimDevice{{LocalDevice: rigOffer}}},
		nodes: map[string]MachineRef{"n1": "m1", "n2": "m2"},
		look:  key{kind: keyAttachment, name: "a"},
	}
	if phase == PhaseNone {
		r.look = key{kind: keyOffer, claim: "c", offer: rigOffer}
		return r
	}
	r.a = &Attachment{Name: "a", Spec: AttachmentSpec{Fabric: "f", Device: "/Blocks/0", Node: "n1", Machine: "m1",
		Claim: &ClaimRef{UID: "c"}, Offer: rigOffer, AllocatedAt: t0}, Status: AttachmentStatus{Phase: phase, Since: t0.Add(time.Minute), Revision: 1}}
	r.settle(phase)
	return r
}

// settle fills in what comes with a phase.
func (r *rig) settle(phase Phase) {
	order := map[Phase]int{}
	for i, info := range phases {
		order[info.Phase] = i
	}
	st := &r.a.Status
	if order[phase] >= order[PhaseAttaching] {
		st.Attempts = 1
	}
	if order[phase] >= order[PhaseAttached] && phase != PhaseReleased && phase != PhaseFailed {
		r.dev.Machine = "m1"
	}
	if order[phase] >= order[PhaseVisible] && phase != PhaseFailed {
		target := rigTarget
		st.Target = &target
		if r.dev.Machine != "" {
			r.publish(rigTarget.Device, "u0")
		}
	}
	if phase == PhaseHandedOver || phase == PhaseSettled {
		r.claim.Devices, r.claim.Reserved = []ClaimDevice{{LocalDevice: rigTarget}}, true
	}
	if order[phase] > order[PhaseFailed] {
		r.claim = nil
	}
	if phase == PhaseRetained {
		st.IdleSince = t0.Add(2 * time.Minute)
	}
	r.guard = GuardStatus{Guard: phaseInfo[phase].Guard, Acknowledged: true}
	if r.guard.Guard == GuardDevice || r.guard.Guard == GuardDrain {
		r.guard.Device = st.Target
	}
}

func (r *rig) publish(name, identity string) {
	r.pool = &NodePool{Node: "n1", Driver: "gpu", Pool: "n1", Devices: []NodeDevice{{Name: name, Identity: identity}}}
}

func (r *rig) reply(op Operation, err error) {
	r.memory = func(a *entry) { a.reply = &reply{op, err, t0.Add(2 * time.Minute)} }
}

// planner knows all of the rig.
func (r *rig) planner() *Planner {
	p := New(r.policy)
	for name, m := range r.nodes {
		p.ObserveNode(Node{name, m})
	}
	for _, c := range []*Claim{r.claim, r.other} {
		if c != nil {
			p.ObserveClaim(*c)
		}
	}
	for _, a := range []*Attachment{r.a, r.rival} {
		if a != nil {
			p.ObserveAttachment(*a)
		}
	}
	if r.pool != nil {
		p.ObservePool(*r.pool)
	}
	if r.a != nil {
		p.ObserveGuard("a", r.guard)
		if r.memory != nil {
			r.memory(p.attachments["a"])
		}
	}
	inv := Inventory{Machines: []Machine{{Ref: "m1"}, {Ref: "m2"}, {Ref: "m3"}}}
	if r.dev != nil {
		inv.Devices = []Device{*r.dev}
	}
	p.ObserveInventory(inv, r.read)
	if r.withheld {
		p.ObserveWithheld("a", "/Blocks/0")
	}
	p.Ready()
	return p
}

// step plans and returns what is to be done.
func (r *rig) step() (Step, bool) {
	p := r.planner()
	// What has to be seen for a while takes a second plan.
	for range 2 {
		for _, step := range p.Plan(r.now).Steps {
			if step.key == r.look {
				return step, true
			}
		}
		r.now = r.now.Add(time.Second)
	}
	return Step{}, false
}

func unclaimed(r *rig) { r.claim = nil }
func withheld(r *rig)  { r.withheld = true }

// unlike has the node's driver publish less than the model promises.
func unlike(r *rig) {
	r.policy.Models[0].Attributes, r.policy.UnlikeAfter = map[string]string{"gpu/model": "A100"}, time.Millisecond
	r.publish("gpu-0", "u0")
}
func late(r *rig)      { r.now, r.wanted = t0.Add(2*time.Hour), ReasonTimeout }
func unguarded(r *rig) { r.guard = GuardStatus{} }
func gone(r *rig)      { r.dev = nil }

// unguardable has a guard that needs to recognise a device which has no identity.
func unguardable(r *rig) { r.policy.Guards, r.dev.UUID = Guards{Reservation: true}, "" }
func at(m MachineRef) func(*rig) {
	return func(r *rig) { r.dev.Machine = m }
}
func used(r *rig) {
	r.other = &Claim{UID: "o", Node: "n1", AllocatedAt: t0, Devices: []ClaimDevice{{LocalDevice: rigTarget}}}
}
func replied(op Operation, err error) func(*rig) { return func(r *rig) { r.reply(op, err) } }
func rivalled(r *rig) {
	b := *r.a
	b.Name, b.Spec.Claim, b.Status = "b", &ClaimRef{UID: "o"}, AttachmentStatus{Phase: PhaseSettled}
	r.rival = &b
}
func both(cases ...func(*rig)) func(*rig) {
	return func(r *rig) {
		for _, c := range cases {
			c(r)
		}
	}
}

var (
	errRefused = &RefusedError{Reason: "no"}
	errBusy    = &BusyError{Reason: "later"}
	running    = Operation{ID: "op", State: Running}
	done       = Operation{ID: "op", State: Done}
	failed     = Operation{ID: "op", State: Failed, Message: "no link"}
)

// known has the operation recorded.
func known(r *rig) { r.a.Status.Operation = "op" }

func armed(r *rig) { r.memory = func(a *entry) { a.armed = true } }

// unproven has the unknown outcome so recent that the inventory proves nothing.
func unproven(r *rig) { r.a.Status.Since = r.read.Add(-time.Second) }

// exercises has a way to every transition of the table.
var exercises = map[Phase]map[string]func(*rig){
	PhaseNone: {
		"the fabric has no such device":                                                          gone,
		"the claim's node is gone, or is no machine of the fabric":                               func(r *rig) { delete(r.nodes, "n1") },
		"the device is attached, reserved or attached for somebody else":                         at("m3"),
		"the device, or each of the template's, is withheld: it was not what its model promises": withheld,
		"the device is broken": func(r *rig) { r.dev.Healthy = false },
		"the time allowed is over before the device was free": func(r *rig) {
			late(r)
			r.dev.Busy = true
		},
		"no guard of the fabric can keep the device": unguardable,
		"a claim is allocated the device":            func(*rig) {},
		"a device is at a node's machine without claim and attachment for the grace time": func(r *rig) {
			r.claim, r.look, r.policy.OrphanGrace = nil, key{kind: keyDevice, name: "/Blocks/0"}, time.Millisecond
			r.dev.Machine = "m1"
		},
	},
	PhaseAllocated: {
		"the device was found attached, for no claim":   func(r *rig) { r.a.Spec.Claim = nil },
		"the claim let go":                              unclaimed,
		"the time allowed is over, or the node is gone": late,
		"another attachment has the device":             rivalled,
		"no guard of the fabric can keep the device":    unguardable,
		"the guard is not in place":                     unguarded,
		"the guard is acknowledged":                     func(*rig) {},
	},
	PhaseGuarded: {
		"the claim let go": func(r *rig) { r.claim.AllocatedAt = t0.Add(time.Minute) },
		"the time allowed is over, or the node is gone": func(r *rig) {
			delete(r.nodes, "n1")
			r.wanted = ReasonNodeGone
		},
		"another attachment has the device":                          rivalled,
		"the fabric has the device no more":                          gone,
		"the device is at the machine already":                       at("m1"),
		"the device is at another machine":                           at("m2"),
		"the device is reserved by somebody else":                    func(r *rig) { r.dev.Reserved = true },
		"the device is withheld: it was not what its model promises": withheld,
		"the device is broken":                                       func(r *rig) { r.dev.Healthy = false },
		"the guard is not in place":                                  unguarded,
		"no guard of the fabric can keep the device":                 unguardable,
		"the guard, the node's taint and the reservation are acknowledged where the fabric has them, and the manager's limits have room": func(*rig) {},
	},
	PhaseAttaching: {
		"the intent was written just now": armed,
		"refused, after a call with an unknown outcome": func(r *rig) {
			r.a.Status.Attempts = 2
			r.reply(Operation{}, errRefused)
		},
		"refused":                                                    replied(Operation{}, errRefused),
		"the manager is busy":                                        replied(Operation{}, errBusy),
		"the reply is lost, or gives no handle":                      replied(Operation{State: Running}, nil),
		"whether the manager was called is not known":                func(*rig) {},
		"the operation failed":                                       both(known, replied(failed, nil)),
		"the inventory shows the device at the machine":              both(known, at("m1")),
		"the operation has ended with the device at another machine": both(known, at("m2"), replied(done, nil)),
		"the operation has ended and the inventory does not show it": both(known, replied(done, nil)),
		"the manager gave the operation a name":                      replied(running, nil),
		"the time allowed is over, or the node is gone":              both(known, late),
		"the operation runs":                                         known,
	},
	PhaseAttachUnknown: {
		"the inventory shows the device at the machine":              at("m1"),
		"the inventory shows the device at another machine":          at("m2"),
		"the inventory shows the device no more":                     gone,
		"the inventory proves the device free, and the claim let go": unclaimed,
		"the inventory proves the device free, too late":             late,
		"the inventory proves the device free after the last try":    func(r *rig) { r.a.Status.Attempts = 3 },
		"the inventory proves the device free":                       func(*rig) {},
		"the time allowed is over, or the node is gone":              both(unproven, late),
	},
	PhaseAttached: {
		"the inventory shows the device elsewhere or no more": gone,
		"the claim let go": unclaimed,
		"the time allowed is over, or the node is gone": func(r *rig) {
			r.claim.Devices[0].Failed, r.wanted = true, ReasonClaimFailed
		},
		"the node shows the device, which is not what its model promises": unlike,
		"the device is withheld: it is not what its model promises":       both(unlike, withheld),
		"the node shows the device":                                       func(r *rig) { r.publish("gpu-0", "u0") },
	},
	PhaseVisible: {
		"the inventory shows the device elsewhere or no more": at("m2"),
		"the claim has the target":                            func(r *rig) { r.claim.Devices[0].LocalDevice = rigTarget },
		"another claim took the target":                       used,
		"the claim is gone, or has other devices":             unclaimed,
		"the claim is not allocated for the hand-over time": func(r *rig) {
			r.claim.Devices, r.policy.HandOverTimeout = nil, time.Millisecond
		},
		"the node is gone":                          func(r *rig) { delete(r.nodes, "n1") },
		"the node shows the device by another name": func(r *rig) { r.publish("gpu-7", "u0") },
		"the guard is not narrowed to the target":   func(r *rig) { r.guard = GuardStatus{Guard: GuardPool, Acknowledged: true} },
		"the claim is not told, mode Reschedule":    func(r *rig) { r.policy.HandOver = Reschedule },
		"the claim is not told":                     func(*rig) {},
	},
	PhaseHandedOver: {
		"the inventory shows the device elsewhere or no more": gone,
		"the claim let go":                     unclaimed,
		"the guard is not lifted":              unguarded,
		"the claim is reserved for a consumer": func(*rig) {},
	},
	PhaseSettled: {
		"the inventory shows the device elsewhere or no more": gone,
		"the claim let go":        unclaimed,
		"the guard is not lifted": unguarded,
	},
	PhaseFailed: {
		"the device is not what its model promises, and not guarded from everybody": func(r *rig) {
			r.a.Status.Reason, r.dev.Machine = ReasonUnlike, "m1"
			unlike(r)
		},
		"the claim is not told": func(r *rig) { r.a.Status.Reason, r.wanted = ReasonRefused, ReasonRefused },
		"the device was attached for the claim, wherever": func(r *rig) {
			r.a.Status.Reason, r.claim = ReasonWrongMachine, nil
			r.dev.Machine = "m2"
		},
		"the device is not attached for the claim, which does not have it any more": unclaimed,
	},
	PhaseRetained: {
		"the inventory does not show the device there any more": gone,
		"its claim has the device after all": func(r *rig) {
			r.claim = &Claim{UID: "c", Node: "n1", Devices: []ClaimDevice{{LocalDevice: rigTarget}}}
		},
		"the node shows the device":         func(r *rig) { r.publish("gpu-7", "u0") },
		"the guard is not lifted":           unguarded,
		"a claim uses the device":           used,
		"no claim uses the device any more": func(r *rig) { r.a.Status.IdleSince = time.Time{} },
		"the device is unused for the idle time, or the attachment is to be deleted": func(r *rig) { r.a.Deleting = true },
	},
	PhaseDraining: {
		"the inventory does not show the device there any more": at("m3"),
		"a claim uses the device":                               used,
		"the device is not guarded from everybody":              unguarded,
		"the guard is acknowledged, nobody took the device for the drain time, and the manager's limits have room": func(r *rig) {
			r.policy.DrainGrace = time.Millisecond
		},
	},
	PhaseDetaching: {
		"a claim uses the device, or it is not guarded, and the manager was not called": both(armed, used),
		"the intent was written just now":                                               armed,
		"refused":                                                                       replied(Operation{}, errRefused),
		"the manager is busy":                                                           replied(Operation{}, errBusy),
		"the reply is lost, or gives no handle":                                         replied(Operation{}, errors.New("connection reset")),
		"whether the manager was called is not known":                                   func(*rig) {},
		"the operation failed":                                                          both(known, replied(failed, nil)),
		"the inventory does not show the device there any more":                         both(known, at("")),
		"the operation has ended and the inventory shows the device there":              both(known, replied(done, nil)),
		"the manager gave the operation a name":                                         replied(running, nil),
		"the operation runs":                                                            known,
	},
	PhaseDetachUnknown: {
		"the inventory does not show the device there any more": at(""),
		"the inventory proves the device still there":           func(*rig) {},
	},
	PhaseReleased: {
		"the guard is not lifted": unguarded,
		"the guard is lifted":     func(*rig) {},
	},
}

// TestEveryTransition takes each transition of the table.
func TestEveryTransition(t *testing.T) {
	for _, row := range Transitions() {
		t.Run(name(row.From)+"/"+row.When, func(t *testing.T) {
			exercise := exercises[row.From][row.When]
			if exercise == nil {
				t.Fatal("no exercise for it")
			}
			r := newRig(row.From)
			exercise(r)
			step, ok := r.step()
			if !ok {
				t.Fatal("nothing to do")
			}
			if step.Because.When != row.When || step.Because.From != row.From {
				t.Fatalf("got %s: %s", name(step.Because.From), step.Because.When)
			}
			if step.Action.verb() != row.Do {
				t.Errorf("got action %q, want %q", step.Action.verb(), row.Do)
			}
			r.checkAction(t, step.Action, row)
		})
	}
	known := map[string]bool{}
	for _, row := range Transitions() {
		known[string(row.From)+row.When] = true
	}
	for phase, cases := range exercises {
		for when := range cases {
			if !known[string(phase)+when] {
				t.Errorf("%s: %s: exercised, and not in the table", name(phase), when)
			}
		}
	}
}

// checkAction checks what an action says of phase and reason.
func (r *rig) checkAction(t *testing.T, action Action, row Transition) {
	t.Helper()
	want := r.wanted
	if row.Reason != "" {
		want = row.Reason
	}
	switch action := action.(type) {
	case RecordStatus:
		if action.Status.Phase != row.To || action.Status.Revision != 2 {
			t.Errorf("got phase %s, revision %d, want %s, 2", action.Status.Phase, action.Status.Revision, row.To)
		}
		if row.To == PhaseFailed && (action.Status.Reason != want || action.Status.Message == "") {
			t.Errorf("got reason %q, message %q, want %q", action.Status.Reason, action.Status.Message, want)
		}
		if changed := row.From != row.To; changed != action.Status.Since.Equal(r.now) && changed {
			t.Errorf("phase entered at %s, want %s", action.Status.Since, r.now)
		}
	case SetCondition:
		if action.Failed && action.Reason != want || !action.Failed && (action.Target == nil || *action.Target != rigTarget) {
			t.Errorf("got reason %q, target %v, want %q", action.Reason, action.Target, want)
		}
	}
}
