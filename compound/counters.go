// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package compound

import (
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kerf.dev/kerf/inventory"
)

// block is what has to be in one counter set: the counter of an atom, or those of a driver's
// set. Sealed ones have compatibility groups, which compare all that draws on a set, and so
// share it with nobody.
type block struct {
	counters map[string]resourceapi.Counter
	sealed   bool
	set      *counterSet
	parent   *block // to the root of what molecules connect
}

// counterSet is one that is published.
type counterSet struct {
	resourceapi.CounterSet
	sealed bool
}

// layout puts counters into sets such that each molecule draws on few enough of them.
type layout struct {
	atoms  map[inventory.DeviceID]*block
	driven map[setID]*block
	sets   []*counterSet
}

// layOut gives the merged drafts their counters: one for each atom of a molecule, so that
// what has the atom excludes each other, and those that atoms have of their drivers. It
// returns the drafts that can be published, and the counter sets.
func layOut(drafts []*draft) ([]*draft, []resourceapi.CounterSet) {
	l := &layout{atoms: map[inventory.DeviceID]*block{}, driven: map[setID]*block{}}
	for _, d := range drafts {
		l.addBlocks(d)
	}
	components := map[*block][]*draft{}
	var order []*block
	for _, d := range drafts {
		blocks := l.blocksOf(d)
		for _, b := range blocks {
			b.root().parent = blocks[0].root()
		}
	}
	var published []*draft
	for _, d := range drafts {
		blocks := l.blocksOf(d)
		if len(blocks) == 0 {
			published = append(published, d)
			continue
		}
		root := blocks[0].root()
		if components[root] == nil {
			order = append(order, root)
		}
		components[root] = append(components[root], d)
	}
	for _, root := range order {
		l.place(components[root])
		for _, d := range components[root] {
			if l.consume(d); d.problem == "" {
				published = append(published, d)
			}
		}
	}
	return published, l.used(published)
}

// addBlocks notes what the draft draws on. Atoms of molecules have a counter.
func (l *layout) addBlocks(d *draft) {
	for _, m := range d.members {
		if len(d.members) > 1 && l.atoms[m.DeviceID] == nil {
			one := map[string]resourceapi.Counter{nameOf([]Atom{m.Atom}): {Value: *resource.NewQuantity(1, resource.DecimalSI)}}
			l.atoms[m.DeviceID] = &block{counters: one}
		}
		for _, use := range m.Groups {
			set := m.pool.Sets[use.Set]
			id := setID{m.Driver, m.Pool, set.Name}
			b := l.driven[id]
			if b == nil {
				b = &block{counters: map[string]resourceapi.Counter{}}
				for _, c := range m.pool.Counters[set.First:set.End] {
					b.counters[id.name(c.Name)] = resourceapi.Counter{Value: c.Value.Quantity()}
				}
				l.driven[id] = b
			}
			b.sealed = b.sealed || len(use.Groups) > 0
		}
	}
}

// name is that of a driver's counter among those of all drivers.
func (id setID) name(counter string) string {
	return short(counter, 63, hashOf(id.driver, id.pool, id.set, counter))
}

// blocksOf are what the draft draws on, each once.
func (l *layout) blocksOf(d *draft) []*block {
	var blocks []*block
	add := func(b *block) {
		if b != nil && !slices.Contains(blocks, b) {
			blocks = append(blocks, b)
		}
	}
	for _, m := range d.members {
		add(l.atoms[m.DeviceID])
		for _, use := range m.Groups {
			add(l.driven[setID{m.Driver, m.Pool, m.pool.Sets[use.Set].Name}])
		}
	}
	return blocks
}

func (b *block) root() *block {
	for b.parent != nil && b.parent != b {
		if b.parent.parent != nil {
			b.parent = b.parent.parent // shorter for the next
		}
		b = b.parent
	}
	return b
}

// place puts the blocks of what molecules connect into sets. What a molecule draws on comes
// into the sets that it draws on already, if there is room, else into the newest that has,
// so that neighbours are together.
func (l *layout) place(drafts []*draft) {
	first := len(l.sets)
	for _, d := range drafts {
		blocks := l.blocksOf(d)
		var own []*counterSet
		for _, b := range blocks {
			if b.set != nil {
				own = append(own, b.set)
			}
		}
		for _, b := range blocks {
			if b.set != nil {
				continue
			}
			candidates := slices.Clone(own)
			for i := len(l.sets) - 1; i >= first; i-- {
				candidates = append(candidates, l.sets[i])
			}
			at := slices.IndexFunc(candidates, func(s *counterSet) bool { return s.takes(b) })
			if at >= 0 {
				b.set = candidates[at]
			} else {
				b.set = &counterSet{sealed: b.sealed}
				b.set.Name = fmt.Sprintf("set-%d", len(l.sets))
				b.set.Counters = map[string]resourceapi.Counter{}
				l.sets = append(l.sets, b.set)
			}
			maps.Copy(b.set.Counters, b.counters)
			own = append(own, b.set)
		}
	}
}

func (s *counterSet) takes(b *block) bool {
	return !s.sealed && !b.sealed && len(s.Counters)+len(b.counters) <= resourceapi.ResourceSliceMaxCountersPerCounterSet
}

// consume says what the draft draws on.
func (l *layout) consume(d *draft) {
	by := map[*counterSet]*resourceapi.DeviceCounterConsumption{}
	draw := func(b *block, name string, value resource.Quantity) {
		if by[b.set] == nil {
			by[b.set] = &resourceapi.DeviceCounterConsumption{CounterSet: b.set.Name, Counters: map[string]resourceapi.Counter{}}
		}
		by[b.set].Counters[name] = resourceapi.Counter{Value: value}
	}
	for _, m := range d.members {
		if b := l.atoms[m.DeviceID]; b != nil {
			draw(b, nameOf([]Atom{m.Atom}), *resource.NewQuantity(1, resource.DecimalSI))
		}
	}
	for id, amount := range d.draws {
		draw(l.driven[id.setID], id.name(id.counter), amount.Quantity())
	}
	for id, groups := range d.groups {
		if c := by[l.driven[id].set]; c != nil && len(groups) > 0 {
			c.CompatibilityGroups = groups
		}
	}
	for _, s := range l.sets {
		if c := by[s]; c != nil {
			d.device.ConsumesCounters = append(d.device.ConsumesCounters, *c)
		}
	}
	if n := len(d.device.ConsumesCounters); n > resourceapi.ResourceSliceMaxDeviceCounterConsumptionsPerDevice {
		d.refuse("combine fewer atoms, or atoms that fewer other molecules have",
			"its counters are in %d sets, more than %d: a set has at most %d counters", n, resourceapi.ResourceSliceMaxDeviceCounterConsumptionsPerDevice, resourceapi.ResourceSliceMaxCountersPerCounterSet)
	}
}

// used are the sets that something published draws on.
func (l *layout) used(published []*draft) []resourceapi.CounterSet {
	names := map[string]bool{}
	for _, d := range published {
		for _, c := range d.device.ConsumesCounters {
			names[c.CounterSet] = true
		}
	}
	var sets []resourceapi.CounterSet
	for _, s := range l.sets {
		if names[s.Name] {
			sets = append(sets, s.CounterSet)
		}
	}
	return sets
}
