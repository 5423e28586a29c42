// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"slices"
)

// partners is how many constraints and claims away requests are compared.
const partners = 2

// parts says which part each of the requests plays among them. Requests that play
// the same part ask for the same and are tied to others in the same way, as far
// as partners can tell.
func (b *board) parts(requests []int) []fingerprint {
	if b.asking == nil {
		b.asking = b.askings()
	}
	part := make([]fingerprint, len(b.problem.requests))
	for _, r := range requests {
		part[r] = b.asking[r]
	}
	for range partners {
		part = b.refine(part, requests)
	}
	return part
}

// askings are what the requests ask for.
func (b *board) askings() []fingerprint {
	asking := make([]fingerprint, len(b.problem.requests))
	for r := range b.problem.requests {
		for _, a := range b.problem.requests[r].asks {
			if b.keeping {
				b.meter.pay(askingWork)
				asking[r] = asking[r].withText(string(a.uid))
			}
			asking[r] = asking[r].withText(string(a.seeks[:])).with(uint64(a.count))
		}
		if b.meter.out() {
			break // the rest looks alike; nobody will rely on it
		}
	}
	return asking
}

// askingWork is for one ask.
const askingWork = 10

// refine tells requests apart by the parts of those that they are tied to.
func (b *board) refine(part []fingerprint, requests []int) []fingerprint {
	refined, among := slices.Clone(part), newBits(len(part))
	members := make([]fingerprint, len(b.problem.claims))
	b.meter.pay(8*len(requests) + 2*len(part) + 2*len(b.problem.claims))
	for _, r := range requests {
		among.set(r)
		members[b.problem.requests[r].claim] = members[b.problem.requests[r].claim].plus(part[r])
	}
	for _, r := range requests {
		refined[r] = refined[r].withAll(members[b.problem.requests[r].claim])
	}
	ties := make([]fingerprint, len(part))
	for c, of := range b.problem.constraints {
		b.meter.pay(1)
		if !slices.ContainsFunc(b.problem.ties[c], func(t tie) bool { return among.has(t.request) }) {
			continue
		}
		b.meter.pay(len(of.attribute) + 8*len(b.problem.ties[c]))
		sum := fingerprint{}.withText(string(of.attribute)).withBool(of.distinct)
		for _, t := range b.problem.ties[c] {
			if among.has(t.request) {
				sum = sum.plus(part[t.request].with(t.by))
			}
		}
		for _, t := range b.problem.ties[c] {
			if among.has(t.request) {
				ties[t.request] = ties[t.request].plus(sum.with(t.by))
			}
		}
	}
	for _, r := range requests {
		refined[r] = refined[r].withAll(ties[r])
	}
	return refined
}
