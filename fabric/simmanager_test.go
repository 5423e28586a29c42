// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

var errLost = errors.New("connection reset")

// simManager is a fabric manager that is slow and has faults. It counts what is
// done at once.
type simManager struct {
	rng      *rand.Rand
	now      *time.Time
	faults   bool
	machines []Machine
	devices  map[DeviceRef]*Device
	gone     map[DeviceRef]Device
	running  []*simOperation
	ended    map[OperationID]Operation
	calls    int
	handles  bool
	most     int
	mostAt   map[MachineRef]int
}

type simOperation struct {
	id      OperationID
	device  DeviceRef
	machine MachineRef // whom the caller named
	to      MachineRef
	fails   bool
	ends    time.Time
}

func (m *simManager) chance(percent int) bool { return m.faults && m.rng.IntN(100) < percent }

func (m *simManager) inventory() (Inventory, error) {
	if m.chance(5) {
		return Inventory{}, errLost
	}
	inv := Inventory{Machines: slices.Clone(m.machines)}
	for _, ref := range slices.Sorted(maps.Keys(m.devices)) {
		inv.Devices = append(inv.Devices, *m.devices[ref])
	}
	return inv, nil
}

// start checks what a manager checks and begins an operation.
func (m *simManager) start(op string, ref DeviceRef, machine, from, to MachineRef) (Operation, error) {
	if m.chance(5) {
		return Operation{}, errLost // on the way there
	}
	d := m.devices[ref]
	switch {
	case d == nil:
		return Operation{}, &RefusedError{op, ref, machine, "no such device"}
	case m.chance(5):
		return Operation{}, &BusyError{RetryAfter: 3 * time.Second, Reason: "composing"}
	case d.Busy:
		return Operation{}, &BusyError{Reason: "device is busy"}
	case d.Machine != from:
		return Operation{}, &RefusedError{op, ref, machine, "the device is at " + string(d.Machine)}
	case m.chance(3):
		return Operation{}, &RefusedError{op, ref, machine, "policy"}
	}
	m.calls++
	o := &simOperation{id: OperationID(fmt.Sprint("task-", m.calls)), device: ref, machine: machine, to: to,
		fails: m.chance(5), ends: m.now.Add(time.Duration(m.rng.IntN(60)) * time.Second)}
	if op == "attach" && m.chance(5) {
		o.to = m.machines[m.rng.IntN(len(m.machines))].Ref
	}
	if !m.handles {
		o.id = ""
	}
	d.Busy = true
	m.running = append(m.running, o)
	m.count()
	if m.chance(5) {
		return Operation{}, errLost // on the way back
	}
	return Operation{ID: o.id, State: Running}, nil
}

func (m *simManager) count() {
	at := map[MachineRef]int{}
	for _, o := range m.running {
		at[o.machine]++
		m.mostAt[o.machine] = max(m.mostAt[o.machine], at[o.machine])
	}
	m.most = max(m.most, len(m.running))
}

func (m *simManager) operation(id OperationID) (Operation, error) {
	if m.chance(10) {
		return Operation{}, errLost
	}
	for _, o := range m.running {
		if o.id == id {
			return Operation{ID: id, State: Running}, nil
		}
	}
	if op, ok := m.ended[id]; ok && !m.chance(5) {
		return op, nil
	}
	return Operation{}, ErrUnknownOperation
}

// tick ends operations whose time has come; moved is called for what they move.
func (m *simManager) tick(moved func(DeviceRef, MachineRef, MachineRef)) {
	m.running = slices.DeleteFunc(m.running, func(o *simOperation) bool {
		if m.now.Before(o.ends) {
			return false
		}
		end := Operation{ID: o.id, State: Done}
		if o.fails {
			end.State, end.Message = Failed, "the card did not train"
		}
		if d := m.devices[o.device]; d != nil {
			d.Busy = false
			if !o.fails {
				moved(o.device, d.Machine, o.to)
				d.Machine = o.to
			}
		}
		m.ended[o.id] = end
		return true
	})
	if m.chance(1) {
		for _, ref := range slices.Sorted(maps.Keys(m.devices)) {
			d := m.devices[ref]
			if !d.Busy && len(m.gone) == 0 && m.rng.IntN(len(m.devices)) == 0 {
				m.gone[ref] = *d
				delete(m.devices, ref)
				break
			}
		}
	}
	if len(m.gone) > 0 && (!m.faults || m.rng.IntN(30) == 0) {
		for ref, d := range m.gone {
			d.Machine = ""
			m.devices[ref] = &d
		}
		clear(m.gone)
	}
}
