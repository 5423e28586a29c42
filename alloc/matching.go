// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"maps"
	"slices"
)

// matched reports whether every need can be met at once. Things are given by the
// set of needs that each could serve, as a bit mask, with their number.
func matched(need []int, capacity map[uint64]int) bool {
	total := 0
	for _, n := range need {
		total += n
	}
	return served(need, capacity) == total
}

// served returns how much of the needs can be met at once.
func served(need []int, capacity map[uint64]int) int {
	m := &matching{kinds: slices.Sorted(maps.Keys(capacity)), given: make([][]int, len(need))}
	for _, kind := range m.kinds {
		m.left = append(m.left, capacity[kind])
	}
	for k := range need {
		m.given[k] = make([]int, len(m.kinds))
	}
	total := 0
	for k, n := range need {
		for n > 0 && m.serve(k, make([]bool, len(m.kinds))) {
			total++
			n--
		}
	}
	return total
}

// matching assigns kinds of things to needs along augmenting paths.
type matching struct {
	kinds []uint64
	left  []int
	given [][]int // by need and kind
}

// serve gives need k one more thing, moving others if that makes room.
func (m *matching) serve(k int, visited []bool) bool {
	for kind, who := range m.kinds {
		if who&(1<<k) == 0 || visited[kind] {
			continue
		}
		visited[kind] = true
		if m.left[kind] > 0 {
			m.left[kind]--
			m.given[k][kind]++
			return true
		}
		for other := range m.given {
			if other != k && m.given[other][kind] > 0 && m.serve(other, visited) {
				m.given[other][kind]--
				m.given[k][kind]++
				return true
			}
		}
	}
	return false
}
