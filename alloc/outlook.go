// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"slices"

	"kerf.dev/kerf/inventory"
)

// outlook bounds what the chosen asks can still have while the devices of one of
// them are being picked. It is part of the state: what a device changes in it is
// undone with the device. A bound is never below what is possible, and it only
// shrinks on the way down, so it is worked out anew for the component of the
// device alone.
type outlook struct {
	demands []demand
	// of is the demand of each request, -1 for those that are not bounded.
	of []int
	// families are groups of counters whose draws may be added up.
	families [][2]int
}

// demand is one or several asks for the same devices.
type demand struct {
	// lead stands for all of them.
	lead *field
	// most bounds the devices per component; the last entry is for devices
	// that can be had independently of each other. sum adds it up.
	most []int
	sum  int
	// least is what one device takes of each family of counters.
	least []inventory.Amount
}

// hopeless looks ahead as far as that is worth the effort by now, and reports
// whether nothing can come of it.
func (s *search) hopeless(level, missing int) bool {
	defer s.meter.turn(s.meter.turn(Counting))
	late := s.steps >= memoryAfter
	return s.outlook == nil && (s.hard || late) && s.foresee(level, missing) || late && s.groupImpossible()
}

// foresee makes the outlook for the asks from the level on, and reports whether
// it is hopeless.
func (s *search) foresee(level, missing int) bool {
	o := &outlook{of: make([]int, len(s.requests))}
	var n int
	o.families, n = s.countFamilies()
	for r := range o.of {
		o.of[r] = -1
	}
	for _, f := range s.rest(level) {
		if f.admin || f.all {
			continue
		}
		if s.meter.out() {
			return false
		}
		at := slices.IndexFunc(o.demands, func(d demand) bool { return sameDemand(d.lead, f) })
		if at < 0 {
			at = len(o.demands)
			s.meter.payBytes(8*len(s.members) + 24*n)
			o.demands = append(o.demands, demand{lead: f, most: make([]int, len(s.members)+1), least: s.leastDraw(f, f.open, o.families, n)})
			for c := range o.demands[at].most {
				o.demands[at].set(c, s.mostIn(f, c))
			}
		}
		o.of[f.request] = at
	}
	s.trail = append(s.trail, change{kind: changedOutlook, outlook: s.outlook})
	s.outlook = o
	if s.meter.out() {
		return false // the outlook is worth nothing
	}
	return s.starved(level, missing)
}

func (d *demand) set(c, most int) {
	d.sum += most - d.most[c]
	d.most[c] = most
}

// sameDemand reports whether two asks can have the same devices on the same
// terms. Asks with constraints stay by themselves, and so do those of different
// claims: what one claim has with admin access is there for another.
func sameDemand(a, b *field) bool {
	return a.claim == b.claim && len(a.limits) == 0 && len(b.limits) == 0 && len(a.consumed) == 0 && len(b.consumed) == 0 && slices.Equal(a.open, b.open)
}

// mostIn bounds how many devices of a component the ask can have at once, or of
// all that stand for themselves. What was set aside for one ask counts: another
// one may have it.
func (s *search) mostIn(f *field, c int) int {
	if c == len(s.members) {
		n := 0
		for i := range f.open.all() {
			if s.alone(i) && s.fits(f, i) {
				n++
			}
		}
		return n
	}
	var units []int
	s.meter.pay(1 + len(s.members[c])/2)
	for _, i := range s.members[c] {
		if !s.alone(i) && f.open.has(i) && s.fits(f, i) {
			units = append(units, i)
		}
	}
	if len(units) < 2 {
		return len(units)
	}
	if len(f.limits) > 0 {
		return s.packing(f, units)
	}
	key := s.component(c, anyRequest).with(uint64(f.id))
	most, known := s.packs[key]
	if !known {
		most = s.packing(f, units)
		if s.packs == nil {
			s.packs = map[fingerprint]int{}
		}
		s.packs[key] = most
	}
	return most
}

// alone reports whether a unit does not compete for counters with others. Units
// that are shared may have paid for theirs already.
func (s *search) alone(i int) bool { return s.units[i].component < 0 || s.units[i].multi }

// narrow brings the outlook up to date after the unit was taken.
func (s *search) narrow(i int) {
	c := s.units[i].component
	for at := range s.outlook.demands {
		if c >= 0 {
			s.bound(at, c)
		}
		if s.alone(i) {
			s.bound(at, len(s.members))
		}
	}
}

func (s *search) bound(at, c int) {
	d := &s.outlook.demands[at]
	if most := s.mostIn(d.lead, c); most != d.most[c] {
		s.trail = append(s.trail, change{kind: changedMost, at: c, claim: at, old: d.most[c], outlook: s.outlook})
		d.set(c, most)
	}
}

// starved reports whether some demand cannot be met any more, or all together
// not, with so many devices missing for the level's own ask.
func (s *search) starved(level, missing int) bool {
	o := s.outlook
	need := make([]int, len(o.demands))
	s.meter.pay(len(need) + len(s.order) - level)
	for k, r := range s.order[level:] {
		f := s.asks[r]
		if o.of[r] < 0 {
			continue
		}
		want := f.want
		if k == 0 {
			want = missing
		}
		at := o.of[r]
		if need[at] += want; need[at] > o.demands[at].sum {
			return true
		}
	}
	return !s.meter.out() && (s.drained(need) || s.conflicting(need) || s.scarce(level, missing))
}

// scarce reports whether devices do not go round any more. That takes longer to
// find out than most problems take to solve, and is given up where it is of no use.
func (s *search) scarce(level, missing int) bool {
	if s.steps < memoryAfter || s.scarcity.asked > memoryAfter && s.scarcity.found < s.scarcity.asked/8 {
		return false
	}
	rest := s.rest(level)
	still := wants(rest)
	still[0] = missing
	s.scarcity.asked++
	if !s.overbooked(rest, still) && s.undivided(rest, still) == nil {
		return false
	}
	s.scarcity.found++
	return true
}

// drained reports whether the demands take more of some family of counters than
// is left.
func (s *search) drained(need []int) bool {
	o := s.outlook
	if len(o.families) == 0 || len(o.demands) == 0 {
		return false
	}
	left := make([]inventory.Amount, len(o.demands[0].least))
	s.meter.pay(4*len(o.families) + len(left)*(1+len(need)))
	for i, families := range o.families {
		if s.free[i].Sign() > 0 {
			for _, family := range families {
				left[family] = left[family].Add(s.free[i])
			}
		}
	}
	for at, n := range need {
		for family, least := range o.demands[at].least {
			for range n {
				left[family] = left[family].Sub(least)
			}
			if left[family].Sign() < 0 {
				return true
			}
		}
	}
	return false
}

// groupEffort bounds the steps spent on one group of requests by itself.
const groupEffort = 500

// groupImpossible reports whether requests that constraints tie together, but not
// to all others, cannot be satisfied even by themselves. Where they come last, the
// search would find out again for every choice of devices for the others.
func (s *search) groupImpossible() bool {
	if s.doomed || s.sound == len(s.order) {
		return s.doomed
	}
	s.sound = len(s.order)
	for _, group := range s.tiedGroups() {
		judged := !slices.ContainsFunc(group, func(r int) bool { return !s.judged(s.requests[r]) })
		if judged && len(group) < len(s.order) && newSearch(s.board, min(groupEffort, s.budget)).solveListed(group) == no {
			s.doomed = true
		}
	}
	return s.doomed
}

// tiedGroups lists the groups of requests that constraints tie together, without
// those that no constraint applies to.
func (s *search) tiedGroups() [][]int {
	var groups [][]int
	for c := range s.constraints {
		if s.meter.out() {
			return nil
		}
		var tied []int
		for _, r := range s.order {
			if s.tied[c].has(r) {
				tied = append(tied, r)
			}
		}
		s.meter.pay(8 * (len(s.order) + len(tied)))
		groups = slices.DeleteFunc(groups, func(other []int) bool {
			s.meter.pay(len(other) * len(tied))
			meets := slices.ContainsFunc(other, func(r int) bool { return slices.Contains(tied, r) })
			if meets {
				tied = append(tied, other...)
			}
			return meets
		})
		slices.Sort(tied)
		if tied = slices.Compact(tied); len(tied) > 0 {
			groups = append(groups, tied)
		}
	}
	return groups
}
