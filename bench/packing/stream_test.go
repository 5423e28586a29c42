// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"math/rand/v2"
)

// share is how often something is asked for, relative to the other shares of a
// mix.
type share struct {
	weight float64
	count  int
	shape  string
}

// mix says what is asked for.
type mix struct {
	name   string
	shares []share
	// load is the number of memory slices that claims ask for on average at any
	// time, as part of what the cluster has.
	load float64
	// burst is the mean number of equal claims that arrive at once.
	burst float64
}

// even asks for about as many memory slices with each profile.
var even = []share{{8, 1, "1g.10gb"}, {4, 1, "1g.20gb"}, {4, 1, "2g.20gb"}, {2, 1, "3g.40gb"}, {2, 1, "4g.40gb"}, {1, 1, "7g.80gb"}}

var mixes = []mix{
	{name: "mostly small", load: 0.9, burst: 1, shares: []share{
		{60, 1, "1g.10gb"}, {5, 1, "1g.10gb+me"}, {10, 1, "1g.20gb"}, {15, 1, "2g.20gb"}, {7, 1, "3g.40gb"}, {3, 1, "7g.80gb"}}},
	{name: "mostly large", load: 0.9, burst: 1, shares: []share{
		{25, 1, "1g.10gb"}, {20, 1, "2g.20gb"}, {25, 1, "3g.40gb"}, {15, 1, "4g.40gb"}, {10, 1, "7g.80gb"}, {5, 1, "card"}}},
	{name: "balanced", load: 0.9, burst: 1, shares: even},
	{name: "balanced, overload", load: 1.2, burst: 1, shares: even},
	{name: "balanced, in bursts", load: 0.9, burst: 12, shares: even},
	{name: "by memory", load: 0.9, burst: 1, shares: []share{
		{8, 1, "8Gi"}, {5, 1, "16Gi"}, {3, 1, "32Gi"}, {1, 1, "64Gi"}, {1, 1, "card"}}},
	{name: "several devices", load: 0.9, burst: 1, shares: []share{
		{20, 1, "1g.10gb"}, {10, 2, "1g.10gb"}, {5, 1, "2g.20gb"}, {3, 4, "2g.20gb"}, {3, 1, "3g.40gb"}, {3, 2, "3g.40gb"}, {3, 1, "card"}}},
}

func (s *share) kind() kind { return kind{shapeNamed(s.shape), s.count} }

// arrival is a claim that is made, and deleted later if it could be had. The unit
// of time is the mean life of a claim.
type arrival struct {
	kind     kind
	from, to float64
}

// stream draws so many arrivals, in order of time, for a cluster of so many
// cards. The times between arrivals are exponential.
func (m *mix) stream(card *card, cards, arrivals int, seed uint64) []arrival {
	random := rand.New(rand.NewPCG(seed, 0))
	total, asked := 0.0, 0.0
	for _, s := range m.shares {
		total += s.weight
		asked += s.weight * float64(s.count*card.memory(shapeNamed(s.shape)))
	}
	rate := m.load * float64(cards*card.memory(shapeNamed("card"))) / (asked / total)
	var all []arrival
	for now := 0.0; len(all) < arrivals; {
		now += random.ExpFloat64() * m.burst / rate
		k := m.draw(random, total)
		// Sizes of bursts are geometric.
		for more := true; more && len(all) < arrivals; more = random.Float64() > 1/m.burst {
			all = append(all, arrival{k, now, now + life(random)})
		}
	}
	return all
}

func (m *mix) draw(random *rand.Rand, total float64) kind {
	at := random.Float64() * total
	for i := range m.shares {
		if at -= m.shares[i].weight; at < 0 {
			return m.shares[i].kind()
		}
	}
	return m.shares[len(m.shares)-1].kind()
}

// life is how long a claim lives: one of four lives ten times as long as the
// others do on average.
func life(random *rand.Rand) float64 {
	const short = 1 / (0.75 + 0.25*10)
	if random.IntN(4) == 0 {
		return random.ExpFloat64() * short * 10
	}
	return random.ExpFloat64() * short
}
