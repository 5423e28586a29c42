// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package compound

import (
	"cmp"
	"slices"

	"kerf.dev/kerf/inventory"
)

// Reason is why something was left out.
type Reason string

// The reasons.
const (
	// InvalidPolicy: the policy has a mistake. Nothing of its drivers is published.
	InvalidPolicy Reason = "InvalidPolicy"
	// TooDear: its selectors take too long. Nothing of its drivers is published.
	TooDear Reason = "TooDear"
	// BrokenPool: a pool of an atom's driver is not complete and valid.
	BrokenPool Reason = "BrokenPool"
	// NotOfNode: devices that other nodes reach, too, are no atoms.
	NotOfNode Reason = "NotOfNode"
	// SelectorFails: a selector fails on devices, which are no atoms then.
	SelectorFails Reason = "SelectorFails"
	// AtomTwice: two atoms of the policy select a device, or a molecule lists it twice.
	AtomTwice Reason = "AtomTwice"
	// Overlap: another policy has the device.
	Overlap Reason = "Overlap"
	// SharesCounters: a device that no policy, or another one, takes shares counters with
	// an atom. It is not published.
	SharesCounters Reason = "SharesCounters"
	// UnknownAttribute: no atom has an attribute that members are to share.
	UnknownAttribute Reason = "UnknownAttribute"
	// NotThere: the node lacks a device that is listed, or has several of that name.
	NotThere Reason = "NotThere"
	// TooMany: the combinations are too many.
	TooMany Reason = "TooMany"
	// CannotCombine: the API has no device for these atoms together.
	CannotCombine Reason = "CannotCombine"
	// YieldsNothing: a molecule, or all of the policy, yields no device.
	YieldsNothing Reason = "YieldsNothing"
	// InUse: an allocated molecule that is not published any more has the devices.
	InUse Reason = "InUse"
)

// OfNode reports whether the node lacks something that others may have.
func (r Reason) OfNode() bool {
	return r == YieldsNothing || r == NotThere || r == UnknownAttribute
}

// Note is something that was left out. It is about one field of one policy, or about a pool
// if it has no policy.
type Note struct {
	Reason        Reason
	Policy, Field string
	// Devices are the first that it is about, and Count is how many there are.
	Devices []inventory.DeviceID
	Count   int
	// Problem says what is wrong, Fix what to do.
	Problem, Fix string
}

// maxNamed is how many devices a note names.
const maxNamed = 4

// report collects notes; those that differ in devices alone are one.
type report struct{ notes map[noteKey]*Note }

type noteKey struct {
	reason                 Reason
	policy, field, problem string
}

func (r *report) note(n Note) {
	if r.notes == nil {
		r.notes = map[noteKey]*Note{}
	}
	key := noteKey{n.Reason, n.Policy, n.Field, n.Problem}
	have := r.notes[key]
	if have == nil {
		n.Count, n.Devices = len(n.Devices), slices.Clone(n.Devices)
		n.Devices = n.Devices[:min(len(n.Devices), maxNamed)]
		r.notes[key] = &n
		return
	}
	have.Count += len(n.Devices)
	have.Devices = append(have.Devices, n.Devices[:min(len(n.Devices), maxNamed-len(have.Devices))]...)
}

func (r *report) sorted() []Note {
	var notes []Note
	for _, n := range r.notes {
		notes = append(notes, *n)
	}
	slices.SortFunc(notes, func(a, b Note) int {
		return cmp.Or(cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Field, b.Field), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Problem, b.Problem))
	})
	return notes
}
