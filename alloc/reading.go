// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kerf.dev/kerf/inventory"
)

// reading is a way to read the API where it leaves room. There are two: this package's
// [own], and that of the [stock] allocator for those who rely on its corner cases. All
// that tells them apart is here, so the search asks nobody which of them it works for.
type reading interface {
	// allocate solves the problem on a node.
	allocate(p *Problem, view *inventory.View) (Outcome, error)
	// object returns the error for what the API takes and what makes no sense; nil to
	// take it as it is.
	object(*InputError) error
	// ask settles whom an ask is for, what it leaves to others, and which asks before it
	// look for the same.
	ask(p *Problem, a *ask)
	// least is how many devices an ask for a number of them gets at least.
	least() int
	// occupy says what others leave of a unit.
	occupy(u *unit)
	// fold notes the groups of the devices of a pool that are taken.
	fold(b *board, pv *inventory.PoolView, sets int, groupIDs map[string]int32)
	// measure finds out the sizes of units where somebody compares costs.
	measure(b *board)
	// judge finds out how far a unit gets by itself; StageDevices where the budget ends
	// before.
	judge(b *board, f *field, i int) Stage
	// fail notes what cannot be worked out for a unit.
	fail(b *board, f *field, i int, found fault)
	// weighs reports whether capacities matter to an ask whose unit is not shared.
	weighs(a *ask) bool
	// consumption is what a request consumes of a capacity. ok is false where the
	// capacity's policy refuses it.
	consumption(requested *resource.Quantity, c *resourceapi.DeviceCapacity) (q resource.Quantity, ok bool, err error)
	// values are those that constraints see of an attribute of a unit.
	values(attribute *resourceapi.DeviceAttribute, unit int) []value
	// keptOut is the error where a constraint keeps a device out of an ask for all, if
	// that is one.
	keptOut(f *field, d *inventory.Device) error
}

// own is how kerf reads the API.
type own struct{}

func (own) object(err *InputError) error { return err }

// ask: admin access occupies nothing (KEP-5018).
func (own) ask(p *Problem, a *ask) {
	a.uid, a.occupies = p.claims[a.claim].UID, !a.admin
	p.compare(a)
}

// least is what defaulting in the API server makes of 0.
func (own) least() int { return 1 }

func (own) occupy(u *unit) {
	u.multi = u.dev.MultiAlloc()
	if u.taken != nil {
		u.held = u.taken.Dedicated || !u.multi
		u.dismissed, u.charged = u.held, u.multi
	}
}

// fold takes the groups that all taken devices have in common, on whatever node.
func (own) fold(b *board, pv *inventory.PoolView, sets int, groupIDs map[string]int32) {
	b.meter.pay(len(pv.Pool.Devices))
	for i, d := range pv.Pool.Devices {
		if pv.Use.Taken[i] != nil {
			b.foldDevice(d, sets, groupIDs, common)
		}
	}
}

func (own) measure(b *board) { b.measure() }

func (r own) judge(b *board, f *field, i int) Stage {
	stage, err := b.selects(f, &b.units[i])
	switch {
	case stage == StageDevices:
	case err != nil:
		r.fail(b, f, i, fault{err, -1})
	case stage == StageFree:
		return b.available(f, i)
	}
	return stage
}

// fail remembers that a selector fails on a unit, which is not a match then. An explanation
// asks again.
func (own) fail(b *board, f *field, i int, found fault) {
	if found.limit >= 0 {
		return
	}
	if f.failing == nil {
		b.meter.payBytes(len(b.units) / 8)
		f.failing = newBits(len(b.units))
	}
	f.failing.set(i)
}

func (own) weighs(a *ask) bool { return len(a.capacity) > 0 }

func (own) consumption(requested *resource.Quantity, c *resourceapi.DeviceCapacity) (resource.Quantity, bool, error) {
	q, ok := consumption(requested, c)
	return q, ok, nil
}

func (own) values(attribute *resourceapi.DeviceAttribute, _ int) []value { return valuesOf(attribute) }

func (own) keptOut(*field, *inventory.Device) error { return nil }

func (own) allocate(p *Problem, view *inventory.View) (Outcome, error) {
	s := newSearch(newBoard(p, view), p.options.StepBudget)
	var v verdict
	switch {
	case s.refutedEarly():
		v = no
	case p.options.Strategy == Listed:
		if v, _ = s.walk(0); v != yes {
			s.hard = true
			v = s.solve()
		}
	default:
		v = s.best()
	}
	out := s.outcome(v)
	switch v {
	case yes:
		out.Result.Cost = s.scales.cost()
	case no:
		out.Refusal = (&explainer{problem: p, board: s.board, meter: s.meter, suspects: s.suspects}).refusal()
	}
	out.Work = s.meter.used
	return out, nil
}
