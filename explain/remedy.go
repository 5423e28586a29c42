// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
)

// Remedy is a change after which refused claims would fit.
type Remedy struct {
	// Free are devices that other claims would have to give back: all of them
	// or, with Any, one.
	Free []inventory.DeviceID
	Any  bool
	// Tolerate are taints that would have to go or, where requests can have
	// tolerations, be tolerated. With Free, both are needed.
	Tolerate []resourceapi.DeviceTaint
}

// Attempts bounds how often [Remedies] solves the problem again.
const Attempts = 24

// Remedies looks for changes to the node after which the refused claims would
// fit: first with single devices free that other claims hold, then with as few
// of them as it finds, then with taints tolerated, then with both. fits solves the problem on a
// changed view and reports whether there is a result; it is called at most
// [Attempts] times. No remedy found does not mean that there is none.
func Remedies(r *alloc.Refusal, view *inventory.View, fits func(*inventory.View) bool) []Remedy {
	t := &trial{view: view, fits: fits, left: Attempts}
	var found []Remedy
	holding := held(r, view)
	if remedy := t.freeing(holding); remedy != nil {
		found = append(found, *remedy)
	}
	if remedy := t.tolerating(taintsIn(r, alloc.StageTaints)); remedy != nil {
		found = append(found, *remedy)
	}
	if len(found) > 0 {
		return found
	}
	if remedy := t.together(holding, taintsIn(r, alloc.StageTaints, alloc.StageFree)); remedy != nil {
		found = append(found, *remedy)
	}
	return found
}

// trial counts the attempts.
type trial struct {
	view *inventory.View
	fits func(*inventory.View) bool
	left int
}

// try reports whether the claims fit with the devices free and without the taints. Once
// all attempts are made it does nothing more: there may be many devices.
func (t *trial) try(free []*inventory.Device, taints ...resourceapi.DeviceTaint) bool {
	if t.left == 0 {
		return false
	}
	t.left--
	view := t.view
	if len(free) > 0 {
		view = view.Vacated(free)
	}
	if len(taints) > 0 {
		view = tolerant(view, taints...)
	}
	return t.fits(view)
}

// singles is how many devices are tried alone.
const singles = 8

// freeing looks for a few devices that would have to be free.
func (t *trial) freeing(held []*inventory.Device) *Remedy {
	var enough []inventory.DeviceID
	for _, d := range held[:min(singles, len(held))] {
		if t.try([]*inventory.Device{d}) {
			enough = append(enough, d.ID)
		}
	}
	if len(enough) > 0 {
		return &Remedy{Free: enough, Any: len(enough) > 1}
	}
	if len(held) < 2 || !t.try(held) {
		return nil
	}
	return &Remedy{Free: idsOf(fewest(t, held, func(fewer []*inventory.Device) bool { return len(fewer) > 0 && t.try(fewer) }))}
}

// fewest leaves out of what is needed what the claims fit without, as long as there are
// attempts left.
func fewest[T any](t *trial, needed []T, fits func(fewer []T) bool) []T {
	for i := 0; i < len(needed) && t.left > 0; {
		if fewer := slices.Delete(slices.Clone(needed), i, i+1); fits(fewer) {
			needed = fewer
		} else {
			i++
		}
	}
	return needed
}

func idsOf(devices []*inventory.Device) []inventory.DeviceID {
	var ids []inventory.DeviceID
	for _, d := range devices {
		ids = append(ids, d.ID)
	}
	return ids
}

// held are the devices of other claims that stand in the way: those that the
// requests would take themselves, then those that draw from the same counters.
func held(r *alloc.Refusal, view *inventory.View) []*inventory.Device {
	h := &holdings{view: view, met: map[*inventory.Device]bool{}, drawing: map[*inventory.PoolView][][]*inventory.Device{}}
	for i := range r.Requests {
		dropped := r.Requests[i].Dropped
		for _, d := range slices.Concat(dropped[alloc.StageFree], dropped[alloc.StageCapacity]) {
			if pv := poolIn(view, d.ID.PoolID()); pv != nil && pv.Use.Taken[d.Index] != nil {
				h.add(d)
			}
		}
	}
	for i := range r.Requests {
		for _, d := range slices.Concat(r.Requests[i].Dropped[alloc.StageCounters], r.Requests[i].Candidates) {
			h.addRivals(d)
		}
	}
	return h.found
}

// holdings collects devices that others hold, each once.
type holdings struct {
	view  *inventory.View
	found []*inventory.Device
	met   map[*inventory.Device]bool
	// drawing has the taken devices by the counter that they draw from, until
	// they are found.
	drawing map[*inventory.PoolView][][]*inventory.Device
}

func (h *holdings) add(d *inventory.Device) {
	if !h.met[d] {
		h.met[d] = true
		h.found = append(h.found, d)
	}
}

// addRivals adds the taken devices that draw from a counter of the device.
func (h *holdings) addRivals(of *inventory.Device) {
	pv := poolIn(h.view, of.ID.PoolID())
	if pv == nil || len(of.Draws) == 0 {
		return
	}
	drawing := h.drawing[pv]
	if drawing == nil {
		drawing = make([][]*inventory.Device, len(pv.Pool.Counters))
		for i, d := range pv.Pool.Devices {
			for _, draw := range d.Draws {
				if pv.Use.Taken[i] != nil {
					drawing[draw.Counter] = append(drawing[draw.Counter], d)
				}
			}
		}
		h.drawing[pv] = drawing
	}
	var rivals []*inventory.Device
	for _, draw := range of.Draws {
		rivals = append(rivals, drawing[draw.Counter]...)
		drawing[draw.Counter] = nil
	}
	slices.SortFunc(rivals, func(a, b *inventory.Device) int { return a.Index - b.Index })
	for _, d := range rivals {
		h.add(d)
	}
}

// tolerating looks for taints that would have to be tolerated: one, else all.
func (t *trial) tolerating(taints []resourceapi.DeviceTaint) *Remedy {
	for _, taint := range taints {
		if t.try(nil, taint) {
			return &Remedy{Tolerate: []resourceapi.DeviceTaint{taint}}
		}
	}
	if len(taints) > 1 && t.try(nil, taints...) {
		return &Remedy{Tolerate: taints}
	}
	return nil
}

// together looks for devices that would have to be free and taints that would have
// to be tolerated, where neither is enough.
func (t *trial) together(held []*inventory.Device, taints []resourceapi.DeviceTaint) *Remedy {
	fits := func(held []*inventory.Device, taints []resourceapi.DeviceTaint) bool {
		return len(held) > 0 && len(taints) > 0 && t.try(held, taints...)
	}
	if !fits(held, taints) {
		return nil
	}
	taints = fewest(t, taints, func(fewer []resourceapi.DeviceTaint) bool { return fits(held, fewer) })
	held = fewest(t, held, func(fewer []*inventory.Device) bool { return fits(fewer, taints) })
	return &Remedy{Free: idsOf(held), Tolerate: taints}
}

// taintsIn lists the taints that keep requests away from devices which fell out at
// the stages, without those that reserve a device for a claim: tolerating these would
// take from that claim what was attached for it.
func taintsIn(r *alloc.Refusal, stages ...alloc.Stage) []resourceapi.DeviceTaint {
	var taints []resourceapi.DeviceTaint
	looked := map[*inventory.Device]bool{} // most requests drop the same
	for i := range r.Requests {
		for _, stage := range stages {
			for _, d := range r.Requests[i].Dropped[stage] {
				if !looked[d] {
					looked[d] = true
					taints = addKinds(taints, d)
				}
			}
		}
	}
	return taints
}

// addKinds adds the taints of a device that keep requests away and reserve it for nobody.
func addKinds(taints []resourceapi.DeviceTaint, d *inventory.Device) []resourceapi.DeviceTaint {
	for i := range d.Taints {
		taint := &d.Taints[i]
		if !inventory.KeepsAway(&taint.DeviceTaint) || taint.Reserves() {
			continue
		}
		if kind := kindOf(taint.DeviceTaint); !slices.Contains(taints, kind) {
			taints = append(taints, kind)
		}
	}
	return taints
}

// kindOf leaves out when a taint was set.
func kindOf(taint resourceapi.DeviceTaint) resourceapi.DeviceTaint {
	taint.TimeAdded = nil
	return taint
}

// tolerant returns the view without taints of these kinds.
func tolerant(view *inventory.View, taints ...resourceapi.DeviceTaint) *inventory.View {
	changed := &inventory.View{Node: view.Node, Pools: slices.Clone(view.Pools), Room: view.Room}
	for i := range changed.Pools {
		pv := &changed.Pools[i]
		pv.Devices = slices.Clone(pv.Devices)
		for k, d := range pv.Devices {
			if len(d.Taints) == 0 {
				continue
			}
			clean := *d
			clean.Taints = slices.DeleteFunc(slices.Clone(d.Taints), func(taint inventory.Taint) bool {
				return slices.Contains(taints, kindOf(taint.DeviceTaint))
			})
			pv.Devices[k] = &clean
		}
	}
	return changed
}

// remedy continues "the claims would fit if".
func (t *teller) remedy(r *Remedy) string {
	var parts []string
	if len(r.Free) > 0 {
		parts = append(parts, t.freed(r))
	}
	var tolerable, others []string
	for _, taint := range r.Tolerate {
		if t.tolerable(taint) {
			tolerable = append(tolerable, taint.String())
		} else {
			others = append(others, taint.String())
		}
	}
	if len(tolerable) > 0 {
		parts = append(parts, fmt.Sprintf("%s %s were tolerated", Verb(len(tolerable), "taint", "taints"), ListAnd(tolerable)))
	}
	if len(others) > 0 {
		parts = append(parts, fmt.Sprintf("the %s %s were removed", Verb(len(others), "taint", "taints"), ListAnd(others)))
	}
	return strings.Join(parts, " and ")
}

// freed says which devices would have to be free.
func (o *Options) freed(r *Remedy) string {
	var names []string
	for _, id := range r.Free {
		names = append(names, id.Device)
	}
	if r.Any {
		return fmt.Sprintf("one of %s, %s, were free", List(names), o.heldBy(r.Free...))
	}
	return fmt.Sprintf("%s, %s, were free", ListAnd(names), o.heldBy(r.Free...))
}

// tolerable reports whether all requests that a taint keeps from devices could have a
// toleration. Those of special claims cannot: whoever asks for an extended resource has
// no field for it.
func (t *teller) tolerable(taint resourceapi.DeviceTaint) bool {
	return !slices.ContainsFunc(t.Requests, func(r alloc.RequestReport) bool {
		c := t.claim(r.Claim)
		return c != nil && claim.IsSpecial(c) && slices.ContainsFunc(
			slices.Concat(r.Dropped[alloc.StageTaints], r.Dropped[alloc.StageFree]),
			func(d *inventory.Device) bool {
				return slices.ContainsFunc(d.Taints, func(on inventory.Taint) bool { return kindOf(on.DeviceTaint) == taint })
			})
	})
}
