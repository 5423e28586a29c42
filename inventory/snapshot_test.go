// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// TestUnchangedIsShared: a snapshot makes anew what changed and nothing else.
func TestUnchangedIsShared(t *testing.T) {
	const pools = 50
	inv := New()
	for i := range pools {
		inv.SetSlice(slice(fmt.Sprint("s", i), inPool(fmt.Sprint("p", i)), onNode(fmt.Sprint("n", i)), with(named("d0"))))
	}
	before := inv.Snapshot()
	// rebuilt counts the pools and uses that are not those of before.
	rebuilt := func() (newPools, newUses int) {
		after := inv.Snapshot()
		for pool, use := range after.Pools {
			oldPool, oldUse := before.Pool(pool.ID)
			if pool != oldPool {
				newPools++
			}
			if use != oldUse {
				newUses++
			}
		}
		before = after
		return newPools, newUses
	}
	again := slice("s7", inPool("p7"), onNode("n7"), with(named("d0"), named("d1")))
	held := []Hold{{Device: DeviceID{"d", "p3", "d0"}}, {Device: DeviceID{"d", "p4", "d0"}}}
	for _, step := range []struct {
		name        string
		change      func()
		pools, uses int
	}{
		{"nothing", func() {}, 0, 0},
		{"a slice", func() { inv.SetSlice(again) }, 1, 1},
		{"the same slice", func() { inv.SetSlice(again) }, 0, 0},
		{"an old generation", func() { inv.SetSlice(slice("old", inPool("p7"), onNode("n7"), revision(0, 1))) }, 1, 1},
		{"two holds", func() { inv.SetHolds("o", held) }, 0, 2},
		{"one released", func() { inv.SetHolds("o", held[:1]) }, 0, 2},
		{"a rule", func() { inv.SetTaintRule(taintRule("r", &resourceapi.DeviceTaintSelector{Pool: ptr("p9")})) }, 1, 1},
		{"a rule that moves", func() { inv.SetTaintRule(taintRule("r", &resourceapi.DeviceTaintSelector{Pool: ptr("p8")})) }, 2, 2},
		{"a rule for nothing", func() { inv.SetTaintRule(taintRule("x", nil)) }, 0, 0},
		{"a deletion", func() { inv.DeleteSlice("s1") }, 0, 0},
		{"a rule for all", func() { inv.SetTaintRule(taintRule("a", &resourceapi.DeviceTaintSelector{})) }, pools - 1, pools - 1},
	} {
		step.change()
		if newPools, newUses := rebuilt(); newPools != step.pools || newUses != step.uses {
			t.Errorf("%s: %d pools and %d uses were made, want %d and %d", step.name, newPools, newUses, step.pools, step.uses)
		}
	}
	if last := inv.Snapshot(); inv.Snapshot() != last {
		t.Error("a snapshot was made though nothing changed")
	}
}

// TestSyncSlices: what is not listed goes, what is listed stays as it is.
func TestSyncSlices(t *testing.T) {
	a, b, c := slice("a", inPool("a"), with(named("d0"))), slice("b", inPool("b"), with(named("d0"))), slice("c", inPool("c"), with(named("d0")))
	inv := inventoryOf(a, b)
	before, _ := inv.Snapshot().Pool(PoolID{"d", "b"})
	inv.SyncSlices([]*resourceapi.ResourceSlice{c, b})
	if diff := cmp.Diff([]string{"d/b: d0", "d/c: d0"}, names(inv.Snapshot().View(node("n1")))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if after, _ := inv.Snapshot().Pool(PoolID{"d", "b"}); after != before {
		t.Error("a pool was made anew though its slices are the same")
	}
	inv.SyncSlices(nil)
	for pool := range inv.Snapshot().Pools {
		t.Errorf("pool %s is left", pool)
	}
}

// TestSliceMoves: a slice whose pool changes leaves its old pool.
func TestSliceMoves(t *testing.T) {
	inv := inventoryOf(slice("a", inPool("x"), with(named("d0"))))
	inv.Snapshot()
	inv.SetSlice(slice("a", inPool("y"), onNode("n2"), with(named("d0"))))
	snapshot := inv.Snapshot()
	if got := names(snapshot.View(node("n1"))); got != nil {
		t.Errorf("n1 still has %v", got)
	}
	if diff := cmp.Diff([]string{"d/y: d0"}, names(snapshot.View(node("n2")))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// draws says what a device of the property test always consumes.
var draws = map[string]map[draw]int64{
	"d0": {{"s0", "c0"}: 1},
	"d1": {{"s0", "c0"}: 2, {"s0", "c1"}: 1},
	"d2": {{"s1", "c0"}: 3},
	"d3": {},
	"d4": {{"s0", "c1"}: 5, {"s1", "c0"}: 7},
}

// state is everything that an inventory is told, and what of it a device taken
// at the time was known by.
type state struct {
	slices map[string]*resourceapi.ResourceSlice
	rules  map[string]*resourceapi.DeviceTaintRule
	holds  map[string][]Hold
	// seen are taken devices that a snapshot had while they were taken, or
	// the one before they were, and who published them.
	seen map[DeviceID]map[string]bool
}

// machine changes an inventory at random beside its state.
type machine struct {
	state
	inv   *Inventory
	last  *Snapshot
	texts map[*Snapshot]string
}

func newMachine() *machine {
	inv := New()
	return &machine{
		state: state{
			slices: map[string]*resourceapi.ResourceSlice{}, rules: map[string]*resourceapi.DeviceTaintRule{},
			holds: map[string][]Hold{}, seen: map[DeviceID]map[string]bool{},
		},
		inv: inv, last: inv.Snapshot(), texts: map[*Snapshot]string{},
	}
}

func oneOf[T any](t *rapid.T, label string, of ...T) T { return rapid.SampledFrom(of).Draw(t, label) }

func (m *machine) setSlice(t *rapid.T) {
	s := slice(oneOf(t, "slice", "a", "b", "c", "e", "f"), inPool(oneOf(t, "pool", "p", "q")),
		revision(rapid.Int64Range(1, 2).Draw(t, "generation"), rapid.Int64Range(1, 3).Draw(t, "count")))
	s.Spec.Driver = oneOf(t, "driver", "d", "e")
	switch oneOf(t, "nodes", "n1", "n2", "all", "some", "each") {
	case "n2":
		onNode("n2")(s)
	case "all":
		onAllNodes(s)
	case "some":
		s.Spec.NodeName, s.Spec.NodeSelector = nil, onNodes("n2", "n3")
	case "each":
		perDevice(s)
	}
	if rapid.Bool().Draw(t, "counters") {
		for _, set := range []string{"s0", "s1"} {
			if rapid.Bool().Draw(t, set) {
				withSet(set + "/c0=20")(s)
				s.Spec.SharedCounters[len(s.Spec.SharedCounters)-1].Counters["c1"] = resourceapi.Counter{Value: amountOfInt(10e9).Quantity()}
			}
		}
	} else {
		for _, name := range slices.Sorted(maps.Keys(draws)) {
			if rapid.Bool().Draw(t, name) {
				with(m.device(t, name))(s)
			}
		}
	}
	m.slices[s.Name] = s
	m.inv.SetSlice(s)
}

func (m *machine) device(t *rapid.T, name string) resourceapi.Device {
	d := resourceapi.Device{Name: name, NodeName: ptr(oneOf(t, "node", "n1", "n2"))}
	for _, set := range []string{"s0", "s1"} {
		consumes := resourceapi.DeviceCounterConsumption{CounterSet: set, Counters: map[string]resourceapi.Counter{}}
		for drawn, n := range draws[name] {
			if drawn.set == set {
				consumes.Counters[drawn.counter] = resourceapi.Counter{Value: amountOfInt(n).Quantity()}
			}
		}
		if len(consumes.Counters) > 0 {
			d.ConsumesCounters = append(d.ConsumesCounters, consumes)
		}
	}
	if rapid.Bool().Draw(t, "binding") {
		d.BindingConditions = []string{"attached"}
	}
	return d
}

func (m *machine) deleteSlice(t *rapid.T) {
	name := oneOf(t, "slice", "a", "b", "c", "e", "f")
	delete(m.slices, name)
	m.inv.DeleteSlice(name)
}

func (m *machine) syncSlices(t *rapid.T) {
	keep := rapid.Permutation(slices.Sorted(maps.Keys(m.slices))).Draw(t, "slices")
	keep = keep[:rapid.IntRange(0, len(keep)).Draw(t, "keep")]
	var all []*resourceapi.ResourceSlice
	for _, name := range keep {
		all = append(all, m.slices[name])
	}
	maps.DeleteFunc(m.slices, func(name string, _ *resourceapi.ResourceSlice) bool { return !slices.Contains(keep, name) })
	m.inv.SyncSlices(all)
}

func (m *machine) setRule(t *rapid.T) {
	optional := func(label string, of ...string) *string {
		if rapid.Bool().Draw(t, "any "+label) {
			return nil
		}
		return ptr(oneOf(t, label, of...))
	}
	var selector *resourceapi.DeviceTaintSelector
	if rapid.Bool().Draw(t, "selector") {
		selector = &resourceapi.DeviceTaintSelector{Driver: optional("driver", "d", "e"), Pool: optional("pool", "p", "q"), Device: optional("device", "d0", "d1")}
	}
	rule := taintRule(oneOf(t, "rule", "r0", "r1"), selector)
	m.rules[rule.Name] = rule
	m.inv.SetTaintRule(rule)
}

func (m *machine) deleteRule(t *rapid.T) {
	name := oneOf(t, "rule", "r0", "r1")
	delete(m.rules, name)
	m.inv.DeleteTaintRule(name)
}

func (m *machine) setHolds(t *rapid.T) {
	owner := oneOf(t, "owner", "o0", "o1", "o2")
	var holds []Hold
	for i := range rapid.IntRange(0, 2).Draw(t, "holds") {
		h := Hold{
			Device: DeviceID{oneOf(t, "driver", "d", "e"), oneOf(t, "pool", "p", "q"), oneOf(t, "device", "d0", "d1", "d2", "d3", "d4", "never")},
			Holder: Holder{Namespace: "ns", Claim: owner, UID: types.UID(owner)},
		}
		if rapid.Bool().Draw(t, "share") {
			h.ShareID = types.UID(fmt.Sprint(owner, i))
			h.Consumed = map[resourceapi.QualifiedName]Amount{"memory": amountOfInt(rapid.Int64Range(1, 5).Draw(t, "memory"))}
		}
		holds = append(holds, h)
	}
	delete(m.holds, owner)
	if len(holds) > 0 {
		m.holds[owner] = holds
	}
	maps.DeleteFunc(m.seen, func(id DeviceID, _ map[string]bool) bool { return !m.held(id) })
	m.inv.SetHolds(owner, holds)
}

func (s *state) held(id DeviceID) bool {
	for _, holds := range s.holds {
		if slices.ContainsFunc(holds, func(h Hold) bool { return h.Device == id }) {
			return true
		}
	}
	return false
}

// check takes a snapshot and compares it with one made from scratch, of the same
// objects in another order.
func (m *machine) check(t *rapid.T) {
	now := m.inv.Snapshot()
	m.note(now)
	scratch := m.fromScratch(t)
	if diff := cmp.Diff(strings.Split(describe(scratch), "\n"), strings.Split(describe(now), "\n")); diff != "" {
		t.Fatalf("incremental snapshot (-from scratch +incremental):\n%s", diff)
	}
	for pool, use := range now.Pools {
		e, _ := now.pools.Get(poolKey(pool.ID))
		m.checkCounters(t, pool, use, e.whole != nil && e.whole.pool == pool)
	}
	m.last, m.texts[now] = now, describe(now)
}

// note marks taken devices as seen that this snapshot or the last one has.
func (m *machine) note(now *Snapshot) {
	for _, holds := range m.holds {
		for _, h := range holds {
			for _, s := range []*Snapshot{m.last, now} {
				for p := range s.PoolsNamed(h.Device.PoolID()) {
					if d := p.Device(h.Device.Device); d != nil {
						if m.seen[h.Device] == nil {
							m.seen[h.Device] = map[string]bool{}
						}
						m.seen[h.Device][publisherOf(d.Slice)] = true
					}
				}
			}
		}
	}
}

func (m *machine) fromScratch(t *rapid.T) *Snapshot {
	inv := New()
	for _, name := range rapid.Permutation(slices.Sorted(maps.Keys(m.holds))).Draw(t, "order of holds") {
		inv.SetHolds(name, m.holds[name])
	}
	for _, name := range rapid.Permutation(slices.Sorted(maps.Keys(m.slices))).Draw(t, "order of slices") {
		inv.SetSlice(m.slices[name])
	}
	for _, name := range rapid.Permutation(slices.Sorted(maps.Keys(m.rules))).Draw(t, "order of rules") {
		inv.SetTaintRule(m.rules[name])
	}
	return inv.Snapshot()
}

// checkCounters works out what must be left of the pool: all but what is drawn
// by taken devices, and nothing where that is not known of one. Devices of other nodes
// than the pool's take nothing.
func (m *machine) checkCounters(t *rapid.T, p *Pool, use *PoolUse, whole bool) {
	closed := false
	drawn := map[draw]int64{}
	counted := map[DeviceID]bool{}
	for _, holds := range m.holds {
		for _, h := range holds {
			if h.Device.PoolID() != p.ID || counted[h.Device] {
				continue
			}
			counted[h.Device] = true
			seen := m.seen[h.Device]
			closed = closed || len(seen) == 0
			if p.owner != "" || !whole {
				if !seen[p.owner] && !seen[""] {
					continue
				}
			}
			for key, n := range draws[h.Device.Device] {
				drawn[key] += n
			}
		}
	}
	for i, c := range p.Counters {
		if use.Closed[c.Set] != closed {
			t.Fatalf("%s: set %s closed: %v, want %v", p, p.Sets[c.Set].Name, use.Closed[c.Set], closed)
		}
		want := c.Value.Sub(amountOfInt(drawn[draw{p.Sets[c.Set].Name, c.Name}]))
		if !closed && use.Free[i] != want {
			t.Fatalf("%s: counter %s of %s: %v left, want %v", p, c.Name, p.Sets[c.Set].Name, use.Free[i], want)
		}
	}
}

// describe writes everything about a snapshot except what is left of counters,
// which depends on history, and in which order nodes see it.
func describe(s *Snapshot) string {
	var b strings.Builder
	for p, use := range s.Pools {
		problems, err := json.Marshal(p.Problems)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&b, "%s %s\n", p, problems)
		for i, d := range p.Devices {
			fmt.Fprintf(&b, "  %s %d of %s, taints %v, draws %v, groups %v, reach %v %s\n",
				d.ID, d.Index, d.Slice.Name, d.Taints, d.Draws, d.Groups, d.Reach.NodeName, occupancy(use.Taken[i]))
		}
		for _, name := range slices.Sorted(maps.Keys(use.Gone)) {
			fmt.Fprintf(&b, "  gone %s %s\n", name, occupancy(use.Gone[name]))
		}
		fmt.Fprintf(&b, "  %v %v\n", p.Sets, p.Counters)
	}
	for _, n := range []string{"n1", "n2", "n3"} {
		fmt.Fprintf(&b, "%s: %v\n", n, names(s.View(node(n))))
	}
	return b.String()
}

func occupancy(o *Occupancy) string {
	if o == nil {
		return "free"
	}
	return fmt.Sprintf("%+v", *o)
}

func TestRandomChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine()
		t.Repeat(map[string]func(*rapid.T){
			"set slice":    m.setSlice,
			"set slice 2":  m.setSlice,
			"delete slice": m.deleteSlice,
			"sync slices":  m.syncSlices,
			"set rule":     m.setRule,
			"delete rule":  m.deleteRule,
			"set holds":    m.setHolds,
			"snapshot":     m.check,
		})
		m.check(t)
		for old, text := range m.texts {
			if diff := cmp.Diff(text, describe(old)); diff != "" {
				t.Fatalf("an old snapshot changed (-before +after):\n%s", diff)
			}
		}
	})
}
