// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package histories

import (
	"fmt"
	"maps"
	"runtime/debug"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/inventory"
)

var nodes = []*v1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, {ObjectMeta: metav1.ObjectMeta{Name: "n2"}}}

// history is a cluster and what inventories were told of it.
type history struct {
	*source
	slices map[string]*resourceapi.ResourceSlice
	claims map[string]*resourceapi.ResourceClaim
	// byClaim knows who holds what, bySum what the scheduler's manager knows.
	byClaim, bySum *inventory.Inventory
	manager        *manager
	// past are snapshots and what they looked like.
	past     map[*inventory.Snapshot]string
	stats    map[string]int
	problems []string
}

// tell tells the history that the bytes stand for and returns what went wrong.
func tell(data []byte, stats map[string]int) []string {
	h := &history{
		source: &source{data}, slices: map[string]*resourceapi.ResourceSlice{}, claims: map[string]*resourceapi.ResourceClaim{},
		byClaim: inventory.New(), bySum: inventory.New(), manager: newManager(), past: map[*inventory.Snapshot]string{}, stats: stats,
	}
	h.run()
	return h.problems
}

func (h *history) fault(format string, args ...any) {
	h.problems = append(h.problems, fmt.Sprintf(format, args...))
}

func (h *history) run() {
	defer func() {
		if p := recover(); p != nil {
			h.fault("panic: %v\n%s", p, debug.Stack())
		}
	}()
	verbs := []func(){
		h.setSlice, h.setSlice, h.setSlice, h.deleteSlice, h.syncSlices, h.setRule, h.deleteRule,
		h.setClaim, h.deleteClaim, h.deleteClaim, h.allocate, h.allocate, h.allocate, h.allocate, h.allocate, h.look,
	}
	h.setSlice()
	for !h.done() && len(h.problems) == 0 {
		verbs[h.intn(len(verbs))]()
	}
	h.look()
	for snapshot, text := range h.past {
		if now := describe(snapshot); now != text {
			h.fault("a snapshot changed, from\n%s\nto\n%s", text, now)
		}
	}
}

func (h *history) inventories() []*inventory.Inventory {
	return []*inventory.Inventory{h.byClaim, h.bySum}
}

func (h *history) setSlice() {
	slice := h.slice()
	h.slices[slice.Name] = slice
	for _, inv := range h.inventories() {
		inv.SetSlice(slice)
	}
}

func (h *history) deleteSlice() {
	name := pick(h.source, "a", "b", "c")
	delete(h.slices, name)
	for _, inv := range h.inventories() {
		inv.DeleteSlice(name)
	}
}

func (h *history) syncSlices() {
	var kept []*resourceapi.ResourceSlice
	for _, name := range names(h.slices) {
		if !h.rarely() {
			kept = append(kept, h.slices[name])
		}
	}
	clear(h.slices)
	for _, slice := range kept {
		h.slices[slice.Name] = slice
	}
	for _, inv := range h.inventories() {
		inv.SyncSlices(kept)
	}
}

func (h *history) setRule() {
	rule := h.rule()
	for _, inv := range h.inventories() {
		inv.SetTaintRule(rule)
	}
}

func (h *history) deleteRule() {
	name := pick(h.source, "r0", "r1")
	for _, inv := range h.inventories() {
		inv.DeleteTaintRule(name)
	}
}

func (h *history) setClaim() { h.set(h.taker(pick(h.source, "w", "x", "y", "z"))) }

func (h *history) set(claim *resourceapi.ResourceClaim) {
	h.manager.replace(h.claims[claim.Name], claim, h.bySum)
	h.byClaim.SetClaim(claim)
	h.claims[claim.Name] = claim
}

// deleteClaim deletes a claim, most often one that has something.
func (h *history) deleteClaim() {
	all := names(h.claims)
	if len(all) == 0 {
		return
	}
	claim := h.claims[all[h.intn(len(all))]]
	h.manager.replace(claim, nil, h.bySum)
	h.byClaim.DeleteClaim(claim)
	delete(h.claims, claim.Name)
}

// holds are those of all claims.
func (h *history) holds() []inventory.Hold {
	var all []inventory.Hold
	for _, name := range names(h.claims) {
		all = append(all, inventory.HoldsOf(h.claims[name])...)
	}
	return all
}

func names[K ~string, V any](of map[K]V) []K { return slices.Sorted(maps.Keys(of)) }
