// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package compound

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/api/compound/v1alpha1"
	"kerf.dev/kerf/inventory"
)

const (
	// maxMolecules bounds those of a policy on a node.
	maxMolecules = 2048
	// maxGrouping bounds how many atoms the groups of a molecule's rule have in all.
	maxGrouping = 1 << 16
)

// composition finds the combinations of a policy on the node.
type composition struct {
	*decision
	policy *v1alpha1.CompoundPolicy
	// atoms are those of each name, sorted, listed the same by what lists call them.
	atoms  map[string][]*member
	listed map[listing][]*member
	drafts []*draft
	names  map[string]*draft
}

// member is an atom with its device.
type member struct {
	Atom
	*inventory.Device
	pool *inventory.Pool
	rule *v1alpha1.Atom
}

// listing is what a list calls a device: the name of the atom, and of the device.
type listing struct{ atom, device string }

// newComposition returns nil where the atoms are not known.
func newComposition(d *decision, policy int) *composition {
	c := &composition{decision: d, policy: d.Policies[policy], atoms: map[string][]*member{}, listed: map[listing][]*member{}, names: map[string]*draft{}}
	if d.unusable[policy] {
		return nil
	}
	for _, pool := range d.pools {
		for _, device := range pool.Devices {
			if as, owned := d.owners[device.ID]; owned && as.policy == policy {
				rule := &c.policy.Spec.Atoms[as.atom]
				c.atoms[rule.Name] = append(c.atoms[rule.Name], &member{Atom{rule.Name, device.ID}, device, pool, rule})
			}
		}
	}
	for name, of := range c.atoms {
		sortMembers(of)
		for _, m := range of {
			as := listing{name, m.DeviceID.Device}
			c.listed[as] = append(c.listed[as], m)
		}
	}
	return c
}

func sortMembers(of []*member) {
	slices.SortFunc(of, func(a, b *member) int { return compareIDs(a.ID, b.ID) })
}

// alone publishes the atoms that are to be.
func (c *composition) alone() {
	for i := range c.policy.Spec.Atoms {
		rule := &c.policy.Spec.Atoms[i]
		for _, atom := range c.atoms[rule.Name] {
			if rule.Alone {
				c.add(rule.Name, fmt.Sprintf("spec.atoms[%d]", i), []*member{atom})
			}
		}
	}
}

// combine adds the molecules of a rule, all or none of them.
func (c *composition) combine(i int) {
	rule, field := &c.policy.Spec.Molecules[i], fmt.Sprintf("spec.molecules[%d]", i)
	before := len(c.drafts)
	if len(rule.Listed) > 0 {
		c.list(rule, field)
	} else if !c.combineMembers(rule, field) {
		return // it says why there are none
	}
	if len(c.drafts) == before {
		c.fail(YieldsNothing, field, "yields no molecule of its own on this node", "look at the atoms and what they share, and at the molecules before it; the node may lack such devices")
	}
}

func (c *composition) fail(reason Reason, field, problem, fix string, devices ...inventory.DeviceID) {
	c.note(Note{Reason: reason, Policy: c.policy.Name, Field: field, Devices: devices, Problem: problem, Fix: fix})
}

// list adds the molecules that are listed.
func (c *composition) list(rule *v1alpha1.Molecule, field string) {
	for i := range rule.Listed {
		at := fmt.Sprintf("%s.listed[%d]", field, i)
		var members []*member
		for _, want := range rule.Listed[i].Devices {
			var found []*member
			for _, m := range c.listed[listing{want.Atom, want.Device}] {
				if want.Pool == "" || want.Pool == m.Pool {
					found = append(found, m)
				}
			}
			switch {
			case len(found) == 1 && slices.Contains(members, found[0]):
				c.fail(AtomTwice, at, "lists an atom twice", "list each once", found[0].DeviceID)
			case len(found) == 1:
				members = append(members, found[0])
			case len(found) > 1:
				c.fail(NotThere, at, "lists a device of which several pools have one", "name the pool", found[0].DeviceID, found[1].DeviceID)
			default:
				c.fail(NotThere, at, fmt.Sprintf("lists %s %q, which the node lacks", want.Atom, want.Device), "nothing, if only other nodes have it")
			}
		}
		if len(members) == len(rule.Listed[i].Devices) {
			c.add(rule.Name, field, members)
		}
	}
}

// combineMembers adds each combination of members. It reports false where it tries none.
func (c *composition) combineMembers(rule *v1alpha1.Molecule, field string) bool {
	groups, fine := c.groups(rule, field)
	if !fine {
		return false
	}
	total := 0
	for _, g := range groups {
		total = min(total+combinations(rule, g), maxMolecules+1)
	}
	if len(c.drafts)+total > maxMolecules {
		c.fail(TooMany, field, fmt.Sprintf("yields more molecules than there is room for, %d for a policy on a node", maxMolecules), "have members share an attribute, or select fewer atoms")
		return false
	}
	for _, g := range groups {
		if combinations(rule, g) > 0 { // else one member may have many, and the next none
			c.choose(rule, field, g, nil, 0, 0)
		}
	}
	return true
}

// combinations counts those of a group, up to more than the limit. More members than a
// device can have counters for are none.
func combinations(rule *v1alpha1.Molecule, g group) int {
	total, members := 1, 0
	for _, m := range rule.Members {
		n, k := len(g[m.Atom]), countOf(m)
		if m.All {
			k = max(1, n)
		}
		members += k
		total = min(total*binomial(n, k), maxMolecules+1)
	}
	if members > maxMembers && total > 0 {
		return maxMolecules + 1
	}
	return total
}

// binomial is n over k, or more than the limit.
func binomial(n, k int) int {
	if k > n {
		return 0
	}
	b := 1
	for i := range min(k, n-k) {
		if b = b * (n - i) / (i + 1); b > maxMolecules {
			return maxMolecules + 1
		}
	}
	return b
}

// choose adds all combinations that go on from those members: from atom number from on, for
// the rule's member number at.
func (c *composition) choose(rule *v1alpha1.Molecule, field string, g group, chosen []*member, at, from int) {
	if at == len(rule.Members) {
		c.add(rule.Name, field, chosen)
		return
	}
	m := rule.Members[at]
	of, want := g[m.Atom], countOf(m)
	if m.All {
		want = max(1, len(of))
	}
	have := 0
	for _, one := range chosen {
		if one.Name == m.Atom {
			have++
		}
	}
	if have == want {
		c.choose(rule, field, g, chosen, at+1, 0)
		return
	}
	for i := from; i+want-have <= len(of); i++ {
		c.choose(rule, field, g, append(slices.Clip(chosen), of[i]), at, i+1)
	}
}

// add drafts a molecule, if there is none of these atoms.
func (c *composition) add(rule, field string, members []*member) {
	members = slices.Clone(members)
	sortMembers(members)
	atoms := make([]Atom, len(members))
	for i, m := range members {
		atoms[i] = m.Atom
	}
	id := poolOf(driverOf(c.policy), c.Node, c.policy.Name)
	d := &draft{
		Molecule: Molecule{inventory.DeviceID{Driver: id.Driver, Pool: id.Pool, Device: nameOf(atoms)}, c.policy.Name, rule, atoms},
		field:    field, members: members,
	}
	switch other := c.names[d.Device]; {
	case other == nil:
		c.names[d.Device] = d
		c.drafts = append(c.drafts, d)
	case !slices.Equal(other.Atoms, atoms):
		c.fail(CannotCombine, field, "another molecule has the same name", "rename a device", d.ids()...)
	}
}

// group has the atoms of each name that share attributes.
type group map[string][]*member

// groups are those that share the rule's attributes, in order of the values. An atom with
// lists is in several. It reports false where it cannot tell.
func (c *composition) groups(rule *v1alpha1.Molecule, field string) ([]group, bool) {
	whole := group{}
	for _, m := range rule.Members {
		whole[m.Atom] = c.atoms[m.Atom]
	}
	groups, work := []group{whole}, 0
	for i, name := range rule.Share {
		at := fmt.Sprintf("%s.share[%d]", field, i)
		c.noteUnknown(rule, name, at)
		var next []group
		seen := map[string]bool{}
		for _, g := range groups {
			for _, part := range g.divide(name, &work) {
				if key := part.key(); !seen[key] {
					seen[key] = true
					next = append(next, part)
				}
			}
			if work > maxGrouping {
				c.fail(TooMany, at, "the groups of atoms that share it are too many", "share an attribute with fewer values, or select fewer atoms")
				return nil, false
			}
		}
		groups = next
	}
	return groups, true
}

// noteUnknown reports a shared attribute that no atom of a member has.
func (c *composition) noteUnknown(rule *v1alpha1.Molecule, name, field string) {
	for _, m := range rule.Members {
		lacks := func(a *member) bool {
			_, _, found := inventory.Named(a.Spec.Attributes, a.Driver, resourceapi.QualifiedName(name))
			return !found
		}
		if of := c.atoms[m.Atom]; len(of) > 0 && !slices.ContainsFunc(of, func(a *member) bool { return !lacks(a) }) {
			c.fail(UnknownAttribute, field, fmt.Sprintf("no %s has the attribute %s", m.Atom, name), "name an attribute that the driver publishes, with its domain")
		}
	}
}

// divide splits a group by the values of an attribute.
func (g group) divide(name string, work *int) []group {
	by := map[string]group{}
	for _, atom := range slices.Sorted(maps.Keys(g)) {
		for _, m := range g[atom] {
			_, a, _ := inventory.Named(m.Spec.Attributes, m.Driver, resourceapi.QualifiedName(name))
			values := valuesOf(&a).keys()
			slices.Sort(values)
			for _, value := range slices.Compact(values) {
				if *work++; *work > maxGrouping {
					return nil
				}
				if by[value] == nil {
					by[value] = group{}
				}
				by[value][atom] = append(by[value][atom], m)
			}
		}
	}
	var parts []group
	for _, value := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, by[value])
	}
	return parts
}

// key tells groups apart.
func (g group) key() string {
	var b strings.Builder
	for _, atom := range slices.Sorted(maps.Keys(g)) {
		for _, m := range g[atom] {
			b.WriteString(m.String() + "\n")
		}
	}
	return b.String()
}
