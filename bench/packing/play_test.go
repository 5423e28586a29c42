// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"cmp"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/selector"
)

// player gives devices to the claims of a stream as they arrive and takes them
// back as they leave. A claim that cannot be had when it arrives is lost.
type player struct {
	*cluster
	strategy alloc.Strategy
	matcher  *selector.Matcher
	inv      *inventory.Inventory
	problems map[kind]*alloc.Problem
	// known has the outcomes of each node since it changed last. An allocation
	// depends on the node and the kind alone.
	known []map[kind]alloc.Outcome
	// watch, where set, is told what an arrival got in which state: the node, -1
	// if it is refused, and the outcome there.
	watch func(*inventory.Snapshot, kind, int, alloc.Outcome)
}

func newPlayer(c *cluster, strategy alloc.Strategy) *player {
	p := &player{
		cluster: c, strategy: strategy, matcher: selector.New(), inv: inventory.New(),
		problems: map[kind]*alloc.Problem{}, known: make([]map[kind]alloc.Outcome, len(c.nodes)),
	}
	for _, s := range c.slices {
		p.inv.SetSlice(s)
	}
	for n := range p.known {
		p.known[n] = map[kind]alloc.Outcome{}
	}
	return p
}

// play returns which of the arrivals got their devices.
func (p *player) play(stream []arrival) ([]bool, error) {
	accepted := make([]bool, len(stream))
	var leaving []departure // the next one last
	for i, a := range stream {
		for len(leaving) > 0 && leaving[len(leaving)-1].at <= a.from {
			next := leaving[len(leaving)-1]
			leaving = leaving[:len(leaving)-1]
			p.inv.SetHolds(owner(next.arrival), nil)
			clear(p.known[next.node])
		}
		node, err := p.place(i, a.kind)
		if err != nil {
			return nil, fmt.Errorf("arrival %d: %w", i, err)
		}
		if node < 0 {
			continue
		}
		accepted[i] = true
		d := departure{a.to, i, node}
		at, _ := slices.BinarySearchFunc(leaving, d, departure.compare)
		leaving = slices.Insert(leaving, at, d)
	}
	return accepted, nil
}

// departure is when an arrival gives back what it has on a node.
type departure struct {
	at            float64
	arrival, node int
}

// compare orders the later ones first.
func (d departure) compare(o departure) int {
	return cmp.Or(cmp.Compare(o.at, d.at), cmp.Compare(o.arrival, d.arrival))
}

func owner(arrival int) string { return fmt.Sprint(arrival) }

// place allocates an arrival and returns the node, -1 where none fits. Listed
// takes the first node that fits. The other strategies take the one where the
// devices cost least, as the plugin's scores have it, and of equal ones the first.
func (p *player) place(arrival int, k kind) (int, error) {
	snapshot := p.inv.Snapshot()
	best, chosen := -1, alloc.Outcome{}
	for n := range p.nodes {
		out, err := p.ask(snapshot, n, k)
		if err != nil {
			return -1, err
		}
		if out.Result == nil || best >= 0 && p.strategy.Compare(out.Result.Cost, chosen.Result.Cost) >= 0 {
			continue
		}
		best, chosen = n, out
		if p.strategy == alloc.Listed {
			break
		}
	}
	if p.watch != nil {
		p.watch(snapshot, k, best, chosen)
	}
	if best >= 0 {
		claim := k.claim()
		claim.Status.Allocation = &chosen.Result.Claims[0]
		p.inv.SetHolds(owner(arrival), inventory.HoldsOf(claim))
		clear(p.known[best])
	}
	return best, nil
}

func (p *player) ask(snapshot *inventory.Snapshot, node int, k kind) (alloc.Outcome, error) {
	if out, found := p.known[node][k]; found {
		return out, nil
	}
	problem, found := p.problems[k]
	if !found {
		var err error
		problem, err = alloc.Compile([]*resourceapi.ResourceClaim{k.claim()}, p.class, p.matcher, alloc.Options{Strategy: p.strategy})
		if err != nil {
			return alloc.Outcome{}, err
		}
		p.problems[k] = problem
	}
	out, err := problem.Allocate(snapshot.View(p.nodes[node]))
	if err == nil && out.GaveUp != nil {
		err = fmt.Errorf("gave up after %d steps", out.Steps)
	}
	p.known[node][k] = out
	return out, err
}
