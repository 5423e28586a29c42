// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"maps"
	"slices"

	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/inventory"
)

// PoolTree is a pool with its cards and devices, for people and, as JSON, for
// programs.
type PoolTree struct {
	Driver     string `json:"driver"`
	Pool       string `json:"pool"`
	Generation int64  `json:"generation"`
	// Nodes says which nodes reach the devices, empty where they differ.
	Nodes string `json:"nodes,omitempty"`
	// Problems are why nothing can be allocated from the pool.
	Problems []string `json:"problems,omitempty"`
	// Rivals says that others publish a pool of the same name; this is what some
	// nodes have of it.
	Rivals string `json:"rivals,omitempty"`
	// Cards are the counter sets.
	Cards []Card `json:"cards,omitempty"`
	// Devices are those that use no counters.
	Devices []DeviceState `json:"devices,omitempty"`
	// Gone are devices that are held but not published any more.
	Gone []DeviceState `json:"gone,omitempty"`
}

// Card is a counter set with the devices that draw from it, usually a card with
// its partitions.
type Card struct {
	Name     string         `json:"name"`
	Counters []CounterState `json:"counters"`
	// Devices draw from this set. Those that draw from several are with the
	// first.
	Devices []DeviceState `json:"devices"`
	// Largest is the largest device that can still be allocated, by the part
	// of the counters that it takes; LargestShare is that part, from 0 to 1.
	Largest      string  `json:"largest,omitempty"`
	LargestShare float64 `json:"largestShare,omitempty"`
	// Closed is set where nothing can be taken from the set any more, because
	// a device that the pool no longer describes holds an unknown part of it.
	Closed bool `json:"closed,omitempty"`
}

// CounterState is a counter and what is left of it.
type CounterState struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Used  string `json:"used"`
	Left  string `json:"left"`
}

// The states of a device.
const (
	DeviceFree     = "free"
	DeviceInUse    = "in use"
	DeviceShared   = "shared"   // in use, and able to take more claims
	DeviceBlocked  = "blocked"  // what it draws from is in use
	DeviceOffered  = "offered"  // free on a fabric's shelf: it is attached when it is allocated
	DeviceArriving = "arriving" // among devices of which one arrives for a claim, which alone may have it
	DeviceTainted  = "tainted"  // free for requests that tolerate it
	DeviceUnusable = "unusable" // its pool has a problem
)

// DeviceState is a device and who holds it.
type DeviceState struct {
	Name  string `json:"name"`
	State string `json:"state"`
	// Nodes says which nodes reach the device where devices of the pool differ.
	Nodes string `json:"nodes,omitempty"`
	// HeldBy are the claims that hold the device and may be named, as
	// namespace/name; HeldByOthers counts the rest.
	HeldBy       []string `json:"heldBy,omitempty"`
	HeldByOthers int      `json:"heldByOthers,omitempty"`
	// Why says what blocks the device.
	Why string `json:"why,omitempty"`
	// Consumed is what shares take of its capacity.
	Consumed map[string]string `json:"consumed,omitempty"`
	Taints   []TaintState      `json:"taints,omitempty"`
	// Sets are the counter sets that the device draws from, where several.
	Sets []string `json:"sets,omitempty"`
}

// TaintState is a taint of a device and where it comes from.
type TaintState struct {
	Taint string `json:"taint"`
	// Rule is the DeviceTaintRule that sets the taint; Offer the device of a fabric's
	// pool, as driver/pool/device, that reserves this one; Slice the ResourceSlice
	// that publishes it. One of them is set.
	Rule  string `json:"rule,omitempty"`
	Offer string `json:"offer,omitempty"`
	Slice string `json:"slice,omitempty"`
	// Reserved says for which claim a fabric reserves the device, in words.
	Reserved string `json:"reserved,omitempty"`

	// redundant is set where another taint of the device says more.
	redundant bool
}

// Available reports whether a claim could be allocated the device.
func (d *DeviceState) Available() bool {
	return d.State == DeviceFree || d.State == DeviceOffered || d.State == DeviceShared || d.State == DeviceTainted
}

// PoolOf describes a pool and what is taken of it.
func PoolOf(p *inventory.Pool, use *inventory.PoolUse, o explain.Options) PoolTree {
	// The pool as a whole is what blocks are explained with.
	o.View = &inventory.View{Pools: []inventory.PoolView{{Pool: p, Devices: p.Devices, Use: use}}}
	b := &treeBuilder{options: o, pool: p, use: use, nodes: commonReach(p)}
	tree := PoolTree{Driver: p.ID.Driver, Pool: p.ID.Pool, Generation: p.Generation, Nodes: b.nodes, Rivals: explain.Rivals(p)}
	for _, e := range p.Problems {
		tree.Problems = append(tree.Problems, explain.Problem(p, e))
	}
	for i, set := range p.Sets {
		tree.Cards = append(tree.Cards, b.card(i, set))
	}
	for _, d := range p.Devices {
		state := b.device(d)
		if len(d.Groups) == 0 {
			tree.Devices = append(tree.Devices, state)
			continue
		}
		for _, g := range d.Groups {
			b.grow(&tree.Cards[g.Set], g.Set, d, &state)
		}
		first := &tree.Cards[d.Groups[0].Set]
		first.Devices = append(first.Devices, state)
	}
	for _, name := range slices.Sorted(maps.Keys(use.Gone)) {
		gone := DeviceState{Name: name, State: DeviceInUse}
		b.hold(&gone, use.Gone[name], nil)
		tree.Gone = append(tree.Gone, gone)
	}
	return tree
}

// Free leaves out devices that cannot be allocated, and the cards without others.
func (t *PoolTree) Free() PoolTree {
	free := *t
	available := func(of []DeviceState) []DeviceState {
		return slices.DeleteFunc(slices.Clone(of), func(d DeviceState) bool { return !d.Available() })
	}
	free.Devices, free.Cards, free.Gone = available(t.Devices), nil, nil
	for _, card := range t.Cards {
		if card.Devices = available(card.Devices); len(card.Devices) > 0 {
			free.Cards = append(free.Cards, card)
		}
	}
	return free
}

// treeBuilder describes one pool.
type treeBuilder struct {
	options explain.Options
	pool    *inventory.Pool
	use     *inventory.PoolUse
	nodes   string
}

func (b *treeBuilder) card(i int, set inventory.CounterSet) Card {
	card := Card{Name: set.Name, Closed: b.use.Closed[i]}
	for c := set.First; c < set.End; c++ {
		value, left := b.pool.Counters[c].Value, b.use.Free[c]
		card.Counters = append(card.Counters, CounterState{
			Name: b.pool.Counters[c].Name, Value: explain.Amount(value), Used: explain.Amount(value.Sub(left)), Left: explain.Amount(explain.NotBelowZero(left)),
		})
	}
	return card
}

// grow notes the device as the largest of the card if it is.
func (b *treeBuilder) grow(card *Card, set int, d *inventory.Device, state *DeviceState) {
	if !state.Available() {
		return
	}
	var share float64
	for _, draw := range d.Draws {
		if c := b.pool.Counters[draw.Counter]; c.Set == set && c.Value.Sign() > 0 {
			share += draw.Amount.Ratio(c.Value)
		}
	}
	if share /= float64(max(1, len(card.Counters))); share > card.LargestShare {
		card.Largest, card.LargestShare = d.ID.Device, share
	}
}

func (b *treeBuilder) device(d *inventory.Device) DeviceState {
	state := DeviceState{Name: d.ID.Device, State: DeviceFree, Taints: taintsOf(&b.options, d)}
	if nodes := reachText(&d.Reach); nodes != b.nodes {
		state.Nodes = nodes
	}
	if len(d.Groups) > 1 {
		for _, g := range d.Groups {
			state.Sets = append(state.Sets, b.pool.Sets[g.Set].Name)
		}
	}
	taken := b.use.Taken[d.Index]
	if taken != nil {
		b.hold(&state, taken, d)
	}
	switch {
	case taken != nil && (taken.Dedicated || !d.MultiAlloc()):
		state.State = DeviceInUse
	case b.pool.Problem != nil:
		state.State = DeviceUnusable
	case taken != nil:
		state.State = DeviceShared
	case b.blocked(d):
		state.State, state.Why = DeviceBlocked, explain.Blocked(d, b.options)
	case slices.ContainsFunc(d.Taints, func(t inventory.Taint) bool { return inventory.KeepsAway(&t.DeviceTaint) }):
		state.State = DeviceTainted
		if arriving(d) {
			state.State = DeviceArriving
		}
	case d.Offered():
		state.State = DeviceOffered
	}
	return state
}

// arriving tells whether the device may be the one that arrives for a claim. One that
// is kept for a claim has arrived.
func arriving(d *inventory.Device) bool {
	has := func(key string) bool {
		return slices.ContainsFunc(d.Taints, func(t inventory.Taint) bool { return t.Key == key })
	}
	return has(inventory.ArrivingTaint) && !has(inventory.ClaimTaint)
}

// hold notes the claims of an occupancy, and what they consume by the names that the
// device has now, if it is published.
func (b *treeBuilder) hold(state *DeviceState, o *inventory.Occupancy, d *inventory.Device) {
	for _, h := range o.Holders {
		if b.options.Visible != nil && !b.options.Visible(h.Namespace) {
			state.HeldByOthers++
		} else if name := h.String(); !slices.Contains(state.HeldBy, name) {
			state.HeldBy = append(state.HeldBy, name)
		}
	}
	for name, consumed := range o.Consumed {
		if state.Consumed == nil {
			state.Consumed = map[string]string{}
		}
		if d != nil {
			name, _, _ = inventory.Named(d.Spec.Capacity, d.ID.Driver, name)
		}
		state.Consumed[string(name)] = explain.Amount(consumed)
	}
}

// blocked reports whether the counters do not hold what the device draws, or its
// compatibility groups exclude it.
func (b *treeBuilder) blocked(d *inventory.Device) bool {
	for _, g := range d.Groups {
		if b.use.Closed[g.Set] || !b.compatible(g) {
			return true
		}
	}
	return slices.ContainsFunc(d.Draws, func(draw inventory.Draw) bool { return b.use.Free[draw.Counter].Cmp(draw.Amount) < 0 })
}

// compatible reports whether the groups have one in common with all devices that
// are taken of the set (consumesCounters[].compatibilityGroups). None is common
// with none alone.
func (b *treeBuilder) compatible(g inventory.SetGroups) bool {
	common := g.Groups
	for i, other := range b.pool.Devices {
		if b.use.Taken[i] == nil {
			continue
		}
		for _, theirs := range other.Groups {
			if theirs.Set != g.Set || len(g.Groups) == 0 && len(theirs.Groups) == 0 {
				continue
			}
			common = slices.DeleteFunc(slices.Clone(common), func(group string) bool { return !slices.Contains(theirs.Groups, group) })
			if len(common) == 0 {
				return false
			}
		}
	}
	return true
}

func taintsOf(o *explain.Options, d *inventory.Device) []TaintState {
	var taints []TaintState
	for i := range d.Taints {
		t := &d.Taints[i]
		state := TaintState{Taint: t.String(), Rule: t.Rule}
		state.Reserved, state.redundant = o.Reserved(t), explain.Redundant(t, d.Taints)
		switch {
		case t.Offer != inventory.DeviceID{}:
			state.Offer = t.Offer.String()
		case t.Rule == "":
			state.Slice = d.Slice.Name
		}
		taints = append(taints, state)
	}
	return taints
}

func commonReach(p *inventory.Pool) string {
	var common string
	for i, d := range p.Devices {
		text := reachText(&d.Reach)
		if i > 0 && text != common {
			return ""
		}
		common = text
	}
	return common
}
