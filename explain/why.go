// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

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
		return fmt.Sprintf("kept out by %s: takes %s of its %s, %s left", t.whose(s.Resource), Quantity(s.Resource, s.Needs), s.Resource, Quantity(s.Resource, NotBelowZero(s.Left)))
	}
	return losses[stage]
}

// untolerated returns the taints that keep the request away. Where it is not
// known what the request tolerates, those are all that keep anybody away.
func (t *teller) untolerated(r *alloc.RequestReport, d *inventory.Device) []inventory.Taint {
	var taints []inventory.Taint
	away := t.keepsAway(r, d)
	for i := range d.Taints {
		if away(&d.Taints[i]) {
			taints = append(taints, d.Taints[i])
		}
	}
	return taints
}

// keepsAway tells which of a device's taints keep the request away.
func (t *teller) keepsAway(r *alloc.RequestReport, d *inventory.Device) func(*inventory.Taint) bool {
	asked, _ := t.asked(r.Claim, r.Request)
	claim := t.claim(r.Claim)
	mine := claim != nil && claim.UID != "" && d.KeptFor(claim.UID)
	return func(taint *inventory.Taint) bool {
		if mine && (taint.Key == inventory.ArrivingTaint || taint.Key == inventory.ClaimTaint && taint.Value == string(claim.UID)) {
			return false
		}
		return inventory.KeepsAway(&taint.DeviceTaint) && !alloc.Tolerates(asked.Tolerations, &taint.DeviceTaint)
	}
}

// mark is what a taint says, whoever set it.
type mark struct {
	key, value string
	effect     resourceapi.DeviceTaintEffect
}

func markOf(t *inventory.Taint) mark { return mark{t.Key, t.Value, t.Effect} }

// different are the taints of a device that do not say the same. Rules may set thousands,
// so this is found out once for all requests.
func (t *teller) different(d *inventory.Device) []*inventory.Taint {
	if known, found := t.taints[d]; found {
		return known
	}
	var taints []*inventory.Taint
	known := map[mark]bool{}
	for i := range d.Taints {
		if says := markOf(&d.Taints[i]); !known[says] {
			known[says] = true
			taints = append(taints, &d.Taints[i])
		}
	}
	if t.taints == nil {
		t.taints = map[*inventory.Device][]*inventory.Taint{}
	}
	t.taints[d] = taints
	return taints
}

// tainting is what the text about the taints of a device depends on: whose request it
// is, and what that tolerates.
type tainting struct {
	device      *inventory.Device
	claim       string
	tolerations string
}

// tainted says it once for all requests that tolerate the same: there may be thousands
// of taints.
func (t *teller) tainted(r *alloc.RequestReport, d *inventory.Device) string {
	about := tainting{d, r.Claim, t.tolerated(r)}
	text, known := t.tainting[about]
	if !known {
		text = t.taintsOf(r, d)
		if t.tainting == nil {
			t.tainting = map[tainting]string{}
		}
		t.tainting[about] = text
	}
	return text
}

// tolerated writes down what a request tolerates.
func (t *teller) tolerated(r *alloc.RequestReport) string {
	text, known := t.tolerations[r]
	if !known {
		asked, _ := t.asked(r.Claim, r.Request)
		for i := range asked.Tolerations {
			tol := &asked.Tolerations[i]
			text += fmt.Sprintf("%q %q %q %q,", tol.Key, tol.Operator, tol.Value, tol.Effect)
		}
		if t.tolerations == nil {
			t.tolerations = map[*alloc.RequestReport]string{}
		}
		t.tolerations[r] = text
	}
	return text
}

func (t *teller) taintsOf(r *alloc.RequestReport, d *inventory.Device) string {
	taints := t.untolerated(r, d)
	texts := t.taintTexts(taints, byRule)
	switch {
	case len(texts) == 0:
		return withoutNodeSupport
	case len(texts) == 1 && taints[0].Key == inventory.ClaimTaint:
		return texts[0].Text
	}
	return taintedWith(texts)
}

// taintedWith gives the taints in parentheses where some say what they reserve.
func taintedWith(taints []TaintText) string {
	texts := plain(taints)
	if slices.ContainsFunc(taints, func(t TaintText) bool { return t.Reserves }) {
		return "tainted (" + List(texts) + ")"
	}
	return "tainted " + List(texts)
}

// Blocked says why the counters of its pool keep a device from being allocated, as the
// view of the options has them.
func Blocked(d *inventory.Device, o Options) string { return (&teller{Options: o}).shortOfCounters(d) }

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
		text := fmt.Sprintf("short of counter %s of %s: needs %s, %s left", counter.Name, pv.Pool.Sets[counter.Set].Name, Amount(draw.Amount), Amount(NotBelowZero(free)))
		if who := t.holders(users(pv, draw.Counter)...).String(); who != "" {
			text += ", held by " + who
		}
		return text
	}
	return ""
}

// drawingFromSame are the taken devices that draw from the first counter which does not
// hold what the device consumes, or that it is not compatible with.
func (t *teller) drawingFromSame(d *inventory.Device) []inventory.DeviceID {
	pv := t.pool(d.ID.PoolID())
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
