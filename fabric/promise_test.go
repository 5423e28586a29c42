// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestDifference(t *testing.T) {
	amounts := func(text string) map[string]resource.Quantity {
		return map[string]resource.Quantity{"gpu/memory": resource.MustParse(text)}
	}
	policy := Policy{IdentityAttribute: "uuid"}
	model := Model{Driver: "gpu", Attributes: map[string]string{"gpu/model": `"A100"`, "gpu/uuid": `"any"`}, Capacity: amounts("40Gi")}
	promised := func(change func(*NodeDevice)) NodeDevice {
		d := NodeDevice{Attributes: map[string]string{"gpu/model": `"A100"`, "gpu/uuid": `"U0"`, "gpu/more": "1"}, Capacity: amounts("40960Mi")}
		change(&d)
		return d
	}
	for _, tc := range []struct {
		name   string
		change func(*NodeDevice)
		want   string
	}{
		{"more than promised, and as much", func(*NodeDevice) {}, ""},
		{"another value", func(d *NodeDevice) { d.Attributes["gpu/model"] = `"A30"` },
			`attribute gpu/model: the model promises "A100", the driver publishes "A30"`},
		{"no such attribute", func(d *NodeDevice) { delete(d.Attributes, "gpu/model") },
			`attribute gpu/model: the model promises "A100", the driver publishes none`},
		{"less", func(d *NodeDevice) { d.Capacity = amounts("20Gi") },
			"capacity gpu/memory: the model promises 40Gi, the driver publishes 20Gi"},
		{"a little more", func(d *NodeDevice) { d.Capacity = amounts("40961Mi") },
			"capacity gpu/memory: the model promises 40Gi, the driver publishes 40961Mi"},
		{"more than can be counted", func(d *NodeDevice) { d.Capacity = amounts("1e999999999") },
			"capacity gpu/memory: the model promises 40Gi, the driver publishes 1e999999999"},
		{"all at once", func(d *NodeDevice) { d.Attributes, d.Capacity, d.Flaw = nil, nil, "takes too much" },
			`attribute gpu/model: the model promises "A100", the driver publishes none; ` +
				"capacity gpu/memory: the model promises 40Gi, the driver publishes none; takes too much"},
	} {
		d := promised(tc.change)
		if got := policy.difference(&model, &d); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// steps plans at a time until nothing is left, and returns what was done. The manager
// and the API do all at once.
func (r *rig) steps(p *Planner, now time.Time) []Step {
	var done []Step
	for range 20 {
		plan := p.Plan(now)
		again := false
		for _, step := range plan.Steps {
			if _, reads := step.Action.(ReadInventory); reads {
				continue
			}
			p.Report(step, Outcome{}, now)
			done, again = append(done, step), true
		}
		if !again {
			break
		}
	}
	return done
}

// TestDriverSaysTheRestLater has a driver publish a device in two steps, in less than the
// time that it has for that.
func TestDriverSaysTheRestLater(t *testing.T) {
	r := newRig(PhaseAttached)
	unlike(r)
	r.policy.UnlikeAfter = 3 * time.Second
	p := r.planner()
	if done := r.steps(p, r.now); len(done) > 0 {
		t.Fatalf("done at once: %v", done)
	}
	if plan := p.Plan(r.now); plan.Wake.After(r.now.Add(3 * time.Second)) {
		t.Errorf("looks again at %v", plan.Wake)
	}
	r.pool.Devices[0].Attributes = map[string]string{"gpu/model": "A100"}
	p.ObservePool(NodePool{Node: "n1", Driver: "gpu", Pool: "n1", Devices: []NodeDevice{r.pool.Devices[0]}})
	for _, step := range r.steps(p, r.now.Add(time.Minute)) {
		if record, ok := step.Action.(RecordStatus); ok && record.Status.Phase == PhaseFailed {
			t.Errorf("%v: %s", step, record.Status.Message)
		}
	}
}

// TestWithheldIsTold has the claim fail only once the fabric's status says why, and the
// difference be in both.
func TestWithheldIsTold(t *testing.T) {
	const want = "arrived on node n1 as gpu/n1/gpu-0: attribute gpu/model: the model promises A100, the driver publishes none"
	r := newRig(PhaseAttached)
	unlike(r)
	p := r.planner()
	_ = r.steps(p, r.now)
	done := r.steps(p, r.now.Add(time.Second))
	inv := Inventory{Machines: []Machine{{Ref: "m1"}}, Devices: []Device{*r.dev}}
	p.ObserveInventory(inv, r.now.Add(time.Second))
	done = append(done, r.steps(p, r.now.Add(time.Second))...)
	if len(done) < 3 {
		t.Fatalf("done: %v", done)
	}
	withhold, _ := done[0].Action.(Withhold)
	if withhold.Withheld != (Withheld{"a", "/Blocks/0", want}) {
		t.Errorf("first: %+v", done[0].Action)
	}
	if record, _ := done[1].Action.(RecordStatus); record.Status.Phase != PhaseFailed || record.Status.Reason != ReasonUnlike || record.Status.Message != want {
		t.Errorf("then: %+v", done[1].Action)
	}
	// Its own claim is not to take it either, when it looks again.
	if guard, _ := done[2].Action.(SetGuard); len(done) > 3 || guard.Guard != GuardDrain || guard.Device == nil || *guard.Device != rigTarget {
		t.Errorf("then: %+v", done[2:])
	}
	p.ObserveGuard("a", GuardStatus{GuardDrain, &rigTarget, true})
	done = r.steps(p, r.now.Add(time.Second))
	if failed, _ := done[0].Action.(SetCondition); !failed.Failed || failed.Reason != ReasonUnlike || failed.Message != want {
		t.Errorf("at last: %+v", done[0].Action)
	}
}

// TestWithheldModel has no device of a model offered where too many were not what it
// promises.
func TestWithheldModel(t *testing.T) {
	for _, template := range []bool{false, true} {
		p := New(Policy{Fabric: "f", Models: []Model{{Name: "a", Driver: "gpu", Template: template}, {Name: "b", Driver: "gpu", Model: "B"}}})
		inv := Inventory{Machines: []Machine{{Ref: "m1"}}}
		for i := range MaxWithheld + 2 {
			inv.Devices = append(inv.Devices, Device{Ref: DeviceRef(fmt.Sprint("/Blocks/", i)), UUID: fmt.Sprint("u", i), Healthy: true})
		}
		p.ObserveNode(Node{"n1", "m1"})
		p.ObserveInventory(inv, t0)
		for i := range MaxWithheld {
			if got := len(p.Offers()); got != MaxWithheld+2-i {
				t.Fatalf("template %v: %d are offered when %d are withheld", template, got, i)
			}
			p.ObserveWithheld("b", inv.Devices[i].Ref) // of another model: nothing changes
			p.ObserveWithheld("a", inv.Devices[i].Ref)
		}
		if got := len(p.Offers()); got != 0 {
			t.Errorf("template %v: %d are offered of a model that is wrong", template, got)
		}
	}
}

// TestCardAmongPartitions has a card that its driver publishes with its partitions, all of
// one identity, be found among them.
func TestCardAmongPartitions(t *testing.T) {
	r := newRig(PhaseAttached)
	unlike(r)
	r.pool.Devices = []NodeDevice{
		{Name: "half-0", Identity: "U0", Attributes: map[string]string{"gpu/model": "half"}},
		{Name: "whole", Identity: "U0", Attributes: map[string]string{"gpu/model": "A100"}},
	}
	step, ok := r.step()
	record, _ := step.Action.(RecordStatus)
	if !ok || record.Status.Target == nil || record.Status.Target.Device != "whole" {
		t.Errorf("%v %+v", step, record)
	}
}
