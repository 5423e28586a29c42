// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"maps"
	"slices"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
)

// holders are claims that hold devices: the names of those that the reader may know, and
// the others, which are counted.
type holders struct {
	named  map[string]bool
	hidden map[inventory.Holder]bool
	// more is set where not all were looked for.
	more bool
}

func newHolders() *holders {
	return &holders{named: map[string]bool{}, hidden: map[inventory.Holder]bool{}}
}

func (h *holders) some() bool { return len(h.named)+len(h.hidden) > 0 }

// String is "ns/a and 2 claims in other namespaces"; it is empty where there are none.
func (h *holders) String() string {
	names := slices.Sorted(maps.Keys(h.named))
	if n := len(h.hidden); n > 0 {
		names = append(names[:min(len(names), Listed)], Count(n, "claim")+" in "+Verb(n, "another namespace", "other namespaces"))
	}
	if h.more {
		names = append(names[:min(len(names), Listed)], "others")
	}
	return ListAnd(names)
}

// join adds other holders.
func (h *holders) join(o *holders) {
	maps.Copy(h.named, o.named)
	maps.Copy(h.hidden, o.hidden)
	h.more = h.more || o.more
}

// heldBy says who holds the devices together, for example "held by ns/a and 2
// claims in other namespaces".
func (o *Options) heldBy(devices ...inventory.DeviceID) string {
	if who := o.holders(devices...).String(); who != "" {
		return "held by " + who
	}
	return "held by another claim"
}

// holders finds the claims that hold any of the devices.
func (o *Options) holders(devices ...inventory.DeviceID) *holders {
	found := newHolders()
	if o.Holders == nil {
		return found
	}
	for _, id := range devices {
		for _, h := range o.Holders(id) {
			switch {
			case h == (inventory.Holder{}):
				// Somebody that the inventory does not know either.
			case o.Visible != nil && !o.Visible(h.Namespace):
				found.hidden[h] = true
			default:
				found.named[h.String()] = true
			}
		}
	}
	return found
}

// maxHeld bounds the devices whose holders are looked for, for a line.
const maxHeld = 128

// inTheWay are the holders of what the request of the conflict has too few of: devices
// in use, or what others draw from their counters or capacity. Who holds a device that
// is too small for the request even when it is free is not in the way. Remedies name
// holders, too.
func (t *teller) inTheWay() *holders {
	if t.Conflict.Kind != alloc.TooFew || t.Holders == nil || len(t.Remedies) > 0 {
		return newHolders()
	}
	var devices []inventory.DeviceID
	add := func(id inventory.DeviceID) {
		if len(devices) <= maxHeld && !slices.Contains(devices, id) {
			devices = append(devices, id)
		}
	}
	for _, r := range t.reportsAtFault() {
		for _, stage := range []alloc.Stage{alloc.StageFree, alloc.StageCapacity} {
			for _, d := range r.Dropped[stage] {
				if len(devices) <= maxHeld && t.sufficesFree(r, d) {
					add(d.ID)
				}
			}
		}
		short := r.Dropped[alloc.StageCounters]
		for _, d := range short[:min(len(short), maxMissed)] {
			if !t.sufficesFree(r, d) {
				continue
			}
			for _, id := range t.drawingFromSame(d) {
				add(id)
			}
		}
	}
	found := t.holders(devices[:min(len(devices), maxHeld)]...)
	found.more = len(devices) > maxHeld
	return found
}

// sufficesFree reports whether the device may have the capacity that the request takes,
// and its counters what the device draws, when nobody holds any of that.
func (o *Options) sufficesFree(r *alloc.RequestReport, d *inventory.Device) bool {
	if pv := o.pool(d.ID.PoolID()); pv != nil && slices.ContainsFunc(d.Draws, func(draw inventory.Draw) bool {
		return pv.Pool.Counters[draw.Counter].Value.Cmp(draw.Amount) < 0
	}) {
		return false
	}
	requests, _ := o.capacityAsked(r)
	if len(requests) == 0 {
		return true // without amounts a request takes what the device has
	}
	if spelledTwice(d, requests) != "" {
		return false
	}
	s := o.shortfall(d, requests)
	return s == nil || s.kind == used
}
