// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/inventory"
)

// request is one device request of one claim.
type request struct {
	claim int
	name  string
	// asks has one entry for exactly, one per alternative in rank order for
	// firstAvailable.
	asks []*ask
}

// ask is what one request, or one alternative of it, asks for.
type ask struct {
	ref     RequestRef
	id      int // position in Problem.asks
	request int // position in Problem.requests
	claim   int
	uid     types.UID // of the claim; empty where nobody asks what is kept for it
	rank    int

	class     *resourceapi.DeviceClass
	selectors []string
	// asked is the number of devices that the request names. The search counts up to
	// count, which is cut off where no claim could have as many.
	asked, count int
	all          bool
	admin        bool
	// occupies: what the ask takes is gone for others.
	occupies    bool
	tolerations []resourceapi.DeviceToleration
	capacity    map[resourceapi.QualifiedName]resource.Quantity
	// twice are names of capacity that may be another spelling of others there.
	twice   []resourceapi.QualifiedName
	derived map[resourceapi.FullyQualifiedName]string
	// limits are the constraints that apply, as positions in
	// Problem.constraints.
	limits []int
	// seeks stands for all that decides which devices are candidates: asks that look
	// for the same have the same. first is the first of these asks, firstOfClaim
	// that of the claim.
	seeks               seeks
	first, firstOfClaim int
}

// seeks is a cryptographic hash: whoever writes claims must not be able to have the
// selectors of one class stand for those of another.
type seeks [sha256.Size]byte

// seek works out what the ask looks for. Every text goes in with its length, every list
// with the number of its elements.
func (p *Problem) seek(a *ask) seeks {
	h := p.scratch[:0]
	number := func(n int) { h = binary.AppendVarint(h, int64(n)) }
	text := func(s string) {
		number(len(s))
		h = append(h, s...)
	}
	text(a.class.Name)
	number(len(a.selectors))
	for _, s := range a.selectors {
		text(s)
	}
	h = strconv.AppendBool(strconv.AppendBool(h, a.all), a.admin)
	number(len(a.tolerations))
	for _, t := range a.tolerations {
		text(t.Key)
		text(string(t.Operator))
		text(t.Value)
		text(string(t.Effect))
	}
	number(len(a.capacity))
	for _, name := range sorted(a.capacity) {
		q := a.capacity[name]
		text(string(name))
		text(q.String())
	}
	number(len(a.derived))
	for _, name := range sorted(a.derived) {
		text(string(name))
		text(a.derived[name])
	}
	number(len(a.limits))
	for _, c := range a.limits {
		number(p.constraints[c].first)
	}
	if a.claim < len(p.options.Containers) {
		number(p.options.Containers[a.claim])
	}
	p.scratch = h
	return sha256.Sum256(h)
}

// sorted lists the keys of a map, which is empty as a rule.
func sorted[K cmp.Ordered, V any](m map[K]V) []K {
	if len(m) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(m))
}

// compare finds the first ask that looks for the same.
func (p *Problem) compare(a *ask) {
	a.seeks = p.seek(a)
	if p.firsts == nil {
		p.firsts = map[seeks][2]int{}
	}
	a.first, a.firstOfClaim = a.id, a.id
	known, found := p.firsts[a.seeks]
	if found {
		a.first = known[0]
		if p.asks[known[1]].claim == a.claim {
			a.firstOfClaim = known[1]
		}
	}
	p.firsts[a.seeks] = [2]int{a.first, a.firstOfClaim}
}

// firstOn returns the first constraint on an attribute; c is the next.
func (p *Problem) firstOn(attribute resourceapi.FullyQualifiedName, c int) int {
	if first, found := p.attributes[attribute]; found {
		return first
	}
	if p.attributes == nil {
		p.attributes = map[resourceapi.FullyQualifiedName]int{}
	}
	p.attributes[attribute] = c
	return c
}

// constraint is one constraint of one claim (DeviceConstraint).
type constraint struct {
	claim     int
	distinct  bool
	attribute resourceapi.FullyQualifiedName
	requests  []string
	// first is the first constraint on the attribute.
	first int
}

// appliesTo follows DeviceConstraint.requests: none means all, a request's name
// includes its alternatives.
func (c *constraint) appliesTo(a *ask, requestName string) bool {
	return c.claim == a.claim &&
		(len(c.requests) == 0 || slices.Contains(c.requests, requestName) || slices.Contains(c.requests, a.ref.Request))
}

// compileRequest turns an API request into asks.
func (p *Problem) compileRequest(claim int, index int, classes Classes) error {
	in := &p.claims[claim].Spec.Devices.Requests[index]
	r := &request{claim: claim, name: in.Name}
	at := place{request: index, alternative: whollyAsked}
	// Results name the request that they are for.
	if slices.ContainsFunc(p.requests[p.ownRequests:], func(o *request) bool { return o.name == in.Name }) {
		if err := p.reading.object(p.inputError(claim, at.String()+".name", "is that of another request; rename one")); err != nil {
			return err
		}
	}
	p.requests = append(p.requests, r)
	switch {
	case in.Exactly != nil:
		e := in.Exactly
		at.alternative = exactlyAsked
		return p.compileAsk(r, in.Name, at, classes, &resourceapi.DeviceSubRequest{
			DeviceClassName: e.DeviceClassName, Selectors: e.Selectors, AllocationMode: e.AllocationMode, Count: e.Count,
			Tolerations: e.Tolerations, Capacity: e.Capacity, DerivedAttributes: e.DerivedAttributes,
		}, e.AdminAccess != nil && *e.AdminAccess)
	case len(in.FirstAvailable) > 0:
		for i := range in.FirstAvailable {
			sub := &in.FirstAvailable[i]
			at.alternative = i
			if slices.ContainsFunc(in.FirstAvailable[:i], func(o resourceapi.DeviceSubRequest) bool { return o.Name == sub.Name }) {
				if err := p.reading.object(p.inputError(claim, at.String()+".name", "is that of another alternative; rename one")); err != nil {
					return err
				}
			}
			if err := p.compileAsk(r, in.Name+"/"+sub.Name, at, classes, sub, false); err != nil {
				return err
			}
		}
		return nil
	}
	return p.inputError(claim, at.String(), "neither exactly nor firstAvailable is set")
}

// compileAsk checks one alternative; exact requests come in the same shape.
func (p *Problem) compileAsk(r *request, name string, at place, classes Classes, in *resourceapi.DeviceSubRequest, admin bool) error {
	a := &ask{
		ref: RequestRef{Claim: claimName(p.claims[r.claim]), Request: name},
		id:  len(p.asks), request: len(p.requests) - 1, claim: r.claim, rank: len(r.asks),
		admin: admin, tolerations: in.Tolerations,
	}
	if a.class = classes(in.DeviceClassName); a.class == nil {
		return &InputError{
			Object: "claim " + a.ref.Claim, Field: at.String() + ".deviceClassName", Class: in.DeviceClassName,
			Problem: fmt.Sprintf("device class %q does not exist", in.DeviceClassName),
		}
	}
	if err := p.compileSelectors(a, at, in.Selectors); err != nil {
		return err
	}
	switch in.AllocationMode {
	case resourceapi.DeviceAllocationModeExactCount, "":
		if in.Count < 0 {
			if err := p.reading.object(p.inputError(r.claim, at.String()+".count", fmt.Sprintf("is %d, want 1 or more", in.Count))); err != nil {
				return err
			}
		}
		a.asked = max(int(in.Count), p.reading.least())
		a.count = min(a.asked, resourceapi.AllocationResultsMaxSize+1)
	case resourceapi.DeviceAllocationModeAll:
		a.all = true
	default:
		return p.inputError(r.claim, at.String()+".allocationMode", fmt.Sprintf("%q is not supported", in.AllocationMode))
	}
	if err := p.compileCapacity(a, at, in.Capacity); err != nil {
		return err
	}
	for _, d := range in.DerivedAttributes {
		if a.derived == nil {
			a.derived = map[resourceapi.FullyQualifiedName]string{}
		}
		a.derived[d.Name] = d.Expression
	}
	a.limits = p.limitsOf(a, r.name)
	p.reading.ask(p, a)
	r.asks = append(r.asks, a)
	p.asks = append(p.asks, a)
	return nil
}

// compileCapacity checks the amounts of a request. The API server takes negative ones, and
// a request policy would make some least amount of them.
func (p *Problem) compileCapacity(a *ask, at place, in *resourceapi.CapacityRequirements) error {
	if in == nil {
		return nil
	}
	a.capacity = in.Requests
	for _, name := range sorted(a.capacity) {
		field := func() string { return fmt.Sprintf("%s.capacity.requests[%s]", at, name) }
		switch q := a.capacity[name]; {
		case !inventory.Countable(&q):
			return p.inputError(a.claim, field(), "is "+inventory.Uncounted)
		case q.Sign() < 0:
			if err := p.reading.object(p.inputError(a.claim, field(), fmt.Sprintf("is %s, want 0 or more", &q))); err != nil {
				return err
			}
		}
	}
	a.twice = spelledTwice(a.capacity)
	return nil
}

// limitsOf are the constraints that apply to an ask: those of the ask before it, as a
// rule, of which it then has the list.
func (p *Problem) limitsOf(a *ask, requestName string) []int {
	limits := p.limits[:0]
	for i, c := range p.constraints[p.own:] {
		if c.appliesTo(a, requestName) {
			limits = append(limits, p.own+i)
		}
	}
	p.limits = limits
	if len(p.asks) > 0 {
		if before := p.asks[len(p.asks)-1].limits; slices.Equal(before, limits) {
			return before
		}
	}
	return slices.Clone(limits)
}

// compileSelectors takes over the selectors of a request. What they say is looked at
// later, see [Problem.check].
func (p *Problem) compileSelectors(a *ask, at place, selectors []resourceapi.DeviceSelector) error {
	for i, s := range a.class.Spec.Selectors {
		if s.CEL == nil {
			return noExpression("device class "+a.class.Name, classSelector(i))
		}
	}
	for i, s := range selectors {
		if s.CEL == nil {
			return noExpression("claim "+a.ref.Claim, at.selector(i))
		}
		a.selectors = append(a.selectors, s.CEL.Expression)
	}
	return nil
}

func noExpression(object, field string) error {
	return &InputError{Object: object, Field: field, Problem: "a selector needs a CEL expression"}
}

func (p *Problem) compileConstraint(claim, index int) error {
	in := &p.claims[claim].Spec.Devices.Constraints[index]
	c := &constraint{claim: claim, requests: in.Requests}
	switch {
	case in.MatchAttribute != nil:
		c.attribute = *in.MatchAttribute
	case in.DistinctAttribute != nil:
		c.attribute, c.distinct = *in.DistinctAttribute, true
	default:
		return p.inputError(claim, fmt.Sprintf("spec.devices.constraints[%d]", index), "neither matchAttribute nor distinctAttribute is set")
	}
	if !slices.ContainsFunc(p.constraints[p.own:], c.same) {
		c.first = p.firstOn(c.attribute, len(p.constraints))
		p.constraints = append(p.constraints, c)
	}
	return nil
}

// same reports whether two constraints say the same.
func (c *constraint) same(o *constraint) bool {
	return c.claim == o.claim && c.distinct == o.distinct && c.attribute == o.attribute && slices.Equal(c.requests, o.requests)
}

func (p *Problem) inputError(claim int, field, problem string) *InputError {
	return &InputError{Object: "claim " + claimName(p.claims[claim]), Field: field, Problem: problem}
}

func claimName(claim *resourceapi.ResourceClaim) string {
	return claim.Namespace + "/" + claim.Name
}
