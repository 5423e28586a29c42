// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"maps"
	"slices"
)

// matched reports whether every need can be met at once. Things are given by the
// set of needs that each could serve, as a bit mask, with their number.
func (b *board) matched(need []int, capacity map[uint64]int) bool {
	total := 0
	for _, n := range need {
		total += n
	}
	return b.served(need, capacity) == total
}

// served returns how much of the needs can be met at once. It is all of them where the
// budget ends before that is known.
func (b *board) served(need []int, capacity map[uint64]int) int {
	m := &matching{meter: b.meter, kinds: slices.Sorted(maps.Keys(capacity))}
	m.meter.payBytes(len(m.kinds) * (32 + 8*len(need)))
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
		for n > 0 && (m.serve(k) || m.meter.out()) {
			total++
			n--
		}
	}
	return total
}

// matching assigns kinds of things to needs along augmenting paths.
type matching struct {
	meter *meter
	kinds []uint64
	left  []int
	given [][]int // by need and kind
	// visited are the kinds that were tried for the thing that is served.
	visited []bool
}

// serve gives need k one more thing, moving others if that makes room.
func (m *matching) serve(k int) bool {
	m.meter.pay(1 + len(m.kinds)/8)
	clear(m.visited)
	return m.augment(k)
}

func (m *matching) augment(k int) bool {
	m.meter.pay(1 + len(m.kinds)/4)
	for kind, who := range m.kinds {
		if m.meter.out() {
			return false
		}
		if who&(1<<k) == 0 || m.visited[kind] {
			continue
		}
		m.visited[kind] = true
		if m.left[kind] > 0 {
			m.left[kind]--
			m.given[k][kind]++
			return true
		}
		m.meter.pay(len(m.given) / 2)
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
