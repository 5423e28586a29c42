// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package compound

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"kerf.dev/kerf/api/compound/v1alpha1"
)

// Fault is a mistake in a policy.
type Fault struct{ Field, Problem, Fix string }

// Bounds of a policy, those of its schema: policies of files have met no API server.
const (
	maxAtoms, maxRules, maxShare, maxKeep = 16, 32, 4, 32
	maxName                               = 40
	maxListed                             = 128
	maxCount                              = 32
	maxMembers                            = 64 // two counter sets have no more counters
)

// checker collects the faults of a policy.
type checker struct {
	policy *v1alpha1.CompoundPolicy
	faults []Fault
}

// Check finds mistakes in a policy that do not depend on devices. compile says whether a
// selector is valid.
func Check(policy *v1alpha1.CompoundPolicy, compile func(expression string) error) []Fault {
	c := &checker{policy: policy}
	spec := &policy.Spec
	c.label("metadata.name", policy.Name, validation.DNS1123LabelMaxLength)
	if spec.Driver != "" {
		c.driver("spec.driver", spec.Driver)
	}
	c.within("spec.atoms", len(spec.Atoms), 1, maxAtoms)
	c.within("spec.molecules", len(spec.Molecules), 0, maxRules)
	if len(c.faults) > 0 {
		return c.faults // it may be too long to look at
	}
	names := map[string]bool{}
	for i := range spec.Atoms {
		c.atom(fmt.Sprintf("spec.atoms[%d]", i), &spec.Atoms[i], names, compile)
	}
	atoms := len(spec.Atoms)
	for i := range spec.Molecules {
		c.molecule(fmt.Sprintf("spec.molecules[%d]", i), &spec.Molecules[i], names)
	}
	if alone := func(a v1alpha1.Atom) bool { return a.Alone }; len(spec.Molecules) == 0 && atoms > 0 && !slices.ContainsFunc(spec.Atoms, alone) {
		c.fault("spec.molecules", "is empty, and no atom is published alone: the devices would be gone", "say which molecules there are")
	}
	return c.faults
}

func (c *checker) fault(field, problem, fix string) {
	c.faults = append(c.faults, Fault{field, problem, fix})
}

func (c *checker) within(field string, n, least, most int) {
	if n < least || n > most {
		c.fault(field, fmt.Sprintf("has %d entries", n), fmt.Sprintf("have %d to %d", least, most))
	}
}

func (c *checker) label(field, name string, most int) {
	if len(name) > most || len(validation.IsDNS1123Label(name)) > 0 {
		c.fault(field, "is no name", fmt.Sprintf("use a-z, 0-9 and hyphens inside, at most %d", most))
	}
}

func (c *checker) driver(field, name string) {
	if len(name) > validation.DNS1123LabelMaxLength || len(validation.IsDNS1123Subdomain(name)) > 0 {
		c.fault(field, "is no name of a driver", "use a DNS name such as gpu.example.com, at most 63 characters")
	}
}

// once notes a name of an atom or molecule.
func (c *checker) once(field, name string, names map[string]bool) {
	c.label(field, name, maxName)
	if names[name] {
		c.fault(field, fmt.Sprintf("%q is the name of an atom or molecule already", name), "name each differently")
	}
	names[name] = true
}

func (c *checker) atom(field string, a *v1alpha1.Atom, names map[string]bool, compile func(string) error) {
	c.once(field+".name", a.Name, names)
	c.driver(field+".driver", a.Driver)
	c.within(field+".keep", len(a.Keep), 0, maxKeep)
	if a.Driver == driverOf(c.policy) {
		c.fault(field+".driver", "is the driver of the molecules themselves", "name the driver that publishes the devices")
	}
	if a.Selector != "" {
		if err := compile(a.Selector); err != nil {
			text, _, _ := strings.Cut(err.Error(), "\n")
			c.fault(field+".selector", "the CEL expression does not compile: "+text, "write a CEL expression as for a DeviceClass")
		}
	}
}

func (c *checker) molecule(field string, m *v1alpha1.Molecule, names map[string]bool) {
	c.once(field+".name", m.Name, names)
	c.within(field+".share", len(m.Share), 0, maxShare)
	switch {
	case (len(m.Members) > 0) == (len(m.Listed) > 0):
		c.fault(field, "must have exactly one of members and listed", "say which atoms a molecule has")
	case len(m.Members) > 0:
		c.members(field+".members", m.Members)
	default:
		c.listed(field+".listed", m)
	}
}

func (c *checker) members(field string, members []v1alpha1.Member) {
	c.within(field, len(members), 1, maxAtoms)
	total, all, seen := 0, false, map[string]bool{}
	for i, m := range members[:min(len(members), maxAtoms)] {
		at := fmt.Sprintf("%s[%d]", field, i)
		c.known(at+".atom", m.Atom)
		if seen[m.Atom] {
			c.fault(at+".atom", "is a member already", "raise its count")
		}
		if m.Count < 0 || m.Count > maxCount {
			c.fault(at+".count", fmt.Sprintf("is %d", m.Count), fmt.Sprintf("use 1 to %d", maxCount))
		}
		if m.All && m.Count != 0 {
			c.fault(at+".count", "is for members without all", "leave out one of the two")
		}
		seen[m.Atom], all, total = true, all || m.All, total+countOf(m)
	}
	if total < 2 && !all || total > maxMembers {
		c.fault(field, fmt.Sprintf("are %d atoms", total), fmt.Sprintf("combine 2 to %d; publish atoms of their own with alone: true", maxMembers))
	}
}

func (c *checker) listed(field string, m *v1alpha1.Molecule) {
	c.within(field, len(m.Listed), 1, maxListed)
	if len(m.Share) > 0 {
		c.fault(field, "name their atoms, and share nothing by rule", "leave out share, or use members")
	}
	for i := range m.Listed[:min(len(m.Listed), maxListed)] {
		at, devices := fmt.Sprintf("%s[%d].devices", field, i), m.Listed[i].Devices
		c.within(at, len(devices), 2, maxCount)
		for j, device := range devices[:min(len(devices), maxCount)] {
			c.known(fmt.Sprintf("%s[%d].atom", at, j), device.Atom)
			if device.Device == "" {
				c.fault(fmt.Sprintf("%s[%d].device", at, j), "is missing", "name the device")
			}
		}
	}
}

// known demands the name of an atom.
func (c *checker) known(field, name string) {
	if !slices.ContainsFunc(c.policy.Spec.Atoms, func(a v1alpha1.Atom) bool { return a.Name == name }) {
		c.fault(field, "is no name of an atom in spec.atoms", "name one of these, or add it")
	}
}

func countOf(m v1alpha1.Member) int { return int(max(1, m.Count)) }

// driverOf is the driver of the policy's molecules.
func driverOf(policy *v1alpha1.CompoundPolicy) string {
	return cmp.Or(policy.Spec.Driver, v1alpha1.DefaultDriver)
}
