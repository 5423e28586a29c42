// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"kerf.dev/kerf/inventory"
)

// notNegative reports a quantity below zero, which the API takes. A nil quantity is not
// set.
func (s subject) notNegative(field string, q *resource.Quantity) {
	if q != nil && q.Sign() < 0 {
		s.report(Warning, "negative-quantity", field, "use 0 or more", "%s is negative", q)
	}
}

// countable reports whether all of these can be compared. Of slices, checkPools reports
// those that cannot.
func countable(of ...*resource.Quantity) bool {
	return !slices.ContainsFunc(of, func(q *resource.Quantity) bool { return !inventory.Countable(q) })
}

// sorted yields the entries of a map by key.
func sorted[K cmp.Ordered, V any](of map[K]V) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(of)) {
			if !yield(key, of[key]) {
				return
			}
		}
	}
}
