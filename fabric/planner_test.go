// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// big is a fabric of 400 devices and 40 nodes whose steps are carried out at once.
type big struct {
	t       *testing.T
	now     time.Time
	manager *simManager
	planner *Planner
	targets map[types.UID]LocalDevice
	claims  map[types.UID]Claim
	local   map[string][]NodeDevice
	calls   int
}

func newBig(t *testing.T, limits Limits) *big {
	b := &big{t: t, now: t0, targets: map[types.UID]LocalDevice{}, claims: map[types.UID]Claim{}, local: map[string][]NodeDevice{}}
	b.manager = &simManager{rng: rand.New(rand.NewPCG(1, 1)), now: &b.now, devices: map[DeviceRef]*Device{}, gone: map[DeviceRef]Device{},
		ended: map[OperationID]Operation{}, handles: true, mostAt: map[MachineRef]int{}}
	b.planner = New(Policy{Fabric: "f", Models: []Model{{Name: "a", Driver: simDriver}}, Guards: Guards{Rules: true}, Limits: limits,
		AttachTimeout: time.Hour, IdleDetachAfter: time.Hour})
	for i := range 40 {
		ref, node := MachineRef(fmt.Sprint("m", i)), fmt.Sprint("n", i)
		b.manager.machines = append(b.manager.machines, Machine{Ref: ref})
		b.planner.ObserveNode(Node{node, ref})
		b.publish(node)
	}
	for i := range 400 {
		ref := DeviceRef(fmt.Sprintf("/Blocks/%03d", i))
		b.manager.devices[ref] = &Device{Ref: ref, UUID: fmt.Sprint("u", i), Healthy: true}
	}
	b.planner.Ready()
	return b
}

func (b *big) publish(node string) {
	b.planner.ObservePool(NodePool{Node: node, Driver: simDriver, Pool: node, Devices: slices.Clone(b.local[node])})
}

// allocate has a claim get a device of the fabric on a node.
func (b *big) allocate(i, node int) {
	uid := types.UID(fmt.Sprint("c", i))
	b.claims[uid] = Claim{UID: uid, Node: fmt.Sprint("n", node), AllocatedAt: b.now,
		Devices: []ClaimDevice{{LocalDevice: LocalDevice{simDriver, PoolName("f"), DeviceName(DeviceRef(fmt.Sprintf("/Blocks/%03d", i)))}}}}
	b.planner.ObserveClaim(b.claims[uid])
}

// run plans and carries out until nothing is left to do for an hour.
func (b *big) run() {
	for range 100000 {
		plan := b.planner.Plan(b.now)
		for _, step := range plan.Steps {
			b.planner.Report(step, b.carryOut(step), b.now)
		}
		if len(plan.Steps) > 0 && !slices.ContainsFunc(plan.Steps, func(s Step) bool { return s.Because == nil }) {
			continue
		}
		if len(b.manager.running) == 0 && len(plan.Steps) == 0 && len(b.planner.wanting) == 0 && b.allSettled() {
			return
		}
		b.now = b.now.Add(time.Second)
		b.manager.tick(func(ref DeviceRef, _, to MachineRef) {
			node := "n" + string(to[1:])
			b.local[node] = append(b.local[node], NodeDevice{Name: "gpu-" + string(ref[8:]), Identity: b.manager.devices[ref].UUID})
			b.publish(node)
		})
	}
	b.t.Fatal("it does not end")
}

func (b *big) allSettled() bool {
	for _, a := range b.planner.attachments {
		if a.phase() != PhaseSettled {
			return false
		}
	}
	return len(b.planner.attachments) == len(b.claims)
}

func (b *big) carryOut(step Step) Outcome {
	var out Outcome
	switch action := step.Action.(type) {
	case ReadInventory:
		out.Inventory, out.Err = b.manager.inventory()
	case CallAttach:
		b.calls++
		out.Operation, out.Err = b.manager.start("attach", action.Device, action.Machine, "", action.Machine)
	case CallDetach:
		b.t.Errorf("detach of %s", action.Device)
	case PollOperation:
		out.Operation, out.Err = b.manager.operation(action.ID)
	case SetGuard:
		b.planner.ObserveGuard(action.Attachment.Name, GuardStatus{action.Guard, action.Device, true})
	case SetCondition:
		if action.Failed {
			b.t.Errorf("claim %s failed: %s", action.Claim.UID, action.Reason)
		}
		c := b.claims[action.Claim.UID]
		c.Devices, c.Reserved = []ClaimDevice{{LocalDevice: *action.Target}}, true
		b.claims[c.UID] = c
		b.planner.ObserveClaim(c)
	}
	return out
}

// TestEffort counts what the planner looks at. 20 devices of several hundred are
// attached at once, by a manager that takes three operations, and then events come
// that concern one of them, or none.
func TestEffort(t *testing.T) {
	b := newBig(t, Limits{Concurrent: 3, PerMachine: 2})
	for i := range 20 {
		b.allocate(i, i/2)
	}
	b.run()
	if b.manager.most != 3 || b.calls != 20 {
		t.Errorf("got %d operations at once in %d calls, want 3 in 20", b.manager.most, b.calls)
	}
	for m, n := range b.manager.mostAt {
		if n > 2 {
			t.Errorf("%d operations at once on %s", n, m)
		}
	}
	// 14 situations lead to each attachment's 13 steps and polls; the rest is spent
	// waiting for operations of up to a minute.
	if got := b.planner.Effort(); got > 20*100 {
		t.Errorf("attaching took %d looks, %d for a device", got, got/20)
	}
	for _, event := range []struct {
		name string
		do   func()
		most uint64
	}{
		{"nothing", func() {}, 0},
		{"an inventory without news", func() {
			inv, err := b.manager.inventory()
			if err != nil {
				t.Fatal(err)
			}
			b.planner.ObserveInventory(inv, b.now)
		}, 0},
		{"a free device breaks", func() {
			b.manager.devices["/Blocks/300"].Healthy = false
			inv, err := b.manager.inventory()
			if err != nil {
				t.Fatal(err)
			}
			b.planner.ObserveInventory(inv, b.now)
		}, 1},
		{"a claim of another driver", func() {
			b.planner.ObserveClaim(Claim{UID: "x", Node: "n0", Devices: []ClaimDevice{{LocalDevice: LocalDevice{"nic", "n0", "nic-0"}}}})
		}, 0},
		{"a claim on a node's own device", func() {
			b.planner.ObserveClaim(Claim{UID: "y", Node: "n0", Devices: []ClaimDevice{{LocalDevice: LocalDevice{simDriver, "n0", "own-0"}}}})
		}, 2},
		{"a driver's pool", func() {
			b.local["n3"] = append(b.local["n3"], NodeDevice{Name: "own-1"})
			b.publish("n3")
		}, 2},
		{"a pool of a node without attachments", func() {
			b.local["n30"] = append(b.local["n30"], NodeDevice{Name: "own-1"})
			b.publish("n30")
		}, 0},
		{"a claim that ends", func() { b.planner.ForgetClaim("c4") }, 4},
	} {
		before := b.planner.Effort()
		event.do()
		b.planner.Plan(b.now)
		if got := b.planner.Effort() - before; got > event.most {
			t.Errorf("%s: looked at %d things, want %d at most", event.name, got, event.most)
		}
	}
}

// TestNothingKnown has a planner start beside a device that is attached, and that a
// claim uses of which it was not told yet.
func TestNothingKnown(t *testing.T) {
	r := newRig(PhaseRetained)
	r.policy.IdleDetachAfter = 0
	for _, tc := range []struct {
		name  string
		ready bool
		claim bool
		found bool // attached by somebody else
		want  bool
	}{
		{"claims not known", false, false, false, false},
		{"claim known", true, true, false, false},
		{"no claim", true, false, false, true},
		{"no claim, found attached", true, false, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := New(r.policy)
			a := *r.a
			if tc.found {
				a.Spec.Claim = nil
			}
			p.ObserveAttachment(a)
			p.ObserveNode(Node{"n1", "m1"})
			p.ObserveGuard("a", r.guard)
			p.ObserveInventory(Inventory{Machines: []Machine{{Ref: "m1"}}, Devices: []Device{*r.dev}}, r.read)
			if tc.claim {
				// The driver is away, and the claim holds a device of another name.
				p.ObserveClaim(Claim{UID: "o", Node: "n1", Devices: []ClaimDevice{{LocalDevice: LocalDevice{"gpu", "n1", "gpu-9"}}}})
			}
			if tc.ready {
				p.Ready()
			}
			drains := false
			for _, step := range p.Plan(r.now).Steps {
				record, ok := step.Action.(RecordStatus)
				drains = drains || ok && record.Status.Phase == PhaseDraining
			}
			if drains != tc.want {
				t.Errorf("drains: %v, want %v", drains, tc.want)
			}
		})
	}
}

// TestSecondClaim has two claims that were allocated the same device, and one that
// was allocated a device on its way back.
func TestSecondClaim(t *testing.T) {
	second := Claim{UID: "o", Node: "n2", AllocatedAt: t0.Add(time.Second), Devices: []ClaimDevice{{LocalDevice: rigOffer}}}
	for _, tc := range []struct {
		phase Phase
		want  Verb
	}{
		{PhaseGuarded, VerbFail},
		{PhaseAttaching, VerbFail},
		{PhaseSettled, VerbFail},
		{PhaseRetained, ""},
		{PhaseDetaching, ""},
	} {
		t.Run(string(tc.phase), func(t *testing.T) {
			r := newRig(tc.phase)
			r.other, r.look = &second, key{kind: keyOffer, claim: "o", offer: rigOffer}
			step, ok := r.step()
			if ok != (tc.want != "") {
				t.Fatalf("got step %v, want %q", step, tc.want)
			}
			if ok {
				fail, _ := step.Action.(SetCondition)
				if !fail.Failed || fail.Reason != ReasonDeviceTaken || fail.Claim.UID != "o" {
					t.Errorf("got %+v", step.Action)
				}
			}
		})
	}
}

// TestOffers looks at what is published while one device goes and comes.
func TestOffers(t *testing.T) {
	r := newRig(PhaseGuarded)
	names := func(template bool) []string {
		r.policy.Models[0].Template = template
		p := New(r.policy)
		p.ObserveNode(Node{"n1", "m1"})
		p.ObserveNode(Node{"n2", "m2"})
		p.ObserveAttachment(*r.a)
		inv := Inventory{
			Machines: []Machine{{Ref: "m1", Zones: []string{"x"}}, {Ref: "m2", Zones: []string{"y"}}},
			Devices: []Device{*r.dev, {Ref: "/Blocks/1", Healthy: true, Zones: []string{"x"}}, {Ref: "/Blocks/2", Healthy: true, Zones: []string{"y"}},
				{Ref: "/Blocks/3", Healthy: true, Reserved: true}, {Ref: "/Blocks/4"}, {Ref: "/Blocks/5", Healthy: true, Machine: "m3"}},
		}
		p.ObserveInventory(inv, t0)
		var got []string
		for _, o := range p.Offers() {
			if o.Pool != "fabric.kerf.dev/f" || o.Driver != "gpu" {
				t.Errorf("offer %v", o.LocalDevice)
			}
			got = append(got, fmt.Sprint(o.Device != nil && o.LocalDevice == LocalDevice{"gpu", o.Pool, DeviceName(o.Device.Ref)}, " ", o.Nodes))
		}
		return got
	}
	expect := func(what string, got []string, want ...string) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	expect("guarded", names(false), "true [n1 n2]", "true [n1]", "true [n2]")
	expect("guarded, template", names(true), "false [n1 n2]", "false [n1 n2]", "false [n1 n2]")
	r.a.Status.Phase = PhaseAttaching
	expect("attaching", names(false), "true [n1]", "true [n2]")
	expect("attaching, template", names(true), "false [n1 n2]", "false [n1 n2]")
}

// TestKept looks at what is published of a device on its way to a claim.
func TestKept(t *testing.T) {
	for _, info := range phases {
		r := newRig(info.Phase)
		r.policy.IdentityPrefix = "GPU-"
		r.a.Spec.Identity = &Identity{"uuid", "GPU-U0"}
		p := New(r.policy)
		p.ObserveNode(Node{"n1", "m1"})
		p.ObserveAttachment(*r.a)
		p.ObserveInventory(Inventory{Machines: []Machine{{Ref: "m1"}}, Devices: []Device{*r.dev}}, t0)
		got := "absent"
		for _, o := range p.Offers() {
			got = "free"
			if o.Kept == "c" && *o.Identity == *r.a.Spec.Identity {
				got = "kept"
			}
		}
		want := "absent"
		switch info.Phase {
		case PhaseAllocated:
			want = "free"
		case PhaseGuarded, PhaseAttaching, PhaseAttachUnknown, PhaseAttached, PhaseVisible:
			want = "kept"
		}
		if got != want {
			t.Errorf("%s: the device is %s, want %s", info.Phase, got, want)
		}
	}
}

// TestGuardsAreWaitedFor adds one acknowledgement after the other.
func TestGuardsAreWaitedFor(t *testing.T) {
	r := newRig(PhaseGuarded)
	r.policy.Guards = Guards{Rules: true, Taint: true, Reservation: true}
	r.a.Spec.Identity = &Identity{"uuid", "U0"}
	p := New(r.policy)
	p.ObserveNode(Node{"n1", "m1"})
	p.ObserveClaim(*r.claim)
	p.ObserveAttachment(*r.a)
	p.ObserveInventory(Inventory{Machines: []Machine{{Ref: "m1"}}, Devices: []Device{*r.dev}}, r.read)
	p.ObserveGuard("a", GuardStatus{Guard: GuardPool})
	p.Ready()
	attaches := func() bool {
		return slices.ContainsFunc(p.Plan(r.now).Steps, func(s Step) bool { return s.key == r.look })
	}
	for _, missing := range []struct {
		what string
		add  func()
	}{
		{"any acknowledgement", func() { p.ObserveGuard("a", r.guard) }},
		{"the taint and the reservation", func() { r.a.NodeGuarded = true; p.ObserveAttachment(*r.a) }},
		{"the reservation", func() { p.ObserveKept(map[LocalDevice]types.UID{rigOffer: "o"}) }},
		{"its own reservation", func() { p.ObserveKept(map[LocalDevice]types.UID{rigOffer: "c"}) }},
	} {
		if attaches() {
			t.Fatalf("the device is attached without %s", missing.what)
		}
		missing.add()
	}
	if !attaches() {
		t.Error("the device is not attached although all guards are acknowledged")
	}
}

// TestFabricEnds has nothing offered and what is unused go back.
func TestFabricEnds(t *testing.T) {
	r := newRig(PhaseRetained)
	r.policy.Ending, r.policy.IdleDetachAfter = true, -1
	if step, ok := r.step(); !ok || step.Because.To != PhaseDraining {
		t.Errorf("an unused device of a fabric that ends: %v, want it drained", step)
	}
	for _, template := range []bool{false, true} {
		r.policy.Models[0].Template = template
		p := New(r.policy)
		p.ObserveNode(Node{"n1", "m1"})
		p.ObserveInventory(Inventory{Machines: []Machine{{Ref: "m1"}}, Devices: []Device{{Ref: "/Blocks/1", Healthy: true}}}, t0)
		if offers := p.Offers(); len(offers) > 0 {
			t.Errorf("%d devices are offered, template %v", len(offers), template)
		}
	}
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, ref := range []DeviceRef{"/a/GPU_1", "/b/GPU_1", "/a/GPU-1", "", "/", "é", DeviceRef(fmt.Sprintf("/%0300d", 1))} {
		name := DeviceName(ref)
		if seen[name] || len(name) > 63 || name[0] == '-' || name != DeviceName(ref) {
			t.Errorf("device %q is named %q", ref, name)
		}
		seen[name] = true
	}
	offer := LocalDevice{"gpu", "fabric.kerf.dev/f", "gpu-1-abc"}
	first, second := AttachmentName("c", offer, t0), AttachmentName("c", offer, t0.Add(time.Second))
	if first == second || first == AttachmentName("d", offer, t0) || first != AttachmentName("c", offer, t0.In(time.Local)) {
		t.Errorf("attachments %s and %s", first, second)
	}
}

// TestPlanIsDeterministic compares the steps of planners that were told the same in
// another order.
func TestPlanIsDeterministic(t *testing.T) {
	var want []string
	for seed := range uint64(10) {
		p := New(Policy{Fabric: "f", Models: []Model{{Name: "a", Driver: "gpu", Template: true}}})
		tell := map[int]func(){}
		for i := range 8 {
			tell[i] = func() {
				p.ObserveNode(Node{fmt.Sprint("n", i), MachineRef(fmt.Sprint("m", i))})
				p.ObserveClaim(Claim{UID: types.UID(fmt.Sprint("c", i)), Node: fmt.Sprint("n", i), AllocatedAt: t0,
					Devices: []ClaimDevice{{LocalDevice: LocalDevice{"gpu", PoolName("f"), fmt.Sprint("a-", i)}}}})
			}
		}
		inv := Inventory{}
		for i := range 8 {
			inv.Machines = append(inv.Machines, Machine{Ref: MachineRef(fmt.Sprint("m", i))})
			inv.Devices = append(inv.Devices, Device{Ref: DeviceRef(fmt.Sprint("d", i)), Healthy: true})
		}
		order := slices.Sorted(maps.Keys(tell))
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, i := range order {
			tell[i]()
		}
		p.ObserveInventory(inv, t0)
		p.Ready()
		var got []string
		for _, step := range p.Plan(t0.Add(time.Second)).Steps {
			got = append(got, fmt.Sprintf("%+v", step.Action))
			if create, ok := step.Action.(CreateAttachment); ok {
				got[len(got)-1] = fmt.Sprint(create.Attachment.Name, create.Attachment.Spec.Device, create.Attachment.Spec.Claim.UID)
			}
		}
		if want == nil {
			want = got
		}
		if len(got) < 8 || !slices.Equal(got, want) {
			t.Fatalf("seed %d: got\n%v\nwant\n%v", seed, got, want)
		}
	}
}

// TestManagerDown has a planner start while the manager does not answer: claims are
// failed when their time is over, and nothing else is done.
func TestManagerDown(t *testing.T) {
	p := New(Policy{Fabric: "f", Models: []Model{{Name: "a", Driver: "gpu"}}, AttachTimeout: time.Minute})
	p.ObserveNode(Node{"n1", "m1"})
	p.ObserveClaim(Claim{UID: "waits", Node: "n1", AllocatedAt: t0, Devices: []ClaimDevice{{LocalDevice: rigOffer}}})
	second := LocalDevice{"gpu", PoolName("f"), DeviceName("/Blocks/1")}
	p.ObserveClaim(Claim{UID: "on its way", Node: "n1", AllocatedAt: t0, Devices: []ClaimDevice{{LocalDevice: second}}})
	p.ObserveAttachment(Attachment{Name: "b", Spec: AttachmentSpec{Device: "/Blocks/1", Node: "n1", Machine: "m1", Offer: second,
		Claim: &ClaimRef{UID: "on its way"}, AllocatedAt: t0}, Status: AttachmentStatus{Phase: PhaseAttaching, Operation: "op", Attempts: 1}})
	p.Ready()
	failed := map[types.UID]Reason{}
	for now := t0; now.Before(t0.Add(5 * time.Minute)); now = now.Add(10 * time.Second) {
		for _, step := range p.Plan(now).Steps {
			outcome := Outcome{}
			switch action := step.Action.(type) {
			case ReadInventory, PollOperation:
				outcome.Err = errLost
			case SetCondition:
				if now.Before(t0.Add(time.Minute)) {
					t.Errorf("claim %s failed at %s", action.Claim.UID, now)
				}
				failed[action.Claim.UID] = action.Reason
			default:
				t.Errorf("unexpected: %s", step)
			}
			p.Report(step, outcome, now)
		}
	}
	if want := map[types.UID]Reason{"waits": ReasonTimeout, "on its way": ReasonTimeout}; !maps.Equal(failed, want) {
		t.Errorf("failed %v, want %v", failed, want)
	}
}
