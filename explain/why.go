// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

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
		return t.tainted(r, d)
	case alloc.StageCounters:
		return t.shortOfCounters(d)
	case alloc.StageCapacity:
		return t.tooSmall(r, d)
	case alloc.StageNode:
		s := r.Shortages[d]
		return fmt.Sprintf("kept out by %s: takes %s of its %s, %s left", t.whose(s.Resource), quantity(s.Resource, s.Needs), s.Resource, quantity(s.Resource, s.Left))
	}
	return losses[stage]
}

// untolerated returns the taints that keep the request away. Where it is not
// known what the request tolerates, those are all that keep anybody away.
func (t *teller) untolerated(r *alloc.RequestReport, d *inventory.Device) []inventory.Taint {
	asked, _ := t.asked(r.Claim, r.Request)
	var taints []inventory.Taint
	for _, taint := range d.Taints {
		if keepsAway(&taint) && !slices.ContainsFunc(asked.Tolerations, func(tol resourceapi.DeviceToleration) bool {
			return resourceclaim.ToleratesTaint(tol, taint.DeviceTaint)
		}) {
			taints = append(taints, taint)
		}
	}
	return taints
}

func keepsAway(taint *inventory.Taint) bool {
	return taint.Effect == resourceapi.DeviceTaintEffectNoSchedule || taint.Effect == resourceapi.DeviceTaintEffectNoExecute
}

func (t *teller) tainted(r *alloc.RequestReport, d *inventory.Device) string {
	var texts []string
	for _, taint := range t.untolerated(r, d) {
		text := taint.String()
		if taint.Rule != "" {
			text += " by rule " + taint.Rule
		}
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		return withoutNodeSupport
	}
	return "tainted " + list(texts)
}

// shortOfCounters names the first counter that does not hold what the device
// consumes, and who has it, or the devices in use that it is not compatible with.
func (t *teller) shortOfCounters(d *inventory.Device) string {
	pv := t.pool(d.ID.PoolID())
	if pv == nil {
		return losses[alloc.StageCounters]
	}
	if text := t.counterShortage(pv, d); text != "" {
		return text
	}
	if rivals, set := incompatible(pv, d); len(rivals) > 0 {
		return t.notCompatible(pv, d, rivals, set)
	}
	return apart
}

// counterShortage is empty where the counters hold what the device consumes.
func (t *teller) counterShortage(pv *inventory.PoolView, d *inventory.Device) string {
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
		text := fmt.Sprintf("short of counter %s of %s: needs %s, %s left", counter.Name, pv.Pool.Sets[counter.Set].Name, Amount(draw.Amount), Amount(free))
		if who := t.holders(users(pv, draw.Counter)...); who != "" {
			text += ", held by " + who
		}
		return text
	}
	return ""
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

// tooSmall names the first capacity of which the device has less than is asked.
func (t *teller) tooSmall(r *alloc.RequestReport, d *inventory.Device) string {
	asked, ok := t.asked(r.Claim, r.Request)
	if !ok || asked.Capacity == nil {
		return losses[alloc.StageCapacity]
	}
	for _, name := range slices.Sorted(maps.Keys(asked.Capacity.Requests)) {
		wanted := asked.Capacity.Requests[name]
		has, found := capacityOf(d, name)
		if !found {
			return fmt.Sprintf("too small: no %s, %s asked", name, wanted.String())
		}
		if has.Cmp(wanted) < 0 {
			return fmt.Sprintf("too small: %s %s, %s asked", name, has.String(), wanted.String())
		}
		if left, shared := t.capacityLeft(d, name, has); shared && left.Cmp(inventory.AmountOf(wanted)) < 0 {
			return fmt.Sprintf("too small: %s of %s %s left, %s asked, the rest %s", Amount(left), has.String(), name, wanted.String(), t.heldBy(d.ID))
		}
	}
	return "not able to give the capacity that is asked for"
}

func capacityOf(d *inventory.Device, name resourceapi.QualifiedName) (resource.Quantity, bool) {
	c, found := d.Spec.Capacity[name]
	if !found {
		c, found = d.Spec.Capacity[resourceapi.QualifiedName(strings.TrimPrefix(string(name), d.ID.Driver+"/"))]
	}
	return c.Value, found
}

// capacityLeft is what shares have left of a capacity.
func (t *teller) capacityLeft(d *inventory.Device, name resourceapi.QualifiedName, has resource.Quantity) (inventory.Amount, bool) {
	pv := t.pool(d.ID.PoolID())
	if pv == nil || pv.Use.Taken[d.Index] == nil {
		return inventory.Amount{}, false
	}
	return inventory.AmountOf(has).Sub(pv.Use.Taken[d.Index].Consumed[name]), true
}
