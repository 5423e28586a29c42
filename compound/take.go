// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package compound

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/inventory"
)

const (
	// leastCost is what evaluating the selectors of a node may take in any case, in CEL's
	// units, and deviceCost how much more for each device: a hundred times what honest ones
	// take. A million are a quarter of a second.
	leastCost, deviceCost = 2_000_000, 2_000
	// evaluationCost is for an evaluation, whatever it computes.
	evaluationCost = 4
)

// identified reports whether a slice says what pool it is of, which an API server demands.
func identified(slice *resourceapi.ResourceSlice) bool {
	return slice.Name != "" && slice.Spec.Driver != "" && slice.Spec.Pool.Name != "" && slice.Spec.Pool.Generation >= 0 && slice.Spec.Pool.ResourceSliceCount > 0
}

// readPools makes pools of the drivers' slices. Each has its devices in order of names.
func (d *decision) readPools() {
	inv := inventory.New()
	for _, slice := range d.Slices {
		if node := slice.Spec.NodeName; node != nil && *node != d.Node || !identified(slice) {
			continue
		}
		inv.SetSlice(slice)
	}
	d.work = leastCost
	for pool := range inv.Snapshot().Pools {
		d.pools = append(d.pools, pool)
		d.work += deviceCost * len(pool.Devices)
	}
	slices.SortStableFunc(d.pools, func(a, b *inventory.Pool) int { return a.ID.Compare(b.ID) })
}

// hideHeld takes away what allocated molecules have that are not published any more.
func (d *decision) hideHeld() {
	for _, pool := range d.pools {
		for _, device := range pool.Devices {
			if d.hold[device.ID] {
				d.note(Note{Reason: InUse, Field: pool.ID.String(), Devices: []inventory.DeviceID{device.ID}, Problem: "a molecule that is not published any more is allocated, and has these devices", Fix: "they come back when its claim is given up"})
				d.hidden[device.ID] = true
			}
		}
	}
}

// devicesOf calls yield for each device of the driver's sound pools, by pool and name.
func (d *decision) devicesOf(driver string, yield func(*inventory.Device) bool) {
	for _, pool := range d.pools {
		if pool.ID.Driver != driver || pool.Problem != nil {
			continue
		}
		devices := slices.Clone(pool.Devices)
		slices.SortFunc(devices, func(a, b *inventory.Device) int { return cmp.Compare(a.ID.Device, b.ID.Device) })
		for _, device := range devices {
			if !yield(device) {
				return
			}
		}
	}
}

// take finds the atoms of a policy. If it cannot tell which they are, it closes their
// drivers: a device that was an atom may be in use as a part of a molecule.
func (d *decision) take(policy int) {
	p := d.Policies[policy]
	faults := Check(p, d.Matcher.Compile)
	for _, fault := range faults {
		d.note(Note{Reason: InvalidPolicy, Policy: p.Name, Field: fault.Field, Problem: fault.Problem, Fix: fault.Fix})
	}
	if own := driverOf(p); slices.ContainsFunc(d.pools, func(pool *inventory.Pool) bool { return pool.ID.Driver == own }) {
		d.note(Note{Reason: InvalidPolicy, Policy: p.Name, Field: "spec.driver", Problem: "is a driver that publishes devices of the node itself", Fix: "choose a name that no driver has"})
		faults = append(faults, Fault{})
	}
	for i := range p.Spec.Atoms {
		if len(faults) > 0 || d.work <= 0 {
			d.closed[p.Spec.Atoms[i].Driver] = true
			continue
		}
		d.named[p.Spec.Atoms[i].Driver] = true
		d.noteBroken(p.Spec.Atoms[i].Driver)
		d.takeAtom(owner{policy, i})
	}
	if len(faults) > 0 || d.work <= 0 {
		d.unusable[policy] = true
	}
	if len(faults) == 0 && d.work <= 0 {
		d.note(Note{Reason: TooDear, Policy: p.Name, Field: "spec.atoms", Problem: "evaluating the selectors on the devices takes too long, and was given up",
			Fix: "simplify the selectors (nested loops, regular expressions that are put together)"})
	}
}

func (d *decision) noteBroken(driver string) {
	for _, pool := range d.pools {
		if pool.ID.Driver == driver && pool.Problem != nil {
			d.note(Note{Reason: BrokenPool, Field: pool.ID.String(), Problem: fmt.Sprintf("the pool is not complete and valid (%s), and nothing of it is published", pool.Problem.Kind),
				Fix: "see kerf lint; it passes by itself while a driver replaces its slices"})
		}
	}
}

// takeAtom gives the policy the devices that its selector matches.
func (d *decision) takeAtom(as owner) {
	p := d.Policies[as.policy]
	atom, field := &p.Spec.Atoms[as.atom], fmt.Sprintf("spec.atoms[%d]", as.atom)
	note := func(reason Reason, device *inventory.Device, problem, fix string) {
		d.note(Note{Reason: reason, Policy: p.Name, Field: field, Devices: []inventory.DeviceID{device.ID}, Problem: problem, Fix: fix})
	}
	failure := "" // the first, for all: texts may differ with every device
	for device := range func(yield func(*inventory.Device) bool) { d.devicesOf(atom.Driver, yield) } {
		if d.work <= 0 {
			d.closed[atom.Driver] = true
			return
		}
		match, err := d.matches(atom.Selector, device)
		other, owned := d.owners[device.ID]
		switch {
		case err != nil:
			failure = cmp.Or(failure, "the selector fails: "+err.Error())
			note(SelectorFails, device, failure, "guard what some devices lack: \"name\" in device.attributes[\"domain\"]")
		case !match:
		case device.Reach.NodeName != d.Node:
			note(NotOfNode, device, "devices that other nodes reach, too, cannot be atoms", "select devices of the node alone")
		case d.hidden[device.ID]: // in use
		case !owned:
			d.owners[device.ID] = as
		case other.policy == as.policy:
			note(AtomTwice, device, fmt.Sprintf("selects what the atom %q before it selects, and does not have it", p.Spec.Atoms[other.atom].Name), "have the selectors exclude each other")
		default:
			note(Overlap, device, fmt.Sprintf("selects what the policy %s has, and does not have it", d.Policies[other.policy].Name), "leave each device to one policy")
		}
	}
}

// matches evaluates a selector within what is left to work.
func (d *decision) matches(expression string, device *inventory.Device) (bool, error) {
	if expression == "" {
		d.work -= evaluationCost
		return true, nil
	}
	match, cost, err := d.Matcher.Match(nil, expression, device)
	d.work -= evaluationCost + int(min(cost, leastCost))
	if missing := interface{ MissingKey() string }(nil); errors.As(err, &missing) && missing.MissingKey() != "" {
		err = fmt.Errorf("no such key: %s", missing.MissingKey())
	}
	return match && err == nil, err
}

// keepCounterSetsWhole hides devices that draw on a counter set of an atom without being an
// atom of the same policy: the set moves to the pool of the molecules, and what is left
// behind could be given out beside them.
func (d *decision) keepCounterSetsWhole() {
	for _, pool := range d.pools {
		if pool.Problem != nil {
			continue
		}
		of := make([]int, len(pool.Sets)) // the first policy that has a set, from 1 on
		for _, device := range pool.Devices {
			as, owned := d.owners[device.ID]
			for _, use := range device.Groups {
				if owned && (of[use.Set] == 0 || as.policy < of[use.Set]-1) {
					of[use.Set] = as.policy + 1
				}
			}
		}
		for _, device := range pool.Devices {
			as, owned := d.owners[device.ID]
			for _, use := range device.Groups {
				if first := of[use.Set]; first > 0 && (!owned || as.policy != first-1) {
					d.note(Note{Reason: SharesCounters, Policy: d.Policies[first-1].Name, Field: "spec.atoms", Devices: []inventory.DeviceID{device.ID},
						Problem: "devices that are no atoms of the policy draw on counters of its atoms, and are not published", Fix: "select them, too, with alone: true"})
					d.hidden[device.ID] = true
					delete(d.owners, device.ID)
					break
				}
			}
		}
	}
}
