// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import "time"

// moment is a device at a time. Predicates of the table only look at it; what they would
// have to wait for they leave in wake and want.
type moment struct {
	p   *facts
	now time.Time
	// claim is the one that the device is for, nil where it is for none, or that is gone.
	claim *Claim
	// dev is the device as the inventory has it, nil where it has not.
	dev *Device

	// wake is the next time at which a predicate can change, zero for never.
	wake time.Time
	// want asks for an inventory that is read at that time or later.
	want time.Time
}

// after tells whether a time has come.
func (m *moment) after(t time.Time) bool {
	if !m.now.Before(t) {
		return true
	}
	if m.wake.IsZero() || t.Before(m.wake) {
		m.wake = t
	}
	return false
}

// known tells whether there is an inventory.
func (m *moment) known() bool { return !m.p.inventoryAt.IsZero() }

// readSince tells whether the inventory was read at a time or later.
func (m *moment) readSince(t time.Time) bool {
	if m.known() && !m.p.inventoryAt.Before(t) {
		return true
	}
	if m.after(t) {
		m.want = m.now
	}
	return false
}

// calmSince tells whether the inventory was read at a time or later and shows
// that nothing is being done to the device.
func (m *moment) calmSince(t time.Time) bool {
	if !m.readSince(t) {
		return false
	}
	if m.dev != nil && m.dev.Busy {
		m.want = m.now
		return false
	}
	return true
}

func (m *moment) at(machine MachineRef) bool { return m.dev != nil && m.dev.Machine == machine }
func (m *moment) free() bool                 { return m.at("") }
