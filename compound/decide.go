// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package compound

import (
	"cmp"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/api/compound/v1alpha1"
	"kerf.dev/kerf/inventory"
)

// Matcher evaluates the selectors of atoms, as package selector does.
type Matcher interface {
	Compile(expression string) error
	Match(stop interface {
		Done() <-chan struct{}
		Err() error
	}, expression string, device *inventory.Device) (match bool, cost uint64, err error)
}

// Input is what is decided about: one node.
type Input struct {
	Node string
	// Policies in any order. Of two that take the same device, the first by name has it.
	Policies []*v1alpha1.CompoundPolicy
	// Slices are what the drivers of the node publish, in any order; their names tell
	// them apart. Those of other nodes are not looked at.
	Slices []*resourceapi.ResourceSlice
	// Previous are slices that are published in place of such slices already. They
	// decide about generations, and about nothing else.
	Previous []*resourceapi.ResourceSlice
	// Held are allocated molecules. If one is not published any more, its atoms are
	// published in no other way until it is given up.
	Held    []Molecule
	Matcher Matcher
}

// Atom is a device of a driver.
type Atom struct {
	// Name is what the policy calls it.
	Name string
	inventory.DeviceID
}

// Molecule is a device made of atoms. An atom that is published alone is one of one atom.
type Molecule struct {
	inventory.DeviceID
	Policy string
	// Rule is the name of the molecule or, of an atom alone, of the atom in the policy.
	Rule string
	// Atoms are sorted by driver, pool and device.
	Atoms []Atom
}

// Result is what is published in place of the drivers' slices.
type Result struct {
	// Slices are those of molecules, and those of drivers without the atoms, sorted by
	// driver, pool and name.
	Slices []*resourceapi.ResourceSlice
	// Molecules are those that are published, sorted.
	Molecules []Molecule
	// Report says what was left out and why, sorted.
	Report []Note

	known map[inventory.DeviceID]Molecule
}

// attempts bounds how often all is decided again without the atoms of what is held.
const attempts = 3

// Decide says what is published on a node; see the package documentation.
func Decide(in Input) *Result {
	in.Policies = slices.Clone(in.Policies)
	slices.SortStableFunc(in.Policies, func(a, b *v1alpha1.CompoundPolicy) int { return cmp.Compare(a.Name, b.Name) })
	hold := map[inventory.DeviceID]bool{}
	for attempt := 1; ; attempt++ {
		d := newDecision(&in, hold)
		d.decide()
		if d.holdMore(attempt == attempts) == 0 {
			return d.result()
		}
	}
}

// decision is one attempt.
type decision struct {
	*Input
	report
	pools []*inventory.Pool
	// owners have the devices that are atoms, hidden are those that are published in no
	// way, closed are drivers of which nothing is published but what policies take.
	owners map[inventory.DeviceID]owner
	hidden map[inventory.DeviceID]bool
	closed map[string]bool
	hold   map[inventory.DeviceID]bool
	// named are the drivers of atoms, unusable the policies of which the atoms are not known.
	named    map[string]bool
	unusable map[int]bool
	work     int
	drafts   []*draft
	known    map[inventory.DeviceID]Molecule
	sets     map[inventory.PoolID][]resourceapi.CounterSet
}

// owner is the policy of an atom, by its place in Input.Policies, and its place in that.
type owner struct{ policy, atom int }

func newDecision(in *Input, hold map[inventory.DeviceID]bool) *decision {
	return &decision{
		Input: in, hold: hold,
		owners: map[inventory.DeviceID]owner{}, hidden: map[inventory.DeviceID]bool{}, closed: map[string]bool{},
		named: map[string]bool{}, unusable: map[int]bool{},
		known: map[inventory.DeviceID]Molecule{}, sets: map[inventory.PoolID][]resourceapi.CounterSet{},
	}
}

func (d *decision) decide() {
	d.readPools()
	d.hideHeld()
	for i := range d.Policies {
		d.take(i)
	}
	d.keepCounterSetsWhole()
	for i := range d.Policies {
		d.compose(i)
	}
}

// compose makes the molecules of a policy.
func (d *decision) compose(policy int) {
	c := newComposition(d, policy)
	if c == nil {
		return
	}
	for i := range c.policy.Spec.Molecules {
		c.combine(i)
	}
	c.alone()
	var merged []*draft
	for _, draft := range c.drafts {
		d.known[draft.DeviceID] = draft.Molecule
		if draft.merge(); draft.problem != "" {
			d.note(draft.note(CannotCombine))
			continue
		}
		merged = append(merged, draft)
	}
	published, sets := layOut(merged)
	for _, draft := range merged {
		if draft.problem != "" {
			d.note(draft.note(CannotCombine))
		}
	}
	if len(published) == 0 {
		d.note(Note{Reason: YieldsNothing, Policy: c.policy.Name, Field: "spec", Problem: "the policy yields no device on this node",
			Fix: "look at the drivers, selectors and shared attributes; the node may lack such devices"})
		return
	}
	d.drafts = append(d.drafts, published...)
	d.sets[published[0].PoolID()] = sets
}

// holdMore takes away the atoms of held molecules that are not published, and returns how
// many there are that were not taken away before. At last it takes all that are held.
func (d *decision) holdMore(all bool) int {
	published := map[inventory.DeviceID]*draft{}
	for _, draft := range d.drafts {
		published[draft.DeviceID] = draft
	}
	before := len(d.hold)
	for i := range d.Held {
		held := &d.Held[i]
		if now := published[held.DeviceID]; !all && now != nil && slices.EqualFunc(now.Atoms, held.Atoms, func(a, b Atom) bool { return a.DeviceID == b.DeviceID }) {
			continue
		}
		for _, atom := range held.Atoms {
			d.hold[atom.DeviceID] = true
		}
	}
	return len(d.hold) - before
}

func (d *decision) result() *Result {
	r := &Result{Report: d.sorted(), known: d.known}
	for _, held := range d.Held {
		if _, found := r.known[held.DeviceID]; !found {
			r.known[held.DeviceID] = held
		}
	}
	for _, draft := range d.drafts {
		r.Molecules = append(r.Molecules, draft.Molecule)
	}
	slices.SortFunc(r.Molecules, func(a, b Molecule) int { return compareIDs(a.DeviceID, b.DeviceID) })
	p := newPublication(d.Node, d.Previous)
	p.drivers(d)
	p.molecules(d.drafts, d.sets)
	r.Slices = p.finish()
	return r
}

// AtomsOf returns the atoms of a device that was allocated, by driver, nil if it is none of
// the molecules. It knows those, too, that are held, and those that cannot be combined any more.
func (r *Result) AtomsOf(id inventory.DeviceID) map[string][]Atom {
	molecule, found := r.known[id]
	if !found {
		return nil
	}
	atoms := map[string][]Atom{}
	for _, atom := range molecule.Atoms {
		atoms[atom.Driver] = append(atoms[atom.Driver], atom)
	}
	return atoms
}

func compareIDs(a, b inventory.DeviceID) int {
	return cmp.Or(cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Device, b.Device))
}
