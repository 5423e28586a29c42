// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/api/compound/v1alpha1"
	"kerf.dev/kerf/compound"
	"kerf.dev/kerf/inventory"
)

// moleculeCost is for making a molecule, in CEL's units.
const moleculeCost = 500

// molecules collects what policies make of the nodes.
type molecules struct {
	*checker
	// seen are the notes of all nodes, by what they say.
	seen  map[said]*sightings
	order []said
	// nodes counts those that have a device of one of the policy's drivers.
	nodes map[string]int
}

// said is a note without the node and its devices.
type said struct {
	policy, field string
	reason        compound.Reason
	problem       string
}

type sightings struct {
	compound.Note
	node  string // the first
	nodes int
}

// checkCompound reports what is wrong with policies by themselves, and what they leave out
// of the devices that are there.
func (c *checker) checkCompound() {
	policies := c.cluster.CompoundPolicies
	if len(policies) == 0 {
		return
	}
	for _, p := range policies {
		for _, f := range compound.Check(p, c.matcher.Compile) {
			c.about("CompoundPolicy", p).report(Error, "compound-invalid", f.Field, f.Fix, "%s; until then nothing of its drivers is published", f.Problem)
		}
	}
	m := &molecules{checker: c, seen: map[said]*sightings{}, nodes: map[string]int{}}
	byNode := compound.ByNode(policies, c.cluster.ResourceSlices)
	for _, node := range slices.Sorted(maps.Keys(byNode)) {
		m.look(node, byNode[node])
	}
	for _, key := range m.order {
		m.report(key)
	}
	for _, p := range policies {
		if m.nodes[p.Name] == 0 && len(byNode) > 0 {
			c.about("CompoundPolicy", p).report(Warning, "compound-nothing", "spec.atoms", "name drivers that publish devices of nodes", "no node has a device of its drivers")
		}
	}
}

// paying charges the budget for selectors.
type paying struct{ *checker }

func (p paying) Compile(expression string) error { return p.matcher.Compile(expression) }

func (p paying) Match(stop interface {
	Done() <-chan struct{}
	Err() error
}, expression string, device *inventory.Device) (bool, uint64, error) {
	match, cost, err := p.matcher.Match(stop, expression, device)
	p.cel.pay(cost)
	return match, cost, err
}

// look decides what is published on a node.
func (m *molecules) look(node string, of []*resourceapi.ResourceSlice) {
	var policies []*v1alpha1.CompoundPolicy
	for _, p := range m.cluster.CompoundPolicies {
		has := func(s *resourceapi.ResourceSlice) bool {
			return len(s.Spec.Devices) > 0 && slices.ContainsFunc(p.Spec.Atoms, func(a v1alpha1.Atom) bool { return a.Driver == s.Spec.Driver })
		}
		if !slices.ContainsFunc(of, has) {
			continue
		}
		policies = append(policies, p)
		m.nodes[p.Name]++
	}
	if len(policies) == 0 {
		return
	}
	if m.cel.out() {
		skipped := m.about("CompoundPolicy", policies[0]).of
		skipped.Field = "spec.atoms"
		m.cel.skip(skipped)
		return
	}
	r := compound.Decide(compound.Input{Node: node, Policies: policies, Slices: of, Matcher: paying{m.checker}})
	m.keep(r)
	made := uint64(len(r.Molecules))
	for _, n := range r.Report {
		made += uint64(n.Count)
		m.hear(node, n)
	}
	m.cel.pay(made * moleculeCost)
}

// keep notes the devices that classes may select.
func (m *molecules) keep(r *compound.Result) {
	inv, pools := inventory.New(), map[inventory.PoolID]bool{}
	for _, molecule := range r.Molecules {
		pools[molecule.PoolID()] = true
	}
	for _, s := range r.Slices {
		if pools[inventory.PoolID{Driver: s.Spec.Driver, Pool: s.Spec.Pool.Name}] {
			inv.SetSlice(s)
		}
	}
	for pool := range inv.Snapshot().Pools {
		m.molecules = append(m.molecules, pool.Devices...)
	}
}

// selectsMolecule reports whether a class selects a device that a policy makes.
func (c *checker) selectsMolecule(class *resourceapi.DeviceClass) bool {
	return slices.ContainsFunc(c.molecules, func(d *inventory.Device) bool {
		for _, s := range class.Spec.Selectors {
			if c.cel.out() {
				return true // it is reported as unchecked
			}
			if match, err := c.match(s, d); !match || err != nil {
				return false
			}
		}
		return true
	})
}

func (m *molecules) hear(node string, n compound.Note) {
	key := said{n.Policy, n.Field, n.Reason, n.Problem}
	if seen := m.seen[key]; seen != nil {
		seen.nodes++
		return
	}
	m.seen[key] = &sightings{n, node, 1}
	m.order = append(m.order, key)
}

// report makes a finding of what was left out. What one node lacks another may have: it is
// reported if no node has it.
func (m *molecules) report(key said) {
	s := m.seen[key]
	at := slices.IndexFunc(m.cluster.CompoundPolicies, func(p *v1alpha1.CompoundPolicy) bool { return p.Name == key.policy })
	if at < 0 {
		return // a pool, which has rules of its own
	}
	of := m.about("CompoundPolicy", m.cluster.CompoundPolicies[at])
	if s.Reason.OfNode() && s.nodes < m.nodes[key.policy] {
		return
	}
	problem := s.Problem + s.where()
	switch s.Reason {
	case compound.InvalidPolicy:
		if key.field == "spec.driver" {
			of.report(Error, "compound-invalid", key.field, s.Fix, "%s", problem)
		}
	case compound.TooMany, compound.TooDear:
		of.report(Error, "compound-too-many", key.field, s.Fix, "%s", problem)
	case compound.AtomTwice:
		of.report(Warning, "compound-atom-twice", key.field, s.Fix, "%s", problem)
	case compound.Overlap:
		of.report(Warning, "compound-overlap", key.field, s.Fix, "%s", problem)
	case compound.UnknownAttribute:
		of.report(Warning, "compound-unknown-attribute", key.field, s.Fix, "%s", problem)
	case compound.YieldsNothing, compound.NotThere:
		of.report(Warning, "compound-nothing", key.field, s.Fix, "%s", problem)
	case compound.CannotCombine, compound.NotOfNode, compound.SharesCounters, compound.SelectorFails:
		of.report(Warning, "compound-left-out", key.field, s.Fix, "%s", problem)
	}
}

// where names the node, and the devices if there are any.
func (s *sightings) where() string {
	text := " (node " + s.node
	if s.nodes > 1 {
		text += fmt.Sprintf(" and %d more", s.nodes-1)
	}
	if len(s.Devices) > 0 {
		var names []string
		for _, d := range s.Devices {
			names = append(names, d.Device)
		}
		text += ": " + strings.Join(names, ", ")
		if more := s.Count - len(names); more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
	}
	return text + ")"
}
