// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
)

// notNegative reports a quantity below zero. A nil quantity is not set.
func (s subject) notNegative(field string, q *resource.Quantity) {
	if q != nil && q.Sign() < 0 {
		s.report(Error, "negative-quantity", field, "use 0 or more", "%s is negative", q)
	}
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
