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
	m := &matching{kinds: slices.Sorted(maps.Keys(capacity))}
	for _, kind := range m.kinds {
		m.left = append(m.left, capacity[kind])
	}
	given := make([]int, len(need)*len(m.kinds))
	for range need {
		m.given, given = append(m.given, given[:len(m.kinds)]), given[len(m.kinds):]
	}
	m.visited = make([]bool, len(m.kinds))
	total := 0
	for k, n := range need {
		for n > 0 && m.serve(k) {
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
	// visited are the kinds that were tried for the thing that is served.
	visited []bool
}

// serve gives need k one more thing, moving others if that makes room.
func (m *matching) serve(k int) bool {
	clear(m.visited)
	return m.augment(k)
}

func (m *matching) augment(k int) bool {
	for kind, who := range m.kinds {
		if who&(1<<k) == 0 || m.visited[kind] {
			continue
		}
		m.visited[kind] = true
		if m.left[kind] > 0 {
			m.left[kind]--
			m.given[k][kind]++
			return true
		}
		for other := range m.given {
			if other != k && m.given[other][kind] > 0 && m.augment(other) {
				m.given[other][kind]--
				m.given[k][kind]++
				return true
			}
		}
	}
	return false
}
