// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/inventory"
)

// board is a problem on one node: what does not change while the search runs.
//
// It has many methods, for it has one job with many rules: to find out about each unit what
// depends on no choice. The answers stay here, where all asks and all searches on the node
// share them. This file lays the board out; field.go judges units, column.go reads their
// attributes, capacity.go and noderesources.go work out what is taken of them.
type board struct {
	problem *Problem
	view    *inventory.View
	units   []unit
	// free is what is left of every counter at the start: those of the pools,
	// each with the capacities of its devices that can be shared, then the
	// resources of the node.
	free []inventory.Amount
	// counters describes free, sets the counter sets of all pools.
	counters []counter
	sets     []counterSet
	// members lists the units of each component, setsOf its counter sets; single
	// says for each counter set that it is a component by itself.
	members [][]int
	setsOf  [][]int
	single  []bool
	fields  []*field // one per ask
	columns map[columnKey]*column
	meter   *meter
	// moments counts the states that there were, of all searches.
	moments int
	// keeping: some device is kept for a claim, so that claims differ.
	keeping bool
	// sharing: some device can be shared.
	sharing bool
	// sights counts what is looked for, belonging has what the selectors of classes said
	// where that is more than one.
	sights    int
	belonging map[evaluation]bool
	// judgements counts the units that were judged, each for the asks that share a
	// sight.
	judgements int
	// asking is what each request asks for, see parts; nil until somebody asks.
	asking []fingerprint
	// families groups the counters of pools whose draws may be added up: those of
	// one name, and those of one value, such as the memory slices of a card; nil
	// until somebody asks. There are nFamilies.
	families  [][2]int
	nFamilies int
	// room has the counters of the node's resources.
	room map[v1.ResourceName]int
	// valueIDs numbers the attribute values of each constraint; constraints on
	// the same attribute share the numbers.
	valueIDs []map[value]int32
	// loners are the values that are equal to none but themselves.
	loners   map[loner]bool
	prepared bool
}

// unit is a device in a usable pool that the node reaches. Units are numbered in
// listed order.
type unit struct {
	dev *inventory.Device
	// draws and sets are positions in the board, not in the pool.
	draws []inventory.Draw
	sets  []setGroups
	taken *inventory.Occupancy
	// multi: the unit can be shared. held: other claims leave nothing of it; dismissed:
	// so that nobody looks at it. charged: shares of it exist, so that its counters have
	// been paid for.
	multi, held, dismissed, charged bool
	shares                          []share
	// component is the group of counter sets, connected by devices that draw
	// from several, that the unit belongs to; -1 for units without counters.
	component int
	closed    bool
	size      int64
}

// share is one capacity of a unit that can be shared.
type share struct {
	name    resourceapi.QualifiedName
	counter int
}

// setGroups are the compatibility groups of a unit in one counter set, as sorted
// numbers. No groups declared is the group 0, which only such devices have.
type setGroups struct {
	set    int
	groups []int32
}

type counter struct {
	name  string
	set   int // -1 for capacities of units and for resources of the node
	value inventory.Amount
}

type counterSet struct {
	name string
	// groups that all taken devices of the set have in common; nil where none
	// is taken.
	groups []int32
	// fresh is set while nothing of the set is taken.
	fresh bool
	// the set's counters are first to end-1 of board.counters.
	first, end int
}

func newBoard(p *Problem, view *inventory.View) *board {
	b := &board{problem: p, view: view, meter: newMeter(p.options.work, p.options.Stop)}
	b.meter.known = p.compiled
	groupIDs := map[string]int32{}
	for i := range view.Pools {
		if view.Pools[i].Pool.Problem == nil {
			b.addPool(&view.Pools[i], groupIDs)
		}
	}
	b.addRoom()
	b.keeping = slices.ContainsFunc(b.units, func(u unit) bool {
		return slices.ContainsFunc(u.dev.Taints, func(t inventory.Taint) bool {
			return t.Key == inventory.ClaimTaint || b.problem.options.Among != nil && t.Reserves()
		})
	})
	b.numberValues()
	b.fields = make([]*field, 0, len(p.asks))
	for _, a := range p.asks {
		b.fields = append(b.fields, b.newField(a))
	}
	return b
}

// prepare works out what the search and the cost need to know about units.
func (b *board) prepare() {
	if !b.prepared {
		b.prepared = true
		b.connect()
		b.problem.reading.measure(b)
	}
}

// completeAll judges all units for all asks.
func (b *board) completeAll() error {
	for _, f := range b.fields {
		if err := b.complete(f); err != nil {
			return err
		}
	}
	return nil
}

// judged reports whether all alternatives of the request are.
func (b *board) judged(r *request) bool {
	return !slices.ContainsFunc(r.asks, func(a *ask) bool { return !b.fields[a.id].completed })
}

func (b *board) addPool(pv *inventory.PoolView, groupIDs map[string]int32) {
	counters, sets := len(b.counters), len(b.sets)
	for _, s := range pv.Pool.Sets {
		b.sets = append(b.sets, counterSet{name: s.Name, fresh: true, first: counters + s.First, end: counters + s.End})
	}
	for i, c := range pv.Pool.Counters {
		b.counters = append(b.counters, counter{name: c.Name, set: sets + c.Set, value: c.Value})
		b.free = append(b.free, pv.Use.Free[i])
		if pv.Use.Free[i].Cmp(c.Value) < 0 {
			b.sets[sets+c.Set].fresh = false
		}
	}
	b.meter.payBytes(len(pv.Devices)*unitBytes + len(pv.Pool.Counters)*counterBytes)
	b.units = slices.Grow(b.units, len(pv.Devices))
	for _, d := range pv.Devices {
		b.meter.pay(len(d.Draws) + 2*len(d.Groups))
		if _, listed := b.problem.options.Among[d.ID]; !listed && b.problem.options.Among != nil {
			continue
		}
		b.units = append(b.units, unit{dev: d, taken: pv.Use.Taken[d.Index], component: -1})
		u := &b.units[len(b.units)-1]
		b.problem.reading.occupy(u)
		if counters == 0 {
			u.draws = d.Draws
		} else {
			for _, dr := range d.Draws {
				u.draws = append(u.draws, inventory.Draw{Counter: counters + dr.Counter, Amount: dr.Amount})
			}
		}
		u.sets = slices.Grow(u.sets, len(d.Groups))
		for _, g := range d.Groups {
			u.sets = append(u.sets, setGroups{set: sets + g.Set, groups: numberGroups(g.Groups, groupIDs)})
			u.closed = u.closed || pv.Use.Closed[g.Set]
		}
		if u.multi {
			b.addShares(u)
		}
	}
	if len(pv.Pool.Sets) > 0 {
		b.problem.reading.fold(b, pv, sets, groupIDs)
	}
}

// unitBytes and counterBytes are what a unit and a counter take.
const unitBytes, counterBytes = 200, 64

func (b *board) foldDevice(d *inventory.Device, sets int, groupIDs map[string]int32, fold func(a, b []int32) []int32) {
	for _, g := range d.Groups {
		b.meter.pay(4 + len(g.Groups)*len(g.Groups))
		set := &b.sets[sets+g.Set]
		set.fresh = false
		set.groups = fold(set.groups, numberGroups(g.Groups, groupIDs))
	}
}

func (b *board) numberValues() {
	byAttribute := map[resourceapi.FullyQualifiedName]map[value]int32{}
	for _, c := range b.problem.constraints {
		if byAttribute[c.attribute] == nil {
			byAttribute[c.attribute] = map[value]int32{}
		}
		b.valueIDs = append(b.valueIDs, byAttribute[c.attribute])
	}
}

func numberGroups(names []string, ids map[string]int32) []int32 {
	if len(names) == 0 {
		return noGroups
	}
	groups := make([]int32, 0, len(names))
	for _, name := range names {
		if ids[name] == 0 {
			ids[name] = int32(len(ids)) + 1
		}
		groups = append(groups, ids[name])
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}

var noGroups = []int32{0}

// common intersects two sorted sets; nil stands for everything.
func common(a, b []int32) []int32 {
	if a == nil {
		return b
	}
	both := []int32{}
	for _, g := range a {
		if slices.Contains(b, g) {
			both = append(both, g)
		}
	}
	return both
}

func intersect(a, b []int32) bool {
	return slices.ContainsFunc(a, func(v int32) bool { return slices.Contains(b, v) })
}

// addShares gives every capacity of a shared unit a counter of its own.
func (b *board) addShares(u *unit) {
	b.sharing = true
	b.meter.pay(len(u.dev.Spec.Capacity) * valueWork)
	for _, name := range slices.Sorted(maps.Keys(u.dev.Spec.Capacity)) {
		c := u.dev.Spec.Capacity[name]
		free := inventory.AmountOf(c.Value)
		u.shares = append(u.shares, share{name: name, counter: len(b.free)})
		b.counters = append(b.counters, counter{name: string(name), set: -1, value: free})
		if u.taken != nil {
			free = free.Sub(u.taken.ConsumedOf(u.dev.ID.Driver, name))
		}
		b.free = append(b.free, free)
	}
}

// connect finds the components: counter sets that some unit draws from together
// belong to the same.
func (b *board) connect() {
	b.meter.pay(4*len(b.sets) + 4*len(b.units))
	parent := make([]int, len(b.sets))
	for i := range parent {
		parent[i] = i
	}
	var root func(int) int
	root = func(i int) int {
		if parent[i] != i {
			parent[i] = root(parent[i])
		}
		return parent[i]
	}
	for i := range b.units {
		for _, s := range b.units[i].sets[min(1, len(b.units[i].sets)):] {
			parent[root(s.set)] = root(b.units[i].sets[0].set)
		}
	}
	size := make([]int, len(b.sets))
	for set := range b.sets {
		size[root(set)]++
	}
	for set := range b.sets {
		b.single = append(b.single, size[root(set)] == 1)
	}
	number := map[int]int{}
	for i := range b.units {
		u := &b.units[i]
		if len(u.sets) == 0 {
			continue
		}
		r := root(u.sets[0].set)
		if _, found := number[r]; !found {
			number[r] = len(b.members)
			b.members, b.setsOf = append(b.members, nil), append(b.setsOf, nil)
		}
		u.component = number[r]
		b.members[u.component] = append(b.members[u.component], i)
	}
	for set := range b.sets {
		if c, found := number[root(set)]; found {
			b.setsOf[c] = append(b.setsOf[c], set)
		}
	}
}
