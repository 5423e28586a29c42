// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/inventory"
)

// refusal explains a proven no. Each of the parts of the explanation has a budget of
// its own, beside that of the search: what there is no time to say is left out.
func (s *search) refusal() *Refusal {
	defer s.meter.turn(s.meter.turn(Explaining))
	s.explaining = min(max(leastExplaining, s.meter.used/explainingPart), mostExplaining)
	r := &Refusal{}
	r.Requests, r.Untold = s.reports()
	for i := range s.view.Pools {
		if p := s.view.Pools[i].Pool; p.Problem != nil {
			r.Pools = append(r.Pools, p)
		}
	}
	r.Conflict = s.conflict(r)
	return r
}

// reports has the funnels of as many asks as there is time for, and how many there
// are besides. Those of a request that cannot be had by itself come in any case.
func (s *search) reports() (reports []RequestReport, untold int) {
	defer s.meter.beyond(s.explaining)()
	lacking := slices.IndexFunc(s.requests, s.impossibleAlone)
	reports = make([]RequestReport, 0, min(len(s.fields), fewReports))
	for _, f := range s.fields {
		if (s.meter.out() || !f.completed && s.dear()) && f.request != lacking || s.complete(f) != nil && !f.completed {
			untold++
			continue
		}
		reports = append(reports, s.report(f))
	}
	return reports, untold
}

// fewReports is how many reports most refusals have at most.
const fewReports = 32

// dear reports whether to judge one more device may take more than there is left, to go by
// those that were judged up to now.
func (s *search) dear() bool {
	return s.meter.judgement(s.judgements) > s.meter.limit-s.meter.used
}

// impossibleAlone reports whether a request is known not to be had by itself.
func (s *search) impossibleAlone(r *request) bool {
	return !slices.ContainsFunc(r.asks, func(a *ask) bool { return !s.fields[a.id].completed || !s.fields[a.id].impossible })
}

// report sums up the funnel and notes where the devices went.
func (s *search) report(f *field) RequestReport {
	r := RequestReport{RequestRef: f.ref, Wants: f.told(), All: f.all, Failed: NoStage}
	if f.n > 0 {
		r.Candidates = make([]*inventory.Device, 0, f.n)
	}
	s.meter.payBytes(reportBytes + 8*len(s.units))
	for i := range s.units {
		s.trace(&r, f, i)
	}
	if r.Left[StageSelector] >= max(r.Wants, 1) {
		r.Unselected = nil
	} else {
		r.Unmet = s.unmet(f, r.Unselected)
	}
	for stage := range Stage(Stages) {
		if r.Left[stage] < max(r.Wants, 1) {
			r.Failed = stage
			break
		}
	}
	return r
}

// trace notes how far a unit got.
func (s *search) trace(r *RequestReport, f *field, i int) {
	s.meter.pay(4)
	last := f.stages[i]
	if last == StageConstraints {
		r.Candidates = append(r.Candidates, s.units[i].dev)
		if f.open.has(i) {
			last++
		} else {
			s.addDerivedErrors(r, f, i)
		}
	}
	for stage := range last {
		r.Left[stage]++
	}
	if last >= StageFree && last <= StageNode {
		s.addDropped(r, f, i)
	}
	if last == StageSelector {
		r.Unselected = append(r.Unselected, s.units[i].dev)
	}
	if f.failing != nil && f.failing.has(i) && !s.meter.out() {
		if _, err := s.selects(f, &s.units[i]); err != nil {
			r.addSelectorError(err)
		}
	}
}

// reportBytes is what a report takes that names no device, with what is said about it.
const reportBytes = 1024

// addDropped notes that a unit fell out at a stage that can change.
func (s *search) addDropped(r *RequestReport, f *field, i int) {
	stage, dev := f.stages[i], s.units[i].dev
	if r.Dropped == nil {
		r.Dropped = map[Stage][]*inventory.Device{}
	}
	r.Dropped[stage] = append(r.Dropped[stage], dev)
	if stage == StageNode {
		if r.Shortages == nil {
			r.Shortages = map[*inventory.Device]Shortage{}
		}
		r.Shortages[dev] = s.shortageOf(f, i)
	}
}

// addSelectorError counts devices and keeps the first, or the first of a driver that
// the expression is about.
func (r *RequestReport) addSelectorError(err *SelectorError) {
	for i := range r.SelectorErrors {
		if known := &r.SelectorErrors[i]; known.Class == err.Class && known.Expression == err.Expression {
			known.Devices++
			if !known.aboutDriver() && err.aboutDriver() {
				known.Device, known.Err = err.Device, err.Err
			}
			return
		}
	}
	r.SelectorErrors = append(r.SelectorErrors, *err)
}

// aboutDriver reports whether the expression names the driver of the device, as
// device.driver == "gpu.example.com" and attributes["gpu.example.com"] do. It then
// fails on devices of other drivers, too, where nobody wonders why.
func (e *SelectorError) aboutDriver() bool {
	return strings.Contains(e.Expression, strconv.Quote(e.Device.Driver)) || strings.Contains(e.Expression, "'"+e.Device.Driver+"'")
}

// conflict finds a minimal set of requests that cannot be satisfied, and why.
func (s *search) conflict(told *Refusal) Conflict {
	defer s.meter.beyond(s.explaining)()
	kept := s.suspects
	if kept == nil {
		kept = natural(len(s.requests))
	}
	at, judged := slices.IndexFunc(s.requests, s.impossibleAlone), false
	if at < 0 {
		// What there was no need to judge for the refusal is judged for its reason: that
		// may show that one request is the whole reason, or take more than there is.
		judged = !s.dear() && !slices.ContainsFunc(kept, func(r int) bool { return !s.completeRequest(r) })
		at = slices.IndexFunc(s.requests, s.impossibleAlone)
	}
	if at >= 0 {
		return s.impossible(s.requests[at], told)
	}
	var c Conflict
	switch {
	case judged:
		s.forget()
		kept = s.minimal(kept)
		defer s.meter.beyond(s.explaining)()
		c = s.classify(kept)
	case s.suspects != nil:
		c = s.explainOutnumbered()
	default:
		c.Kind = Exhausted
	}
	for _, r := range kept {
		c.Requests = append(c.Requests, s.refOf(r))
	}
	return c
}

// refOf names a request as a whole, whatever its alternatives.
func (s *search) refOf(r int) RequestRef {
	return RequestRef{Claim: claimName(s.claims[s.requests[r].claim]), Request: s.requests[r].name}
}

// impossible explains a request that cannot be satisfied even alone. For one
// with alternatives it speaks of the last, the least demanding as a rule; the
// reports have them all.
func (s *search) impossible(r *request, told *Refusal) Conflict {
	f := s.fields[r.asks[len(r.asks)-1].id]
	c := Conflict{Kind: TooFew, Requests: []RequestRef{f.ref}, Need: f.told()}
	for _, a := range r.asks {
		c.Have = s.reported(told, s.fields[a.id]).Left[StageConstraints]
	}
	switch {
	case f.all && s.unknownForAll(f.ask) != nil:
		c.Kind, c.Pool = AllUnknown, s.unknownForAll(f.ask)
	case f.want > resourceapi.AllocationResultsMaxSize:
		c.Kind, c.Limit = TooMany, resourceapi.AllocationResultsMaxSize
	case f.all && f.matching > 0:
		c.Kind = AllUnavailable
		for i := range s.units {
			if f.stages[i] > StageSelector && !f.open.has(i) && s.countsForAll(f, i) {
				c.Devices = append(c.Devices, s.units[i].dev)
			}
		}
	}
	return c
}

// reported returns the report of an ask that the conflict is about. It is made where
// there was no time for it before.
func (s *search) reported(told *Refusal, f *field) *RequestReport {
	at := slices.IndexFunc(told.Requests, func(r RequestReport) bool { return r.RequestRef == f.ref })
	if at < 0 {
		at = len(told.Requests)
		told.Requests = append(told.Requests, s.report(f))
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
func (s *search) minimal(all []int) []int {
	m := minimizer{search: s, kept: all, effort: minimizeEffort}
	m.parts = s.parts(m.kept)
	for r, stop, many := all[0], all[len(all)-1]+1, 1; r < stop && !s.meter.out(); {
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
	*search
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
	sub.roles = m.roles
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
func (s *search) classify(kept []int) Conflict {
	sub := newSearch(s.board, 0)
	sub.order, sub.trail = kept, make([]change, 0, 2*len(kept))
	for _, r := range kept {
		for _, a := range slices.Backward(s.requests[r].asks) {
			if f := s.fields[a.id]; f.completed && !f.impossible {
				sub.choose(f) // the last possible alternative
				break
			}
		}
	}
	rest := sub.rest(0)
	if sub.tooMany(0) {
		need := 0
		for _, f := range rest {
			need += f.want
		}
		return Conflict{Kind: TooMany, Need: need, Limit: resourceapi.AllocationResultsMaxSize}
	}
	limited := sub.limited(rest)
	if c := sub.notDistinct(limited); c != nil {
		if conflict, told := sub.explainDistinct(c, limited); told {
			return conflict
		}
	}
	if c := sub.notAlike(limited); c >= 0 {
		if conflict, told := sub.explainMatch(c, limited); told {
			return conflict
		}
	}
	if d := sub.undivided(rest, wants(rest)); d != nil {
		if need, have := d.groups(); need > 1 && have < need {
			return Conflict{Kind: TooFewGroups, Attribute: d.attribute, Need: need, Have: have}
		}
	}
	need := 0
	for _, f := range rest {
		need += f.want
	}
	switch {
	case sub.overbooked(rest, wants(rest)):
		return Conflict{Kind: Shared, Need: need, Have: sub.together(rest)}
	case sub.nodeShort(rest) != "":
		return sub.explainNode(sub.nodeShort(rest), rest)
	case sub.counterShort(rest) || sub.packed(rest[0]) < rest[0].want:
		return Conflict{Kind: Counters, Need: need, Have: sub.packed(rest[0])}
	}
	return Conflict{Kind: Exhausted, Need: need}
}

// together counts the devices that any of the asks could have.
func (s *search) together(rest []*field) int {
	n := 0
	for i := range s.units {
		if s.meter.out() {
			break
		}
		s.meter.pay(len(rest))
		if slices.ContainsFunc(rest, func(f *field) bool { return s.open[f.request].has(i) && s.fits(f, i) }) {
			n++
		}
	}
	return n
}

// explainDistinct and explainMatch list the devices by value. That can be more than there
// is time to tell.
func (s *search) explainDistinct(of *constraint, limited [][]*field) (conflict Conflict, told bool) {
	c := slices.Index(s.constraints, of)
	asks := limited[c]
	conflict = Conflict{Kind: NotDistinct, Attribute: of.attribute}
	for _, f := range asks {
		conflict.Need += f.want
	}
	conflict.Groups, told = s.groupsOf(c, asks)
	conflict.Have = len(conflict.Groups)
	return conflict, told
}

func (s *search) explainMatch(c int, limited [][]*field) (conflict Conflict, told bool) {
	asks := limited[c]
	conflict = Conflict{Kind: NoMatch, Attribute: s.constraints[c].attribute}
	for _, f := range asks {
		conflict.Need += f.want
	}
	if conflict.Groups, told = s.groupsOf(c, asks); !told {
		return conflict, false
	}
	h := s.holders(c, asks[:min(len(asks), maxMatched)])
	for v := range h.of {
		have := s.served(wants(h.asks), h.alike(v))
		if s.meter.out() {
			return conflict, false
		}
		conflict.Have = max(conflict.Have, have)
	}
	return conflict, true
}

// groupsOf counts the candidates of each ask by attribute value, the value with
// most devices first. It reports whether there was time for all.
func (s *search) groupsOf(c int, asks []*field) (groups []ValueGroup, told bool) {
	s.meter.payBytes(groupBytes * len(s.valueIDs[c]))
	if s.meter.out() {
		return nil, false
	}
	groups = make([]ValueGroup, len(s.valueIDs[c]))
	for v, n := range s.valueIDs[c] {
		groups[n].Value, groups[n].Type = v.text, typeNames[v.kind]
	}
	for k, f := range asks {
		at := slices.Index(f.limits, c)
		for i := range f.open.all() {
			for _, v := range f.values[at][i] {
				groups[v].add(k, len(asks), s.units[i].dev, &s.meter)
			}
			if s.meter.out() {
				return nil, false
			}
		}
	}
	groups = slices.DeleteFunc(groups, func(g ValueGroup) bool { return g.total() == 0 })
	slices.SortFunc(groups, func(a, b ValueGroup) int {
		return cmp.Or(cmp.Compare(b.total(), a.total()), cmp.Compare(a.Value, b.Value))
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
