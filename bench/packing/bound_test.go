// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"math"
	"slices"
)

// ledger is a stream as the bound of doc.go sees it: who is there at which moment,
// and what a card can hold. Moment t is right after arrival t.
type ledger struct {
	cards    float64
	fillings [][]float64 // devices of each shape, in the order of the stays' shapes
	stays    []stay
}

// stay is a claim: what it would have, from its first moment to its last, and what
// accepting it is worth.
type stay struct {
	first, last  int
	shape        int
	count, value float64
}

func newLedger(stream []arrival, c *card, cards int, value func(kind) float64) *ledger {
	var of []int
	for _, a := range stream {
		if !slices.Contains(of, a.kind.shape) {
			of = append(of, a.kind.shape)
		}
	}
	l := &ledger{cards: float64(cards)}
	for _, f := range c.fillings(of) {
		held := make([]float64, len(of))
		for k, s := range of {
			held[k] = float64(f[s])
		}
		l.fillings = append(l.fillings, held)
	}
	for i, a := range stream {
		next, _ := slices.BinarySearchFunc(stream[i+1:], a.to, func(b arrival, to float64) int {
			if b.from < to {
				return -1
			}
			return 1
		})
		l.stays = append(l.stays, stay{i, i + next, slices.Index(of, a.kind.shape), float64(a.kind.count), value(a.kind)})
	}
	return l
}

// prices are those of a device of each shape at each moment, none negative.
type prices [][]float64

func (l *ledger) newPrices() prices {
	p := make(prices, len(l.stays)+1)
	for t := range p {
		p[t] = make([]float64, len(l.fillings[0]))
	}
	return p
}

// bound is more than what the accepted claims of any allocator are worth, or as
// much, whatever the prices are: what the cards can charge at most plus what the
// claims are worth beyond what they pay.
func (l *ledger) bound(p prices) float64 {
	total := 0.0
	paid := l.newPrices() // up to a moment
	for t := range l.stays {
		most := 0.0
		for _, held := range l.fillings {
			most = max(most, dot(held, p[t]))
		}
		total += l.cards * most
		for k := range p[t] {
			paid[t+1][k] = paid[t][k] + p[t][k]
		}
	}
	for _, s := range l.stays {
		total += max(0, s.value-s.pays(paid))
	}
	return total
}

// pays is what a claim pays, given the sums of the prices before each moment.
func (s *stay) pays(paid prices) float64 {
	return s.count * (paid[s.last+1][s.shape] - paid[s.first][s.shape])
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// lowest returns the lowest bound that a number of rounds of bargaining find.
func (l *ledger) lowest(rounds int) float64 {
	m := newMarket(l)
	lowest := l.bound(m.prices)
	for r := 1; r <= rounds; r++ {
		m.bargain()
		if r%20 == 0 {
			lowest = min(lowest, l.bound(m.prices))
		}
	}
	return lowest
}

// atMost is how many claims can be accepted if a bound is given: a number that was
// calculated with rounding, which must not make it too low.
func atMost(bound float64) int { return int(math.Floor(bound + 1e-6)) }
