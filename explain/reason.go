// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"maps"
	"slices"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
)

// Reason says in one short line why claims cannot be allocated on a node. It
// does not name the node.
func Reason(r *alloc.Refusal, o Options) string {
	return newTeller(r, o).reason()
}

func (t *teller) reason() string {
	text := t.conflict()
	if failed := t.failedSelectors(); failed != "" {
		text += "; " + failed
	}
	if pools := t.brokenPools(); pools != "" {
		text += "; " + pools
	}
	if rivals := t.rivals(); len(rivals) > 0 {
		text += "; " + rivals[0]
	}
	if misses := t.nearMisses(true); len(misses) > 0 {
		text += "; near miss: " + misses[0]
	}
	if len(t.Remedies) > 0 {
		text += "; would fit if " + t.remedy(&t.Remedies[0])
	}
	return text
}

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

// brokenPools tells of pools that offer nothing, without their names: those tell
// nodes apart.
func (t *teller) brokenPools() string {
	if len(t.Pools) == 0 || t.Conflict.Kind == alloc.AllUnknown {
		return ""
	}
	text := fmt.Sprintf("a pool of %s offers nothing: %s", t.Pools[0].ID.Driver, problem(t.Pools[0]))
	if n := len(t.Pools) - 1; n > 0 {
		text += fmt.Sprintf(" (and %d more %s)", n, verb(n, "pool", "pools"))
	}
	return text
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
