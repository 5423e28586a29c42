// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/inventory"
)

// field is what one ask finds on the board: the candidates that remain once
// everything is checked that does not depend on other choices. Units are judged
// when somebody asks for them, or all at once by complete.
type field struct {
	*ask
	// stages has the first stage that each unit does not pass, StageConstraints
	// where it passes all before, StageDevices where it was not judged yet.
	stages []Stage
	// open are the candidates; n is their number. They are known, like all
	// that follows, once the field is complete.
	open bits
	n    int
	// want is the number of devices to choose; for All, those that match.
	want int
	// matching is the number of units that an All request must have.
	matching int
	// size is that of the smallest candidate.
	size int64
	// impossible is set where no choice of candidates can do.
	impossible bool
	completed  bool

	// values has, for each of ask.limits and each unit, the values of the
	// constraint's attribute; nil where the unit has none.
	values [][][]int32
	// consumed has, for each unit that can be shared, what the ask consumes of
	// unit.shares.
	consumed map[int][]inventory.Amount
}

// optionalNodeOperations is the node feature that devices need which skip node
// operations (node.status.declaredFeatures, KEP-5304).
const optionalNodeOperations = "DRAOptionalNodeOperations"

func (b *board) newField(a *ask) *field {
	f := &field{ask: a, want: a.count, stages: make([]Stage, len(b.units)), open: newBits(len(b.units)), values: make([][][]int32, len(a.limits))}
	for k := range a.limits {
		f.values[k] = make([][]int32, len(b.units))
	}
	return f
}

// complete judges all units and sums up.
func (b *board) complete(f *field) error {
	if f.completed {
		return nil
	}
	f.completed = true
	for i := range b.units {
		if err := b.judge(f, i); err != nil && b.options.Stock {
			return err
		}
		if f.all && f.stages[i] > StageSelector && b.countsForAll(f, i) {
			f.matching++
		}
		if f.open.has(i) {
			f.n++
			if size := b.units[i].size; f.size == 0 || size < f.size {
				f.size = size
			}
		}
	}
	if f.all {
		f.want = f.matching
		f.impossible = f.matching == 0 || f.n < f.matching || b.unknownForAll(f.ask) != nil
	}
	f.impossible = f.impossible || f.n < f.want || f.want > resourceapi.AllocationResultsMaxSize
	return nil
}

// judge finds out how far the unit gets and, where it is a candidate, opens it.
// Candidates without the attribute of a constraint can never meet it and stay
// closed. The error is that of a selector which keeps the unit out.
func (b *board) judge(f *field, i int) *SelectorError {
	if f.stages[i] != StageDevices {
		return nil
	}
	stage, err := b.selects(f, &b.units[i])
	if stage == StageFree {
		stage = b.available(f, i)
	}
	f.stages[i] = stage
	if stage == StageConstraints && b.readValues(f, i) {
		f.open.set(i)
	}
	return err
}

// selects applies the selectors of class and request; StageFree means that all
// match.
func (b *board) selects(f *field, u *unit) (Stage, *SelectorError) {
	for k, s := range f.class.Spec.Selectors {
		if ok, err := b.match(f, f.class.Name, k, s.CEL.Expression, u.dev); !ok {
			return StageClass, err
		}
	}
	for k, expression := range f.selectors {
		if ok, err := b.match(f, "", k, expression, u.dev); !ok {
			return StageSelector, err
		}
	}
	return StageFree, nil
}

// available returns the first stage after the selectors that the unit does not
// pass. It notes what the ask would consume of it.
func (b *board) available(f *field, i int) Stage {
	u := &b.units[i]
	switch {
	case !f.admin && u.occupied():
		return StageFree
	case !b.tolerates(f.ask, u):
		return StageTaints
	case b.occupies(f) && !u.charged() && (u.closed || !b.covers(b.free, u.draws) || !b.compatible(u)):
		return StageCounters
	case !b.consume(f, i):
		return StageCapacity
	}
	return StageConstraints
}

func (b *board) match(f *field, class string, index int, expression string, d *inventory.Device) (bool, *SelectorError) {
	ok, err := b.matcher.Match(expression, d)
	if err != nil {
		return false, &SelectorError{Claim: f.ref.Claim, Class: class, Index: index, Expression: expression, Device: d.ID, Devices: 1, Err: err}
	}
	return ok, nil
}

// occupies reports whether what the ask takes is gone for others. Admin access
// occupies nothing (KEP-5018).
func (b *board) occupies(f *field) bool { return !f.admin || b.options.Stock }

// occupied reports whether other claims leave nothing of the unit.
func (u *unit) occupied() bool {
	return u.taken != nil && (u.taken.Dedicated || !u.multi)
}

// charged reports whether shares of the unit exist, so that its counters have
// been paid for.
func (u *unit) charged() bool { return u.multi && u.taken != nil }

func (b *board) tolerates(a *ask, u *unit) bool {
	if len(u.dev.Slice.Spec.SkipNodeOperations) > 0 && !b.declares(optionalNodeOperations) {
		return false
	}
	for i := range u.dev.Taints {
		t := &u.dev.Taints[i].DeviceTaint
		if t.Effect != resourceapi.DeviceTaintEffectNoSchedule && t.Effect != resourceapi.DeviceTaintEffectNoExecute {
			continue // None and unknown effects do not keep anybody away
		}
		if !toleratesTaint(a.tolerations, t) {
			return false
		}
	}
	return true
}

func (b *board) declares(feature string) bool {
	for _, f := range b.view.Node.Status.DeclaredFeatures {
		if f == feature {
			return true
		}
	}
	return false
}

// toleratesTaint follows DeviceToleration: empty effect and key match all, and
// the operator is Equal unless it says Exists.
func toleratesTaint(tolerations []resourceapi.DeviceToleration, t *resourceapi.DeviceTaint) bool {
	for i := range tolerations {
		tol := &tolerations[i]
		if tol.Effect != "" && tol.Effect != t.Effect || tol.Key != "" && tol.Key != t.Key {
			continue
		}
		switch tol.Operator {
		case resourceapi.DeviceTolerationOpExists:
			return true
		case resourceapi.DeviceTolerationOpEqual, "":
			if tol.Value == t.Value {
				return true
			}
		}
	}
	return false
}

// covers reports whether the counters hold the draws.
func (b *board) covers(free []inventory.Amount, draws []inventory.Draw) bool {
	for _, d := range draws {
		if free[d.Counter].Cmp(d.Amount) < 0 {
			return false
		}
	}
	return true
}

func (b *board) compatible(u *unit) bool {
	for _, s := range u.sets {
		if taken := b.sets[s.set].groups; taken != nil && !intersect(taken, s.groups) {
			return false
		}
	}
	return true
}

// consume works out what the ask takes of each capacity and reports whether
// that is there.
func (b *board) consume(f *field, i int) bool {
	u := &b.units[i]
	if len(f.capacity) == 0 && !u.multi {
		return true
	}
	if missesCapacity(f.capacity, u.dev.Spec.Capacity) {
		return false
	}
	for name, c := range u.dev.Spec.Capacity {
		q, ok := consumption(requestedOf(f.capacity, name), &c)
		if !ok || q.Cmp(c.Value) > 0 {
			return false
		}
	}
	if !u.multi {
		return true
	}
	amounts := make([]inventory.Amount, len(u.shares))
	for k, s := range u.shares {
		c := u.dev.Spec.Capacity[s.name]
		q, _ := consumption(requestedOf(f.capacity, s.name), &c)
		amounts[k] = inventory.AmountOf(q)
		if b.occupies(f) && b.free[s.counter].Cmp(amounts[k]) < 0 {
			return false
		}
	}
	if f.consumed == nil {
		f.consumed = map[int][]inventory.Amount{}
	}
	f.consumed[i] = amounts
	return true
}

// countsForAll reports whether an All request must have the unit: all that match
// the selectors, except those too small for the capacity it asks for.
func (b *board) countsForAll(f *field, i int) bool {
	u := &b.units[i]
	if len(f.capacity) == 0 {
		return true
	}
	if missesCapacity(f.capacity, u.dev.Spec.Capacity) {
		return false
	}
	for name, c := range u.dev.Spec.Capacity {
		if q, ok := consumption(requestedOf(f.capacity, name), &c); !ok || q.Cmp(c.Value) > 0 {
			return false
		}
	}
	return true
}

// unknownForAll returns a pool that may hold devices an All request must have,
// but that is not usable, so that nobody can tell. A pool of another driver
// than all matching devices, none of whose own devices match, is none of those.
func (b *board) unknownForAll(a *ask) *inventory.Pool {
	f := &field{ask: a}
	matches := func(d *inventory.Device) bool {
		stage, _ := b.selects(f, &unit{dev: d})
		return stage == StageFree
	}
	drivers := map[string]bool{}
	for i := range b.view.Pools {
		p := b.view.Pools[i].Pool
		if p.Problem == nil {
			continue
		}
		if len(drivers) == 0 {
			for i := range b.units {
				if matches(b.units[i].dev) {
					drivers[b.units[i].dev.ID.Driver] = true
				}
			}
		}
		foreign := len(p.Devices) > 0 && len(drivers) > 0 && !drivers[p.ID.Driver]
		if !foreign || slices.ContainsFunc(p.Devices, matches) {
			return p
		}
	}
	return nil
}

// readValues numbers the attribute values of a unit for each constraint. It
// reports whether the unit has them all.
func (b *board) readValues(f *field, i int) bool {
	for k, c := range f.limits {
		numbers := b.valueIDs[c]
		for _, v := range b.attributeOf(f.ask, c, i) {
			n, found := numbers[v]
			if !found {
				n = int32(len(numbers))
				numbers[v] = n
			}
			f.values[k][i] = append(f.values[k][i], n)
		}
		if f.values[k][i] == nil {
			return false
		}
	}
	return true
}

// attributeOf returns the values that a constraint sees on a unit: the ask's
// derived attribute of that name, else the published one.
func (b *board) attributeOf(a *ask, c int, i int) []value {
	name := b.constraints[c].attribute
	expression, derived := a.derived[name]
	if !derived {
		return valuesOf(published(b.units[i].dev, name))
	}
	attribute, err := b.matcher.Derive(expression, b.units[i].dev)
	if err != nil {
		return nil
	}
	return valuesOf(attribute)
}
