// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
)

// withoutNodeSupport is the reason where a device skips node operations and the
// node does not declare that it supports this.
const withoutNodeSupport = "not supported by the node (skipNodeOperations)"

// why says what keeps a request from a device that fell out at a stage. It
// continues "the device is".
func (t *teller) why(r *alloc.RequestReport, stage alloc.Stage, d *inventory.Device) string {
	switch stage {
	case alloc.StageFree:
		return t.heldBy(d.ID)
	case alloc.StageTaints:
		return t.tainted.why(r, d)
	case alloc.StageCounters:
		return t.shortOfCounters(d)
	case alloc.StageCapacity:
		return t.tooSmall(r, d)
	case alloc.StageNode:
		s := r.Shortages[d]
		return fmt.Sprintf("kept out by %s: takes %s of its %s, %s left", t.whose(s.Resource), Quantity(s.Resource, s.Needs), s.Resource, Quantity(s.Resource, NotBelowZero(s.Left)))
	}
	return losses[stage]
}

// Blocked says why the counters of its pool keep a device from being allocated, as the
// view of the options has them.
func Blocked(d *inventory.Device, o Options) string { return o.shortOfCounters(d) }

// shortOfCounters names the first counter that does not hold what the device
// consumes, and who has it, or the devices in use that it is not compatible with.
func (o *Options) shortOfCounters(d *inventory.Device) string {
	pv := o.pool(d.ID.PoolID())
	if pv == nil {
		return losses[alloc.StageCounters]
	}
	if text := o.counterShortage(pv, d); text != "" {
		return text
	}
	if rivals, set := incompatible(pv, d); len(rivals) > 0 {
		return o.notCompatible(pv, d, rivals, set)
	}
	return apart
}

// counterShortage is empty where the counters hold what the device consumes.
func (o *Options) counterShortage(pv *inventory.PoolView, d *inventory.Device) string {
	for _, g := range d.Groups {
		if pv.Use.Closed[g.Set] {
			return fmt.Sprintf("short of counters: %s is partly held by a device that the pool no longer describes", pv.Pool.Sets[g.Set].Name)
		}
	}
	for _, draw := range d.Draws {
		counter, free := pv.Pool.Counters[draw.Counter], pv.Use.Free[draw.Counter]
		if free.Cmp(draw.Amount) >= 0 {
			continue
		}
		text := fmt.Sprintf("short of counter %s of %s: needs %s, %s left", counter.Name, pv.Pool.Sets[counter.Set].Name, Amount(draw.Amount), Amount(NotBelowZero(free)))
		if who := o.holders(users(pv, draw.Counter)...).String(); who != "" {
			text += ", held by " + who
		}
		return text
	}
	return ""
}

// drawingFromSame are the taken devices that draw from the first counter which does not
// hold what the device consumes, or that it is not compatible with.
func (o *Options) drawingFromSame(d *inventory.Device) []inventory.DeviceID {
	pv := o.pool(d.ID.PoolID())
	if pv == nil {
		return nil
	}
	for _, draw := range d.Draws {
		if pv.Use.Free[draw.Counter].Cmp(draw.Amount) < 0 {
			return users(pv, draw.Counter)
		}
	}
	rivals, _ := incompatible(pv, d)
	var ids []inventory.DeviceID
	for _, rival := range rivals {
		ids = append(ids, rival.ID)
	}
	return ids
}

// users are the taken devices that draw from a counter.
func users(pv *inventory.PoolView, counter int) []inventory.DeviceID {
	var ids []inventory.DeviceID
	for i, d := range pv.Pool.Devices {
		if pv.Use.Taken[i] != nil && slices.ContainsFunc(d.Draws, func(dr inventory.Draw) bool { return dr.Counter == counter }) {
			ids = append(ids, d.ID)
		}
	}
	return ids
}
