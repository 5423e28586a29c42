// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/inventory"
)

// oracle solves a problem by trying everything. It goes through the requests and
// devices in the order of the stock allocator: claims, requests, alternatives,
// then devices in listed order, each request's as a combination. After every
// device it looks at all rules anew, from nothing; it keeps no state that could
// be undone wrongly.
type oracle struct {
	view    *inventory.View
	classes Classes
	matcher Matcher
	// containers says how many containers refer to a claim.
	containers func(claim int) int
	// requests has the alternatives of all requests of all claims, in order.
	requests [][]*oracleAsk
	// forced is the only alternative to try of each request, -1 for any.
	forced []int
	// steps counts the devices tried, up to a budget.
	steps, budget int
	cannot        map[oracleKey]bool
}

type oracleKey struct {
	ask    *oracleAsk
	device *inventory.Device
}

// oracleAsk is one alternative of a request.
type oracleAsk struct {
	claim       int
	uid         types.UID
	constraints []resourceapi.DeviceConstraint
	request     string
	name        string
	rank        int
	spec        resourceapi.ExactDeviceRequest
}

func (a *oracleAsk) admin() bool { return a.spec.AdminAccess != nil && *a.spec.AdminAccess }

// oraclePick is a device for an alternative.
type oraclePick struct {
	ask    *oracleAsk
	pool   *inventory.PoolView
	device *inventory.Device
}

// oracleBudget ends what would take too long; such inputs prove nothing and are
// left out.
const oracleBudget = 60_000

// oracle has the claims of the world, or some of them, to solve.
func (e *examination) oracle(claims []*resourceapi.ResourceClaim) *oracle {
	o := &oracle{view: e.view, classes: e.Class, matcher: tableMatcher{}, budget: oracleBudget, cannot: map[oracleKey]bool{}}
	o.containers = func(claim int) int { return e.containers(claims[claim]) }
	for i, claim := range claims {
		for j := range claim.Spec.Devices.Requests {
			r := &claim.Spec.Devices.Requests[j]
			ask := oracleAsk{claim: i, uid: claim.UID, constraints: claim.Spec.Devices.Constraints, request: r.Name, name: r.Name}
			var asks []*oracleAsk
			if r.Exactly != nil {
				ask.spec = *r.Exactly
				asks = append(asks, &ask)
			}
			for k, sub := range r.FirstAvailable {
				alternative := ask
				alternative.name, alternative.rank, alternative.spec = r.Name+"/"+sub.Name, k, *exactly(sub)
				asks = append(asks, &alternative)
			}
			o.requests = append(o.requests, asks)
			o.forced = append(o.forced, -1)
		}
	}
	return o
}

// exhausted reports whether the answers are worth nothing.
func (o *oracle) exhausted() bool { return o.steps >= o.budget }

// each calls yield for every assignment that obeys all rules, in order, until it
// returns false.
func (o *oracle) each(yield func([]oraclePick) bool) { o.fill(0, nil, yield) }

// first returns the assignment that the stock allocator would find.
func (o *oracle) first() (found []oraclePick, feasible bool) {
	o.each(func(picks []oraclePick) bool {
		found, feasible = slices.Clone(picks), true
		return false
	})
	return found, feasible
}

// bestRanks returns the alternatives of the best assignments: the first request
// of the first claim decides, then the next. There must be an assignment.
func (o *oracle) bestRanks() []int {
	for i, asks := range o.requests {
		for rank := range asks {
			o.forced[i] = rank
			if _, feasible := o.first(); feasible || o.exhausted() {
				break
			}
		}
	}
	best := slices.Clone(o.forced)
	for i := range o.forced {
		o.forced[i] = -1
	}
	return best
}

// fill assigns the requests from one on; it returns false to stop.
func (o *oracle) fill(request int, picks []oraclePick, yield func([]oraclePick) bool) bool {
	if request == len(o.requests) {
		return yield(picks)
	}
	for rank, ask := range o.requests[request] {
		if o.forced[request] >= 0 && o.forced[request] != rank {
			continue
		}
		all, count := o.wanted(ask)
		if !o.choose(ask, all, count, picks, func(with []oraclePick) bool { return o.fill(request+1, with, yield) }) {
			return false
		}
	}
	return true
}

// wanted returns the devices to choose from and how many of them. For all
// devices both are what matches; that is none, of one, where it is not known.
func (o *oracle) wanted(ask *oracleAsk) (from []oraclePick, count int) {
	all := ask.spec.AllocationMode == resourceapi.DeviceAllocationModeAll
	var unknown []*inventory.Pool
	for i := range o.view.Pools {
		pool := &o.view.Pools[i]
		if pool.Pool.Problem != nil {
			unknown = append(unknown, pool.Pool)
			continue
		}
		for _, d := range pool.Devices {
			if !all || o.matches(ask, d) && o.amounts(ask, d) != nil {
				from = append(from, oraclePick{ask, pool, d})
			}
		}
	}
	if !all {
		return from, int(ask.spec.Count)
	}
	for _, pool := range unknown {
		if !o.foreign(ask, pool) {
			return nil, 1
		}
	}
	return from, max(len(from), 1)
}

// foreign reports whether what an unusable pool shows is enough to say that a
// request for all devices wants none of it: it shows devices, none matches, and
// the devices of usable pools that do match are of other drivers.
func (o *oracle) foreign(ask *oracleAsk, pool *inventory.Pool) bool {
	for _, d := range pool.Devices {
		if o.matches(ask, d) {
			return false
		}
	}
	drivers := map[string]bool{}
	for i := range o.view.Pools {
		for _, d := range o.view.Pools[i].Devices {
			if o.view.Pools[i].Pool.Problem == nil && o.matches(ask, d) {
				drivers[d.ID.Driver] = true
			}
		}
	}
	return len(pool.Devices) > 0 && len(drivers) > 0 && !drivers[pool.ID.Driver]
}

// choose adds combinations of count devices to the picks.
func (o *oracle) choose(ask *oracleAsk, from []oraclePick, count int, picks []oraclePick, then func([]oraclePick) bool) bool {
	if count == 0 {
		return then(picks)
	}
	for i := 0; i+count <= len(from); i++ {
		if o.steps++; o.exhausted() {
			return false
		}
		with := append(picks, from[i])
		if o.possible(from[i]) && o.obeys(with) && !o.choose(ask, from[i+1:], count-1, with, then) {
			return false
		}
	}
	return true
}

// possible looks at the rules that no other device matters for.
func (o *oracle) possible(p oraclePick) bool {
	key := oracleKey{p.ask, p.device}
	cannot, known := o.cannot[key]
	if !known {
		cannot = !o.matches(p.ask, p.device) || !o.free(p) || !o.tolerates(p.ask, p.device) || o.amounts(p.ask, p.device) == nil
		o.cannot[key] = cannot
	}
	return !cannot
}

func (o *oracle) matches(ask *oracleAsk, d *inventory.Device) bool {
	for _, selectors := range [][]resourceapi.DeviceSelector{o.classes(ask.spec.DeviceClassName).Spec.Selectors, ask.spec.Selectors} {
		for _, s := range selectors {
			if ok, _, err := o.matcher.Match(nil, s.CEL.Expression, d); !ok || err != nil {
				return false
			}
		}
	}
	return true
}

func (o *oracle) free(p oraclePick) bool {
	taken := p.pool.Use.Taken[p.device.Index]
	return p.ask.admin() || taken == nil || p.device.MultiAlloc() && !taken.Dedicated
}

func (o *oracle) tolerates(ask *oracleAsk, d *inventory.Device) bool {
	if len(d.Slice.Spec.SkipNodeOperations) > 0 && !slices.Contains(o.view.Node.Status.DeclaredFeatures, "DRAOptionalNodeOperations") {
		return false
	}
taints:
	for _, taint := range d.Taints {
		if taint.Effect != "NoSchedule" && taint.Effect != "NoExecute" {
			continue
		}
		if d.KeptFor(ask.uid) && (taint.Key == inventory.ArrivingTaint || taint.Key == inventory.ClaimTaint && taint.Value == string(ask.uid)) {
			continue
		}
		for _, t := range ask.spec.Tolerations {
			if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
				continue
			}
			if t.Operator == "Exists" || t.Value == taint.Value {
				continue taints
			}
		}
		return false
	}
	return true
}

// amounts returns what the ask takes of each capacity, in thousandths, nil where
// the device can never give it. Generated worlds have no finer amounts.
func (o *oracle) amounts(ask *oracleAsk, d *inventory.Device) map[string]int64 {
	amounts := map[string]int64{}
	var requests map[resourceapi.QualifiedName]resource.Quantity
	if ask.spec.Capacity != nil {
		requests = ask.spec.Capacity.Requests
	}
	for name := range requests {
		if _, found := d.Spec.Capacity[name]; !found {
			return nil
		}
	}
	for name, c := range d.Spec.Capacity {
		amount, policy := c.Value.MilliValue(), c.RequestPolicy
		q, asked := requests[name]
		switch {
		case asked && policy == nil:
			amount = q.MilliValue()
		case asked:
			amount = nextAllowed(q.MilliValue(), policy)
		case policy != nil:
			amount = policy.Default.MilliValue()
		}
		if amount < 0 || amount > c.Value.MilliValue() {
			return nil
		}
		amounts[string(name)] = amount
	}
	return amounts
}

// nextAllowed tries the amounts of a policy in ascending order; -1 says that
// none suffices.
func nextAllowed(amount int64, policy *resourceapi.CapacityRequestPolicy) int64 {
	for _, v := range policy.ValidValues {
		if v.MilliValue() >= amount {
			return v.MilliValue()
		}
	}
	if r := policy.ValidRange; r != nil && r.Step == nil {
		if amount = max(amount, r.Min.MilliValue()); r.Max == nil || amount <= r.Max.MilliValue() {
			return amount
		}
	} else if r != nil {
		for v := r.Min.MilliValue(); v < 1e6 && (r.Max == nil || v <= r.Max.MilliValue()); v += r.Step.MilliValue() {
			if v >= amount {
				return v
			}
		}
	}
	return -1
}

// obeys looks at the rules about several devices.
func (o *oracle) obeys(picks []oraclePick) bool {
	perClaim := map[int]int{}
	for i, p := range picks {
		if perClaim[p.ask.claim]++; perClaim[p.ask.claim] > 32 {
			return false
		}
		for _, q := range picks[:i] {
			// Shares can be had by several requests. Whatever has no shares is
			// in a claim once, and in several only with admin access.
			if p.device == q.device && !p.device.MultiAlloc() && (p.ask.claim == q.ask.claim || !p.ask.admin() && !q.ask.admin()) {
				return false
			}
		}
	}
	return o.withinCounters(picks) && o.withinGroups(picks) && o.withinCapacity(picks) && o.withinNode(picks) && o.withinConstraints(picks)
}

// charged returns the picks that draw from counters: those without admin access,
// each device once, and not again if other claims have shares of it.
func charged(picks []oraclePick) []oraclePick {
	var list []oraclePick
	for _, p := range picks {
		paid := p.device.MultiAlloc() && p.pool.Use.Taken[p.device.Index] != nil
		again := slices.ContainsFunc(list, func(q oraclePick) bool { return q.device == p.device })
		if !p.ask.admin() && !paid && !again {
			list = append(list, p)
		}
	}
	return list
}

func (o *oracle) withinCounters(picks []oraclePick) bool {
	left := map[string]inventory.Amount{}
	for _, p := range charged(picks) {
		for _, draw := range p.device.Draws {
			key := fmt.Sprint(p.pool.Pool.ID, draw.Counter)
			if _, seen := left[key]; !seen {
				left[key] = p.pool.Use.Free[draw.Counter]
			}
			left[key] = left[key].Sub(draw.Amount)
			if left[key].Sign() < 0 || p.pool.Use.Closed[p.pool.Pool.Counters[draw.Counter].Set] {
				return false
			}
		}
	}
	return true
}

// withinGroups wants a group that all devices of a counter set name, or no
// groups at all.
func (o *oracle) withinGroups(picks []oraclePick) bool {
	for _, p := range charged(picks) {
		for _, set := range p.device.Groups {
			votes, devices, silent := map[string]int{}, 0, 0
			for _, d := range p.pool.Pool.Devices {
				mine := slices.ContainsFunc(charged(picks), func(q oraclePick) bool { return q.device == d })
				if !mine && p.pool.Use.Taken[d.Index] == nil {
					continue
				}
				for _, other := range d.Groups {
					if other.Set != set.Set {
						continue
					}
					devices++
					if len(other.Groups) == 0 {
						silent++
					}
					for _, group := range other.Groups {
						votes[group]++
					}
				}
			}
			agreed := silent == devices
			for _, n := range votes {
				agreed = agreed || n == devices
			}
			if !agreed {
				return false
			}
		}
	}
	return true
}

func (o *oracle) withinCapacity(picks []oraclePick) bool {
	used := map[string]int64{}
	for _, p := range picks {
		if !p.device.MultiAlloc() || p.ask.admin() {
			continue
		}
		for name, amount := range o.amounts(p.ask, p.device) {
			key := p.device.ID.String() + " " + name
			if _, seen := used[key]; !seen {
				if taken := p.pool.Use.Taken[p.device.Index]; taken != nil {
					q := taken.Consumed[resourceapi.QualifiedName(name)].Quantity()
					used[key] = q.MilliValue()
				}
			}
			used[key] += amount
			if value := p.device.Spec.Capacity[resourceapi.QualifiedName(name)].Value; used[key] > value.MilliValue() {
				return false
			}
		}
	}
	return true
}

func (o *oracle) withinConstraints(picks []oraclePick) bool {
	for i, p := range picks {
		for _, c := range p.ask.constraints {
			if !inScope(c.Requests, p.ask) {
				continue
			}
			if len(o.values(c, p)) == 0 {
				return false
			}
			common := o.values(c, p)
			for _, q := range picks[:i] {
				if q.ask.claim != p.ask.claim || !inScope(c.Requests, q.ask) {
					continue
				}
				others := o.values(c, q)
				if c.DistinctAttribute != nil && slices.ContainsFunc(common, func(v string) bool { return slices.Contains(others, v) }) {
					return false
				}
				if c.MatchAttribute != nil {
					common = slices.DeleteFunc(common, func(v string) bool { return !slices.Contains(others, v) })
				}
			}
			if len(common) == 0 {
				return false
			}
		}
	}
	return true
}

func inScope(scope []string, ask *oracleAsk) bool {
	return scope == nil || slices.Contains(scope, ask.request) || slices.Contains(scope, ask.name)
}

func (o *oracle) values(c resourceapi.DeviceConstraint, p oraclePick) []string {
	name := c.MatchAttribute
	if name == nil {
		name = c.DistinctAttribute
	}
	var a *resourceapi.DeviceAttribute
	for full, published := range p.device.Spec.Attributes {
		if !strings.Contains(string(full), "/") {
			full = resourceapi.QualifiedName(p.device.ID.Driver) + "/" + full
		}
		if string(full) == string(*name) {
			a = &published
		}
	}
	for _, derived := range p.ask.spec.DerivedAttributes {
		if derived.Name == *name {
			a, _, _ = o.matcher.Derive(nil, derived.Expression, p.device)
		}
	}
	if a == nil {
		return nil
	}
	return texts(a)
}

// withoutBuild reads a version and writes it without what is not compared.
func withoutBuild(version string) string {
	v := semver.MustParse(version)
	v.Build = nil
	return v.String()
}

// texts writes the values of an attribute with their type.
func texts(a *resourceapi.DeviceAttribute) []string {
	var values []string
	add := func(kind string, of any) { values = append(values, fmt.Sprintf("%s %v", kind, of)) }
	for _, v := range a.StringValues {
		add("string", v)
	}
	for _, v := range a.VersionValues {
		add("version", withoutBuild(v))
	}
	for _, v := range a.IntValues {
		add("int", v)
	}
	for _, v := range a.BoolValues {
		add("bool", v)
	}
	switch {
	case a.StringValue != nil:
		add("string", *a.StringValue)
	case a.VersionValue != nil:
		add("version", withoutBuild(*a.VersionValue))
	case a.IntValue != nil:
		add("int", *a.IntValue)
	case a.BoolValue != nil:
		add("bool", *a.BoolValue)
	}
	return values
}
