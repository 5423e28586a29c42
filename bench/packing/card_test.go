// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/selector"
)

// card is one counter set with the devices that can be cut from it.
type card struct {
	counters []int64
	devices  []piece
}

// piece is a device of a card.
type piece struct {
	draws  []int64 // of each counter
	serves []bool  // the shapes that it suffices for
	memory int     // the memory slices among what it draws
}

// cardsOf reads the cards out of a node's pool.
func (c *cluster) cardsOf(pool *inventory.Pool) ([]card, error) {
	if pool.Problem != nil {
		return nil, fmt.Errorf("pool %s: %s", pool.ID, pool.Problem.Kind)
	}
	matcher := selector.New()
	cards := make([]card, len(pool.Sets))
	for n, set := range pool.Sets {
		for _, counter := range pool.Counters[set.First:set.End] {
			if value(counter.Value) > math.MaxUint8 {
				return nil, fmt.Errorf("counter %s of %s is larger than a byte", counter.Name, set.Name)
			}
			cards[n].counters = append(cards[n].counters, value(counter.Value))
		}
	}
	for _, d := range pool.Devices {
		if len(d.Draws) == 0 {
			return nil, fmt.Errorf("device %s draws from no counter", d.ID)
		}
		n := pool.Counters[d.Draws[0].Counter].Set
		p := piece{draws: make([]int64, len(cards[n].counters))}
		for _, draw := range d.Draws {
			counter := pool.Counters[draw.Counter]
			if counter.Set != n {
				return nil, fmt.Errorf("device %s draws from several cards", d.ID)
			}
			p.draws[draw.Counter-pool.Sets[n].First] = value(draw.Amount)
			if strings.HasPrefix(counter.Name, "memory-slice-") {
				p.memory++
			}
		}
		for s := range shapes {
			suffices, err := c.suffices(matcher, d, &shapes[s])
			if err != nil {
				return nil, err
			}
			p.serves = append(p.serves, suffices)
		}
		cards[n].devices = append(cards[n].devices, p)
	}
	return cards, nil
}

func value(a inventory.Amount) int64 {
	q := a.Quantity()
	return q.Value()
}

// suffices reports whether the class and the selector of a shape match a device.
func (c *cluster) suffices(matcher *selector.Matcher, d *inventory.Device, s *shape) (bool, error) {
	var expressions []string
	for _, of := range c.classes[s.class].Spec.Selectors {
		expressions = append(expressions, of.CEL.Expression)
	}
	if s.selector != "" {
		expressions = append(expressions, s.selector)
	}
	for _, e := range expressions {
		if match, _, err := matcher.Match(nil, e, d); err != nil || !match {
			return false, err
		}
	}
	return true, nil
}

// memory is the least number of memory slices that a shape takes.
func (c *card) memory(shape int) int {
	least := 0
	for _, p := range c.devices {
		if p.serves[shape] && (least == 0 || p.memory < least) {
			least = p.memory
		}
	}
	return least
}

// filling is how many devices of each shape, as indexed in shapes, a card holds at
// once.
type filling [12]int8

// fillings lists what the card can hold of some shapes: every filling that is
// possible is part of one of them. It tries all combinations of devices, which
// may serve each shape that they suffice for.
func (c *card) fillings(of []int) []filling {
	type state struct {
		held filling
		free string // counters that are left
	}
	reached := map[state]bool{{free: encode(c.counters)}: true}
	for _, s := range of {
		for _, p := range c.devices {
			if !p.serves[s] {
				continue
			}
			for _, from := range slices.Collect(maps.Keys(reached)) {
				if free, ok := p.take(from.free); ok {
					next := state{from.held, free}
					next.held[s]++
					reached[next] = true
				}
			}
		}
	}
	possible := map[filling]bool{}
	for s := range reached {
		possible[s.held] = true
	}
	largest := slices.Collect(maps.Keys(possible))
	largest = slices.DeleteFunc(largest, func(f filling) bool {
		for s := range f {
			more := f
			more[s]++
			if possible[more] {
				return true
			}
		}
		return false
	})
	slices.SortFunc(largest, func(a, b filling) int { return slices.Compare(a[:], b[:]) })
	return largest
}

// encode makes counters comparable.
func encode(counters []int64) string {
	b := make([]byte, len(counters))
	for i, n := range counters {
		b[i] = byte(n)
	}
	return string(b)
}

// take takes what a device draws out of the counters that are left.
func (p *piece) take(free string) (string, bool) {
	left := []byte(free)
	for i, n := range p.draws {
		if int64(left[i]) < n {
			return "", false
		}
		left[i] -= byte(n)
	}
	return string(left), true
}
