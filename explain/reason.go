// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"maps"
	"slices"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
)

// Reason says in one short line why claims cannot be allocated on a node. It
// does not name the node.
func Reason(r *alloc.Refusal, o Options) string { return CauseOf(r, o).String() }

// failedSelectors tells of the first selector, or derived attribute, of the
// conflict's requests that failed on devices; the selectors of a class concern several requests.
func (t *teller) failedSelectors() string {
	for _, r := range t.reportsAtFault() {
		for i := range r.SelectorErrors {
			return selectorError(&r.SelectorErrors[i])
		}
		for i := range r.DerivedErrors {
			return derivedError(&r.DerivedErrors[i])
		}
	}
	return ""
}

// rivals tells of pools that others publish under the same name, where devices of them
// are taken: maybe it is the others' devices that are.
func (t *teller) rivals() []string {
	taken := map[inventory.PoolID]bool{}
	for i := range t.Requests {
		for _, d := range t.Requests[i].Dropped[alloc.StageFree] {
			taken[d.ID.PoolID()] = true
		}
	}
	var texts []string
	for _, id := range slices.SortedFunc(maps.Keys(taken), inventory.PoolID.Compare) {
		if pv := t.pool(id); pv != nil && len(pv.Pool.Publishers) > 0 {
			texts = append(texts, Rivals(pv.Pool))
		}
	}
	return texts
}
