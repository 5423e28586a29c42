// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"reflect"
	"slices"
	"strings"
	"time"
)

// ObserveInventory tells what the manager said, and when the reading began: what
// was done after that may or may not be in it. Inventories older than the last
// are ignored.
func (p *Planner) ObserveInventory(seen Inventory, began time.Time) {
	if !p.inventoryAt.IsZero() && began.Before(p.inventoryAt) {
		return
	}
	first := p.inventoryAt.IsZero()
	p.inventoryAt = began
	moved := p.takeMachines(seen.Machines)
	changed := p.takeDevices(seen.Devices)
	if len(changed) > 0 || moved || first {
		p.indexDevices()
		p.touchTemplates()
	}
	for _, ref := range changed {
		p.touchDevice(ref)
	}
	for k := range p.wanting {
		p.queue.touch(k)
	}
	if first {
		p.touchAll()
	}
}

// takeMachines tells whether a machine is not as it was.
func (f *facts) takeMachines(machines []Machine) bool {
	old := f.machines
	f.machines = map[MachineRef]*Machine{}
	for _, m := range machines {
		f.machines[m.Ref] = &m
	}
	return !reflect.DeepEqual(old, f.machines)
}

// takeDevices returns the devices that are not as they were.
func (p *Planner) takeDevices(devices []Device) []DeviceRef {
	var changed []DeviceRef
	seen := map[DeviceRef]bool{}
	for _, d := range devices {
		seen[d.Ref] = true
		delete(p.vanished, d.Ref)
		if old := p.devices[d.Ref]; old == nil || !reflect.DeepEqual(*old, d) {
			p.devices[d.Ref] = &d
			changed = append(changed, d.Ref)
		}
	}
	for ref := range p.devices {
		if !seen[ref] {
			// Whoever waits for the device is looked at while its name is known.
			p.touchDevice(ref)
			if len(p.byDevice[ref]) > 0 {
				p.vanished[ref] = p.devices[ref]
			}
			delete(p.devices, ref)
			changed = append(changed, ref)
		}
	}
	return changed
}

func (f *facts) indexDevices() {
	clear(f.devicesAt)
	clear(f.names)
	clear(f.refs)
	clear(f.members)
	for ref, d := range f.devices {
		if d.Machine != "" {
			add(f.devicesAt, d.Machine, ref)
		}
		if identity := f.policy.identity(d); identity != "" {
			f.refs[identity] = ref
		}
		if m := f.policy.model(d); m != nil {
			f.members[m] = append(f.members[m], ref)
			if !m.Template {
				f.names[f.offerName(m, ref)] = ref
			}
		}
	}
	for _, refs := range f.members {
		slices.SortFunc(refs, func(a, b DeviceRef) int { return strings.Compare(string(a), string(b)) })
	}
}

// touchAll has everything looked at: before the first inventory nothing could be
// decided.
func (p *Planner) touchAll() {
	for _, a := range p.attachments {
		p.queue.touch(a.key())
	}
	for _, c := range p.claims {
		p.touchClaim(c)
	}
	for ref := range p.devices {
		p.touchDevice(ref)
	}
}
