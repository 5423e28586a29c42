// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"iter"
	"maps"
	"slices"
)

// scope says whose devices take from the counters of a pool: those of everybody, or only
// those in slices for the node and in slices for several nodes.
type scope struct {
	everybody bool
	node      string
}

func (s scope) includes(node string) bool { return s.everybody || node == s.node || node == "" }

// scopeOf: the counters of a part are for those who have it, and those of a pool that
// only one node publishes are that node's. What another node publishes under the name of
// the pool takes nothing from them.
func (e *poolEntry) scopeOf(p *poolPart) scope {
	return scope{everybody: p == e.whole && p.pool.owner == "", node: p.pool.owner}
}

// account works out what is taken of the pool and its parts.
func (e *poolEntry) account(l *ledger) {
	for p := range e.all {
		l.remember(p.pool)
	}
	gone := l.gone(e)
	for p := range e.all {
		p.account(l, e.scopeOf(p), gone)
	}
}

// after returns the entry after holds of the devices changed. Parts that these do not
// concern stay as they are.
func (e *poolEntry) after(l *ledger, moved []string) *poolEntry {
	for p := range e.all {
		l.rememberOnly(p.pool, moved)
	}
	gone := l.gone(e)
	renew := func(p *poolPart) *poolPart {
		if !p.concerned(l, e.scopeOf(p), moved) {
			return p
		}
		next := &poolPart{pool: p.pool, home: p.home}
		next.account(l, e.scopeOf(p), gone)
		return next
	}
	next := &poolEntry{split: e.split, former: e.former, names: e.names, homes: e.homes}
	if e.whole != nil {
		next.whole = renew(e.whole)
	}
	for _, p := range e.parts {
		next.parts = append(next.parts, renew(p))
	}
	return next
}

// concerned reports whether what is taken of the part may have changed with the holds
// of these devices.
func (p *poolPart) concerned(l *ledger, s scope, moved []string) bool {
	return slices.ContainsFunc(moved, func(device string) bool {
		return p.pool.Device(device) != nil || p.use.Gone[device] != nil || slices.Contains(p.absent, device) || l.unknown[device] ||
			slices.ContainsFunc(l.publishers[device], s.includes)
	})
}

// account works out what is left of the pool.
func (p *poolPart) account(l *ledger, s scope, gone map[string]*Occupancy) {
	pool := p.pool
	u := &PoolUse{Taken: make([]*Occupancy, len(pool.Devices)), Gone: gone, Free: make([]Amount, len(pool.Counters)), Closed: make([]bool, len(pool.Sets))}
	p.use = u
	for device := range l.heldOf(pool) {
		u.Taken[pool.Device(device).Index] = l.occupancy(device)
	}
	position := make(map[draw]int, len(pool.Counters))
	for i, c := range pool.Counters {
		u.Free[i] = c.Value
		position[draw{pool.Sets[c.Set].Name, c.Name}] = i
	}
	if l.anyUnknown(s) {
		for i := range u.Closed {
			u.Closed[i] = true
		}
	}
	if len(pool.Counters) == 0 {
		return
	}
	for device := range l.drawing(s) {
		if pool.Device(device) == nil {
			p.absent = append(p.absent, device)
		}
		for key, amount := range l.draws(s, device) {
			if i, found := position[key]; found {
				u.Free[i] = u.Free[i].Sub(amount)
			}
		}
	}
}

// anyUnknown reports whether a taken device may take from the counters of which nobody
// knows what it takes.
func (l *ledger) anyUnknown(s scope) bool {
	for device := range l.unknown {
		for _, holds := range l.holds[device] {
			if slices.ContainsFunc(holds, func(h Hold) bool { return s.everybody || s.node == "" || h.Node == "" || h.Node == s.node }) {
				return true
			}
		}
	}
	return false
}

// gone are the taken devices that nobody has.
func (l *ledger) gone(e *poolEntry) map[string]*Occupancy {
	var gone map[string]*Occupancy
	for device := range l.holds {
		if e.publishes(device) {
			continue
		}
		if gone == nil {
			gone = map[string]*Occupancy{}
		}
		gone[device] = l.occupancy(device)
	}
	return gone
}

// heldOf calls yield for the devices of the pool that somebody holds.
func (l *ledger) heldOf(p *Pool) iter.Seq[string] {
	return func(yield func(string) bool) {
		if len(l.holds) < len(p.byName) {
			for device := range l.holds {
				if p.byName[device] != nil && !yield(device) {
					return
				}
			}
			return
		}
		for device := range p.byName {
			if l.holds[device] != nil && !yield(device) {
				return
			}
		}
	}
}

// drawing calls yield once for each device in the scope of which it is known what it
// takes.
func (l *ledger) drawing(s scope) iter.Seq[string] {
	if s.everybody {
		return maps.Keys(l.publishers)
	}
	return func(yield func(string) bool) {
		for device := range l.drawn[s.node] {
			if !yield(device) {
				return
			}
		}
		for device := range l.drawn[""] {
			if s.node != "" && l.drawn[s.node][device] == nil && !yield(device) {
				return
			}
		}
	}
}

// draws returns the most that the device takes of each counter.
func (l *ledger) draws(s scope, device string) map[draw]Amount {
	most := map[draw]Amount{}
	for _, node := range l.publishers[device] {
		if s.includes(node) {
			for key, amount := range l.drawn[node][device] {
				raise(most, key, amount)
			}
		}
	}
	return most
}
