// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"slices"
)

// market looks for prices with a low bound. It is the primal-dual hybrid gradient
// method (Chambolle and Pock 2011) with diagonal steps (Pock and Chambolle 2011) for
// the linear program whose dual the bound is: claims are accepted in part, cards
// mix fillings, and prices rise where more is wanted than offered. How well it
// works matters for how low the bound gets, and not for its being one.
type market struct {
	*ledger
	prices prices
	// accepted is the part of each claim, mixed how many cards have each
	// filling at each moment. The leads are where these two are heading.
	accepted, acceptedLead []float64
	mixed, mixedLead       [][]float64
	// Sizes of the steps. pace weighs those of prices against the others.
	priceStep prices
	mixedStep float64
	pace      float64

	wanted, paid prices
}

func newMarket(l *ledger) *market {
	n := len(l.stays)
	m := &market{
		ledger: l, prices: l.newPrices(), priceStep: l.newPrices(), wanted: l.newPrices(), paid: l.newPrices(),
		accepted: make([]float64, n), acceptedLead: make([]float64, n),
		mixed: make([][]float64, n), mixedLead: make([][]float64, n),
	}
	offered, most := make([]float64, len(l.fillings[0])), 0.0
	for _, held := range l.fillings {
		devices := 0.0
		for k, count := range held {
			offered[k] += count
			devices += count
		}
		most = max(most, devices)
	}
	m.mixedStep = 1 / most
	worth, length := 0.0, 0.0
	for t, s := range l.stays {
		m.mixed[t] = slices.Repeat([]float64{l.cards / float64(len(l.fillings))}, len(l.fillings))
		m.mixedLead[t] = slices.Clone(m.mixed[t])
		m.accepted[t], m.acceptedLead[t] = 1, 1
		worth += s.value
		length += s.count * float64(s.last-s.first+1)
	}
	m.pace = worth / length
	m.demand(m.accepted)
	for t := range l.stays {
		for k := range offered {
			m.priceStep[t][k] = m.pace / (offered[k] + m.wanted[t][k])
		}
	}
	return m
}

// demand works out how many devices of each shape are wanted at each moment.
func (m *market) demand(accepted []float64) {
	for t := range m.wanted {
		clear(m.wanted[t])
	}
	for i, s := range m.stays {
		m.wanted[s.first][s.shape] += s.count * accepted[i]
		m.wanted[s.last+1][s.shape] -= s.count * accepted[i]
	}
	for t := range m.stays {
		for k, n := range m.wanted[t] {
			m.wanted[t+1][k] += n
		}
	}
}

// bargain is one round: prices follow demand, then cards and claims the prices.
func (m *market) bargain() {
	m.demand(m.acceptedLead)
	for t := range m.stays {
		for k := range m.prices[t] {
			short := m.wanted[t][k]
			for f, held := range m.fillings {
				short -= held[k] * m.mixedLead[t][f]
			}
			m.prices[t][k] = max(0, m.prices[t][k]+m.priceStep[t][k]*short)
			m.paid[t+1][k] = m.paid[t][k] + m.prices[t][k]
		}
		m.refill(t)
	}
	for i := range m.stays {
		s := &m.stays[i]
		step := 1 / (m.pace * s.count * float64(s.last-s.first+1))
		next := min(1, max(0, m.accepted[i]+step*(s.value-s.pays(m.paid))))
		m.acceptedLead[i], m.accepted[i] = 2*next-m.accepted[i], next
	}
}

// refill lets the cards of a moment have more of what is dear.
func (m *market) refill(t int) {
	next := m.mixedLead[t] // its content is used up
	for f, held := range m.fillings {
		next[f] = m.mixed[t][f] + m.mixedStep/m.pace*dot(held, m.prices[t])
	}
	shareOut(next, m.cards)
	for f, n := range next {
		m.mixedLead[t][f], m.mixed[t][f] = 2*n-m.mixed[t][f], n
	}
}

// shareOut replaces a point by the nearest one that has no negative coordinate and
// the given sum.
func shareOut(point []float64, total float64) {
	sorted := slices.Sorted(slices.Values(point))
	slices.Reverse(sorted)
	sum, less := 0.0, 0.0
	for n, v := range sorted {
		sum += v
		if excess := (sum - total) / float64(n+1); v > excess {
			less = excess
		}
	}
	for i := range point {
		point[i] = max(0, point[i]-less)
	}
}
