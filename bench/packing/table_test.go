// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"flag"
	"fmt"
	"testing"

	"kerf.dev/kerf/alloc"
)

var (
	table    = flag.Bool("table", false, "print the table of docs/performance.md; goes with -timeout 1h")
	arrivals = flag.Int("arrivals", 3000, "claims per stream for the table")
	seeds    = flag.Int("seeds", 5, "streams per mix for the table")
	only     = flag.String("mix", "", "play this mix only")
)

// size is how much is played.
type size struct {
	nodes, arrivals, seeds int
	// rounds are those of the search for a low bound.
	rounds     int
	strategies []alloc.Strategy
}

var (
	short = size{nodes: 4, arrivals: 500, seeds: 1, rounds: 60, strategies: []alloc.Strategy{alloc.Listed, alloc.BestFit}}
	long  = size{nodes: 8, rounds: 400, strategies: []alloc.Strategy{alloc.Listed, alloc.Spread, alloc.BestFit}}
)

// TestTable checks that best fit refuses less than listed order, of all mixes
// together and for the table of every single one, and that nothing is better than
// the bound. On demand it prints the table.
func TestTable(t *testing.T) {
	z := short
	if *table {
		z = long
		z.arrivals, z.seeds = *arrivals, *seeds
	}
	rows := make([]*row, len(mixes))
	t.Run("mixes", func(t *testing.T) {
		for i := range mixes {
			if *only != "" && mixes[i].name != *only {
				continue
			}
			t.Run(mixes[i].name, func(t *testing.T) {
				t.Parallel()
				rows[i] = measure(t, &mixes[i], z)
			})
		}
	})
	var listed, best tally
	for _, r := range rows {
		if r == nil {
			continue
		}
		if *table {
			compare(t, r.mix.name, r.total(alloc.Listed), r.total(alloc.BestFit))
		}
		listed.add(r.total(alloc.Listed))
		best.add(r.total(alloc.BestFit))
	}
	compare(t, "all mixes", listed, best)
	if *table {
		write(rows)
	}
}

func compare(t *testing.T, of string, listed, best tally) {
	t.Helper()
	if best.claims >= listed.claims || best.slices >= listed.slices {
		t.Errorf("%s: best fit refuses %d claims for %d slices, listed order %d for %d", of, best.claims, best.slices, listed.claims, listed.slices)
	}
	t.Logf("%s: best fit refuses %d claims for %d slices, listed order %d for %d", of, best.claims, best.slices, listed.claims, listed.slices)
}

// tally counts claims and the memory slices that they need at least.
type tally struct {
	claims, slices int
}

func (t *tally) add(o tally) {
	t.claims += o.claims
	t.slices += o.slices
}

// row is what became of a mix, with an entry for each seed.
type row struct {
	mix     *mix
	asked   []tally
	refused map[alloc.Strategy][]tally
	// least is what everybody has to refuse.
	least []tally
}

func (r *row) total(s alloc.Strategy) tally { return sum(r.refused[s]) }

func sum(of []tally) tally {
	var all tally
	for _, t := range of {
		all.add(t)
	}
	return all
}

// measure plays a mix.
func measure(t *testing.T, m *mix, z size) *row {
	c, err := newCluster(z.nodes)
	if err != nil {
		t.Fatal(err)
	}
	r := &row{mix: m, refused: map[alloc.Strategy][]tally{}}
	for seed := range z.seeds {
		stream := m.stream(c.card, c.cards, z.arrivals, uint64(seed+1))
		asked := c.count(stream, make([]bool, len(stream)))
		least := c.least(stream, asked, z.rounds)
		r.asked, r.least = append(r.asked, asked), append(r.least, least)
		for _, s := range z.strategies {
			accepted, err := newPlayer(c, s).play(stream)
			if err != nil {
				t.Fatal(err)
			}
			refused := c.count(stream, accepted)
			if refused.claims < least.claims || refused.slices < least.slices {
				t.Errorf("seed %d: %s refuses %d claims for %d slices, less than the least possible: %d and %d",
					seed+1, s, refused.claims, refused.slices, least.claims, least.slices)
			}
			r.refused[s] = append(r.refused[s], refused)
		}
	}
	return r
}

// needs is the number of memory slices that a kind takes at least.
func (c *cluster) needs(k kind) int { return k.count * c.card.memory(k.shape) }

// count adds up what was not accepted.
func (c *cluster) count(stream []arrival, accepted []bool) tally {
	var all tally
	for i, a := range stream {
		if !accepted[i] {
			all.add(tally{1, c.needs(a.kind)})
		}
	}
	return all
}

// least is what has to be refused of a stream, by claims and by slices.
func (c *cluster) least(stream []arrival, asked tally, rounds int) tally {
	var bounds [2]int
	for i, value := range []func(kind) float64{
		func(kind) float64 { return 1 },
		func(k kind) float64 { return float64(c.needs(k)) },
	} {
		bounds[i] = atMost(newLedger(stream, c.card, c.cards, value).lowest(rounds))
	}
	return tally{asked.claims - bounds[0], asked.slices - bounds[1]}
}

func write(rows []*row) {
	fmt.Println("| asked for | load | listed | spread | best fit | at least | fewer | listed | spread | best fit | at least | fewer |")
	fmt.Println("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
	for _, r := range rows {
		if r == nil {
			continue
		}
		fmt.Printf("| %s | %.0f %% |", r.mix.name, 100*r.mix.load)
		for _, of := range []func(tally) int{func(t tally) int { return t.claims }, func(t tally) int { return t.slices }} {
			asked := float64(of(sum(r.asked)))
			for _, refused := range [][]tally{r.refused[alloc.Listed], r.refused[alloc.Spread], r.refused[alloc.BestFit], r.least} {
				fmt.Printf(" %.2f %% |", 100*float64(of(sum(refused)))/asked)
			}
			fewer := 0
			for i, best := range r.refused[alloc.BestFit] {
				if of(best) < of(r.refused[alloc.Listed][i]) {
					fewer++
				}
			}
			fmt.Printf(" %d of %d |", fewer, len(r.asked))
		}
		fmt.Println()
	}
}
