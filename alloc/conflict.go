// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"cmp"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"kerf.dev/kerf/inventory"
)

// conflict finds a minimal set of requests that cannot be satisfied, and why.
func (e *explainer) conflict(told *Refusal) Conflict {
	defer e.meter.beyond(e.part)()
	kept := e.suspects
	if kept == nil {
		kept = natural(len(e.problem.requests))
	}
	at, judged := slices.IndexFunc(e.problem.requests, e.board.impossibleAlone), false
	if at < 0 {
		// What there was no need to judge for the refusal is judged for its reason: that
		// may show that one request is the whole reason, or take more than there is.
		judged = !e.board.dear() && !slices.ContainsFunc(kept, func(r int) bool { return !e.board.completeRequest(r) })
		at = slices.IndexFunc(e.problem.requests, e.board.impossibleAlone)
	}
	if at >= 0 {
		return e.impossible(e.problem.requests[at], told)
	}
	var c Conflict
	switch {
	case judged:
		kept = e.minimal(kept)
		defer e.meter.beyond(e.part)()
		c = e.classify(kept)
	case e.suspects != nil:
		c = e.explainOutnumbered()
	default:
		c.Kind = Exhausted
	}
	for _, r := range kept {
		c.Requests = append(c.Requests, e.board.refOf(r))
	}
	return c
}

// refOf names a request as a whole, whatever its alternatives.
func (b *board) refOf(r int) RequestRef {
	return RequestRef{Claim: claimName(b.problem.claims[b.problem.requests[r].claim]), Request: b.problem.requests[r].name}
}

// impossible explains a request that cannot be satisfied even alone. For one
// with alternatives it speaks of the last, the least demanding as a rule; the
// reports have them all.
func (e *explainer) impossible(r *request, told *Refusal) Conflict {
	f := e.board.fields[r.asks[len(r.asks)-1].id]
	c := Conflict{Kind: TooFew, Requests: []RequestRef{f.ref}, Need: f.told()}
	for _, a := range r.asks {
		c.Have = e.reported(told, e.board.fields[a.id]).Left[StageConstraints]
	}
	switch {
	case f.all && e.board.unknownForAll(f.ask) != nil:
		c.Kind, c.Pool = AllUnknown, e.board.unknownForAll(f.ask)
	case f.want > resourceapi.AllocationResultsMaxSize:
		c.Kind, c.Limit = TooMany, resourceapi.AllocationResultsMaxSize
	case f.all && f.matching > 0:
		c.Kind = AllUnavailable
		for i := range e.board.units {
			if f.stages[i] > StageSelector && !f.open.has(i) && e.board.countsForAll(f, i) {
				c.Devices = append(c.Devices, e.board.units[i].dev)
			}
		}
	}
	return c
}

// reported returns the report of an ask that the conflict is about. It is made where
// there was no time for it before.
func (e *explainer) reported(told *Refusal, f *field) *RequestReport {
	at := slices.IndexFunc(told.Requests, func(r RequestReport) bool { return r.RequestRef == f.ref })
	if at < 0 {
		at = len(told.Requests)
		told.Requests = append(told.Requests, e.report(f))
		told.Untold--
	}
	return &told.Requests[at]
}

// minimizeEffort bounds the steps spent on making a conflict smaller. What is not
// decided within it stays in the conflict.
const minimizeEffort = 300

// minimal leaves out requests, of those that follow each other, as long as the others
// still cannot be satisfied. Of those that play the same part it only tries one. It leaves
// out many at once where it can: first one, then twice as many each time that this went
// well.
func (e *explainer) minimal(all []int) []int {
	m := minimizer{explainer: e, kept: all, effort: minimizeEffort}
	m.parts = e.board.parts(m.kept)
	for r, stop, many := all[0], all[len(all)-1]+1, 1; r < stop && !e.meter.out(); {
		if m.needs(r) {
			r++
			continue
		}
		end := m.until(r, min(r+many, stop))
		switch {
		case m.leave(r, end):
			r, many = end, 2*many
		case end == r+1:
			m.needed = append(m.needed, m.parts[r])
			r, many = end, 1
		default:
			many = (end - r) / 2
		}
	}
	return m.kept
}

// minimizer makes a conflict smaller.
type minimizer struct {
	*explainer
	kept []int
	// parts are those that the kept requests play; needed are those of which no
	// request can be left out.
	parts, needed []fingerprint
	effort        int
}

// needs reports whether a request plays a part that is needed.
func (m *minimizer) needs(r int) bool {
	m.meter.pay(len(m.needed))
	return slices.Contains(m.needed, m.parts[r])
}

// until returns where the requests from r to the end stop that may be left out.
func (m *minimizer) until(r, end int) int {
	for k := r + 1; k < end; k++ {
		if m.needs(k) {
			return k
		}
	}
	return end
}

// leave leaves out the requests from one to before the end, if the others cannot
// be satisfied without them.
func (m *minimizer) leave(from, end int) bool {
	without := slices.DeleteFunc(slices.Clone(m.kept), func(k int) bool { return k >= from && k < end })
	m.meter.pay(len(m.kept))
	if len(without) == 0 {
		return false
	}
	sub := newSearch(m.board, m.effort)
	v := sub.solveListed(without)
	m.effort -= sub.steps
	if v != no {
		return false
	}
	m.kept, m.parts = without, m.board.parts(without)
	return true
}

// classify says what kind of reason keeps the requests from being satisfied
// together. The bounds that refute it at the start name it best.
func (e *explainer) classify(kept []int) Conflict {
	s := newState(e.board)
	for _, r := range kept {
		for _, a := range slices.Backward(e.problem.requests[r].asks) {
			if f := e.board.fields[a.id]; f.completed && !f.impossible {
				s.choose(f) // the last possible alternative
				break
			}
		}
	}
	return newBounds(s).reason(kept)
}

// reason is the first bound that refutes the requests.
func (b *bounds) reason(kept []int) Conflict {
	rest := b.rest(kept)
	need := total(wants(rest))
	if b.tooMany(kept) {
		return Conflict{Kind: TooMany, Need: need, Limit: resourceapi.AllocationResultsMaxSize}
	}
	limited := b.limited(rest)
	for _, bound := range []func([][]*field) int{b.notDistinct, b.notAlike} {
		if c := bound(limited); c >= 0 {
			if conflict, told := b.explainValues(c, limited); told {
				return conflict
			}
		}
	}
	if d := b.undivided(rest, wants(rest)); d != nil {
		if need, have := d.groups(); need > 1 && have < need {
			return Conflict{Kind: TooFewGroups, Attribute: d.attribute, Need: need, Have: have}
		}
	}
	switch {
	case b.overbooked(rest, wants(rest)):
		return Conflict{Kind: Shared, Need: need, Have: b.together(rest)}
	case b.nodeShort(rest) != "":
		return b.explainNode(b.nodeShort(rest), rest)
	case b.counterShort(rest) || b.packed(rest[0]) < rest[0].want:
		return Conflict{Kind: Counters, Need: need, Have: b.packed(rest[0])}
	}
	return Conflict{Kind: Exhausted, Need: need}
}

// together counts the devices that any of the asks could have.
func (b *bounds) together(rest []*field) int {
	n := 0
	for i := range b.board.units {
		if b.meter.out() {
			break
		}
		b.meter.pay(len(rest))
		if slices.ContainsFunc(rest, func(f *field) bool { return b.now.openTo(f.request).has(i) && b.now.fits(f, i) }) {
			n++
		}
	}
	return n
}

// explainValues lists the devices by the value that a constraint sees. That can be more than
// there is time to tell.
func (b *bounds) explainValues(c int, limited [][]*field) (conflict Conflict, told bool) {
	of, asks := b.problem.constraints[c], limited[c]
	conflict = Conflict{Kind: NoMatch, Attribute: of.attribute, Need: total(wants(asks))}
	conflict.Groups, told = b.groupsOf(c, asks)
	if of.distinct {
		conflict.Kind, conflict.Have = NotDistinct, len(conflict.Groups)
	}
	if of.distinct || !told {
		return conflict, told
	}
	h := b.holders(c, asks[:min(len(asks), maxMatched)])
	for v := range h.of {
		have := b.board.served(wants(h.asks), h.alike(v))
		if b.meter.out() {
			return conflict, false
		}
		conflict.Have = max(conflict.Have, have)
	}
	return conflict, true
}

// groupsOf counts the candidates of each ask by attribute value, the value with
// most devices first. It reports whether there was time for all.
func (b *bounds) groupsOf(c int, asks []*field) (groups []ValueGroup, told bool) {
	b.meter.payBytes(groupBytes * len(b.board.valueIDs[c]))
	if b.meter.out() {
		return nil, false
	}
	groups = make([]ValueGroup, len(b.board.valueIDs[c]))
	for v, n := range b.board.valueIDs[c] {
		groups[n].Value, groups[n].Type = v.text, typeNames[v.kind]
	}
	for k, f := range asks {
		at := slices.Index(f.limits, c)
		for i := range f.open.all() {
			for _, v := range f.values[at][i] {
				groups[v].add(k, len(asks), b.board.units[i].dev, b.meter)
			}
			if b.meter.out() {
				return nil, false
			}
		}
	}
	groups = slices.DeleteFunc(groups, func(g ValueGroup) bool { return g.total() == 0 })
	slices.SortFunc(groups, func(x, y ValueGroup) int {
		return cmp.Or(cmp.Compare(y.total(), x.total()), cmp.Compare(x.Value, y.Value))
	})
	return groups, true
}

// groupBytes is what a group takes that has no device, with sorting it.
const groupBytes = 160

// add notes a device for one of the asks. Most groups have devices for few.
func (g *ValueGroup) add(ask, asks int, d *inventory.Device, m *meter) {
	if g.Counts == nil {
		m.payBytes(32 * asks)
		g.Counts, g.Devices = make([]int, asks), make([][]*inventory.Device, asks)
	}
	m.payBytes(16)
	g.Counts[ask]++
	g.Devices[ask] = append(g.Devices[ask], d)
}

func (g *ValueGroup) total() int {
	n := 0
	for _, c := range g.Counts {
		n += c
	}
	return n
}
