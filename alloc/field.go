// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"errors"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/inventory"
)

// field is what one ask finds on the board: the candidates that remain once
// everything is checked that does not depend on other choices. Units are judged
// when somebody asks for them, or all at once by complete.
type field struct {
	*ask
	*sight
	want int
	// impossible is set where no choice of candidates can do.
	impossible bool
	completed  bool
	// fitting is what was found out last, see search.fitting.
	fitting fitting
}

// sight is what is found out about the units. Asks that ask for the same, but for
// the number, share it.
type sight struct {
	// stages has the first stage that each unit does not pass, StageConstraints
	// where it passes all before, StageDevices where it was not judged yet.
	stages []Stage
	// open are the candidates; n is their number. They are known, like all
	// that follows, once the field is complete.
	open bits
	n    int
	// matching is the number of units that an All request must have.
	matching int
	// size is that of the smallest candidate.
	size int64
	// whole is set when all units are judged.
	whole bool
	// plain is set where all candidates cost the same, whatever else is chosen.
	plain bool
	// values has, for each of ask.limits and each unit, the values of the
	// constraint's attribute; nil where the unit has none. Sights that see the same
	// values share them, see column.
	values [][][]int32
	// consumed has, for each unit that can be shared, what the ask consumes of
	// unit.shares.
	consumed [][]inventory.Amount
	// taps has, for each unit that does, what the ask takes of the node's
	// resources with it.
	taps [][]inventory.Draw
	// asking is how many selectors, of the class and then of the request, were asked about
	// some unit.
	asking int
	// failing are the units on which a selector fails.
	failing bits
	// faults are the errors of units that cannot be judged, see [stock].
	faults map[int]fault
}

// consumedOf is what the ask consumes of the unit's shares.
func (s *sight) consumedOf(i int) []inventory.Amount {
	if s.consumed == nil {
		return nil
	}
	return s.consumed[i]
}

// tapsOf is what the ask takes of the node's resources with the unit.
func (s *sight) tapsOf(i int) []inventory.Draw {
	if s.taps == nil {
		return nil
	}
	return s.taps[i]
}

// optionalNodeOperations is the node feature that devices need which skip node
// operations (node.status.declaredFeatures, KEP-5304).
const optionalNodeOperations = "DRAOptionalNodeOperations"

func (b *board) newField(a *ask) *field {
	b.meter.payBytes(fieldBytes)
	first := a.first
	if b.keeping {
		first = a.firstOfClaim // taints may be for claims
	}
	if first == a.id {
		b.sights++
		own := &struct {
			field
			sight
		}{} // errors are about asks
		own.field = field{ask: a, sight: &own.sight, want: a.count}
		return &own.field
	}
	return &field{ask: a, sight: b.fields[first].sight, want: a.count}
}

// fieldBytes is what a field takes that nobody asked yet.
const fieldBytes = 160

// survey makes room for what is found out about units.
func (b *board) survey(f *field) {
	if f.stages != nil || len(b.units) == 0 {
		return
	}
	b.meter.payBytes(len(b.units) + len(b.units)/8 + len(f.limits)*(24+valueWork*bytesPerWork))
	f.stages, f.open = make([]Stage, len(b.units)), newBits(len(b.units))
	f.values = make([][][]int32, len(f.limits))
	for k, c := range f.limits {
		f.values[k] = b.column(f.ask, c).values
	}
}

// told is the number of devices that whoever asked is told: want, but not cut off.
func (f *field) told() int {
	if f.all {
		return f.want
	}
	return f.asked
}

// complete judges all units and sums up. The error is errSpent, or one
// of [stock].
func (b *board) complete(f *field) error {
	if f.completed {
		return nil
	}
	defer b.meter.turn(b.meter.turn(Judging))
	b.prepare()
	b.survey(f)
	if err := b.judgeAllFor(f); err != nil {
		return err
	}
	if f.all {
		f.want = f.matching
		f.impossible = f.matching == 0 || f.n < f.matching || b.unknownForAll(f.ask) != nil
	}
	f.impossible = f.impossible || f.n < f.want || f.want > resourceapi.AllocationResultsMaxSize
	if b.meter.out() {
		return errSpent
	}
	f.completed = true
	return nil
}

// judgeAllFor judges all units for everybody who asks for the same.
func (b *board) judgeAllFor(f *field) error {
	if f.whole {
		return nil
	}
	f.matching, f.n, f.size, f.plain = 0, 0, 0, !b.keeping
	first := -1
	for i := range b.units {
		if b.judge(f, i); b.meter.out() {
			return errSpent
		}
		if fault, found := f.faults[i]; found && f.all && fault.limit < 0 {
			return fault.err
		}
		if f.all && f.stages[i] > StageSelector && b.countsForAll(f, i) {
			f.matching++
		}
		if f.open.has(i) {
			f.n++
			if size := b.units[i].size; f.size == 0 || size < f.size {
				f.size = size
			}
			if first < 0 {
				first = i
			}
			f.plain = f.plain && b.interchangeable(first, i)
		}
	}
	f.whole = true
	return nil
}

// interchangeable reports whether two units that are free cost the same by themselves, and
// nothing of what others could have.
func (b *board) interchangeable(i, k int) bool {
	one, other := &b.units[i], &b.units[k]
	return other.component < 0 && !other.multi && len(other.dev.Spec.BindingConditions) == 0 &&
		one.size == other.size && one.dev.ID.PoolID() == other.dev.ID.PoolID()
}

// errSpent says that the budget ended before an ask was judged.
var errSpent = errors.New("the budget is spent")

// judge finds out how far the unit gets and, where it is a candidate, opens it.
// Candidates without the attribute of a constraint can never meet it and stay
// closed.
func (b *board) judge(f *field, i int) {
	b.survey(f)
	if f.stages[i] != StageDevices {
		return
	}
	b.meter.pay(4)
	stage := b.problem.reading.judge(b, f, i)
	if stage == StageDevices {
		return // not known
	}
	f.stages[i] = stage
	b.judgements++
	if stage == StageConstraints && b.readValues(f, i) {
		f.open.set(i)
	}
}

// selects applies the selectors of class and request; StageFree means that all
// match, StageDevices that the budget ended before that was known.
func (b *board) selects(f *field, u *unit) (Stage, *SelectorError) {
	for k, s := range f.class.Spec.Selectors {
		if !b.asks(f, k, s.CEL.Expression) {
			return StageDevices, nil
		}
		if ok, err := b.belongs(f, k, s.CEL.Expression, u.dev); !ok {
			return b.known(StageClass), err
		}
	}
	for k, expression := range f.selectors {
		if !b.asks(f, len(f.class.Spec.Selectors)+k, expression) {
			return StageDevices, nil
		}
		if ok, err := b.match(f, "", k, expression, u.dev); !ok {
			return b.known(StageSelector), err
		}
	}
	return StageFree, nil
}

// asks reports whether a selector may be asked, the k-th of class and request. It pays for
// compiling it when it is asked the first time: where those before it match nothing, it
// never is.
func (b *board) asks(f *field, k int, expression string) bool {
	if b.meter.out() {
		return false
	}
	if k >= f.asking {
		from := b.meter.turn(Selecting)
		b.meter.payCompilation(expression)
		b.meter.turn(from)
		f.asking = k + 1
	}
	return true
}

// belongs asks a selector of a class about a device, once for all who name the class.
func (b *board) belongs(f *field, index int, expression string, d *inventory.Device) (bool, *SelectorError) {
	asked := evaluation{expression, d}
	if b.sights > 1 {
		b.meter.pay(valueWork)
		if yes, known := b.belonging[asked]; known {
			return yes, nil
		}
	}
	yes, err := b.match(f, f.class.Name, index, expression, d)
	if err != nil || b.sights < 2 || b.meter.halted() {
		return yes, err
	}
	if b.belonging == nil {
		b.belonging = map[evaluation]bool{}
	}
	b.meter.payBytes(belongsBytes)
	b.belonging[asked] = yes
	return yes, nil
}

// belongsBytes is what an answer takes.
const belongsBytes = 64

// known is the stage at which a selector stopped a unit, if that was not interrupted.
func (b *board) known(stage Stage) Stage {
	if b.meter.halted() {
		return StageDevices
	}
	return stage
}

// available returns the first stage after the selectors that the unit does not
// pass. It notes what the ask would consume of it.
func (b *board) available(f *field, i int) Stage {
	u := &b.units[i]
	switch {
	case !f.admin && u.held:
		return StageFree
	case !b.tolerates(f.ask, u):
		return StageTaints
	case f.occupies && !b.payable(u):
		return StageCounters
	}
	if enough, err := b.consume(f, i); !enough || err != nil {
		return StageCapacity
	}
	if !b.tapNode(f, i) {
		return StageNode
	}
	return StageConstraints
}

func (b *board) match(f *field, class string, index int, expression string, d *inventory.Device) (bool, *SelectorError) {
	from := b.meter.turn(Selecting)
	ok, cost, err := b.problem.matcher.Match(b.meter.stop, expression, d)
	b.meter.payEvaluation(expression, d, cost)
	b.meter.turn(from)
	if err != nil {
		return false, &SelectorError{Claim: f.ref.Claim, Class: class, Index: index, Expression: expression, Device: d.ID, Devices: 1, Err: err}
	}
	return ok, nil
}

func (b *board) tolerates(a *ask, u *unit) bool {
	if len(u.dev.Slice.Spec.SkipNodeOperations) > 0 && !slices.Contains(b.view.Node.Status.DeclaredFeatures, optionalNodeOperations) {
		return false
	}
	b.meter.pay(len(u.dev.Taints) * (1 + len(a.tolerations)))
	for i := range u.dev.Taints {
		t := &u.dev.Taints[i].DeviceTaint
		if inventory.KeepsAway(t) && !b.lifted(a, u, t) && !Tolerates(a.tolerations, t) {
			return false
		}
	}
	return true
}

// keeps tells whether the unit was attached for the ask's claim, see
// inventory.ClaimTaint.
func (b *board) keeps(a *ask, u *unit) bool {
	return len(u.dev.Taints) > 0 && a.uid != "" && u.dev.KeptFor(a.uid)
}

// lifted tells whether a taint is there for the ask's claim and not against it.
func (b *board) lifted(a *ask, u *unit, t *resourceapi.DeviceTaint) bool {
	switch t.Key {
	case inventory.ClaimTaint:
		return t.Value == string(a.uid) && b.keeps(a, u)
	case inventory.ArrivingTaint:
		return b.keeps(a, u) || a.uid != "" && b.problem.options.Among != nil &&
			(t.Value == string(a.uid) || b.problem.options.Among[u.dev.ID] == a.uid)
	}
	return false
}

// Tolerates tells whether the tolerations of a request pass a taint, as the search has it. An
// empty effect and key match all, and the operator is Equal unless it says Exists
// (DeviceToleration).
func Tolerates(tolerations []resourceapi.DeviceToleration, t *resourceapi.DeviceTaint) bool {
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

// payable reports whether the counters and the groups in use have room for a unit.
func (b *board) payable(u *unit) bool {
	return u.charged || !u.closed && b.covers(b.free, u.draws) && b.compatible(u)
}

func (b *board) compatible(u *unit) bool {
	for _, s := range u.sets {
		if taken := b.sets[s.set].groups; taken != nil && !intersect(taken, s.groups) {
			return false
		}
	}
	return true
}

// unknownForAll returns a pool that may hold devices an All request must have,
// but that is not usable, so that nobody can tell. A pool of another driver
// than all matching devices, none of whose own devices match, is none of those.
func (b *board) unknownForAll(a *ask) *inventory.Pool {
	f := &field{ask: a, sight: &sight{}}
	matches := func(d *inventory.Device) bool {
		b.meter.pay(1)
		if b.meter.out() {
			return false // nobody will rely on it
		}
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
