// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

// slots count the operations that may be under way at the manager.
type slots struct {
	total      int
	perMachine map[MachineRef]int
}

func (c *slots) room(limits Limits, m MachineRef) bool {
	return c.total < limits.Concurrent && c.perMachine[m] < limits.PerMachine
}

// occupy has the attachment hold a slot while its phase, or the one that is being
// written, counts against the limits, and give it back otherwise.
func (c *slots) occupy(a *entry) {
	var want MachineRef
	if phaseInfo[a.phase()].Operation || phaseInfo[a.next].Operation {
		want = a.machine()
	}
	if a.slot == want {
		return
	}
	if a.slot != "" {
		c.total--
		if c.perMachine[a.slot]--; c.perMachine[a.slot] == 0 {
			delete(c.perMachine, a.slot)
		}
	}
	if a.slot = want; want != "" {
		c.total++
		c.perMachine[want]++
	}
}
