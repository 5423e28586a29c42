// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/inventory"
)

// checkRefusal verifies that the conflict is one, and minimal: its requests
// cannot be satisfied together, but without any one of them they can.
func (e *examination) checkRefusal(refusal *Refusal) {
	named := map[string]bool{}
	for _, ref := range refusal.Conflict.Requests {
		parent, _, _ := strings.Cut(ref.Request, "/")
		named[ref.Claim+" "+parent] = true
	}
	if len(named) == 0 {
		e.fail("the conflict %+v names no request", refusal.Conflict)
	}
	feasible := func(keep map[string]bool) (yes, known bool) {
		o := e.oracle(only(e.Claims, keep))
		_, yes = o.first()
		return yes, !o.exhausted()
	}
	if yes, known := feasible(named); yes && known {
		e.fail("the requests %v of the conflict %s can be satisfied together", keys(named), refusal.Conflict.Kind)
	}
	for _, out := range keys(named) {
		rest := map[string]bool{}
		for name := range named {
			rest[name] = name != out
		}
		if yes, known := feasible(rest); !yes && known {
			e.fail("the conflict %s of %v is not minimal: %s is not needed", refusal.Conflict.Kind, keys(named), out)
		}
	}
	if c := refusal.Conflict; slices.Contains([]ConflictKind{TooFew, NoMatch, NotDistinct, Shared}, c.Kind) && c.Have >= max(c.Need, 1) && e.Features&WithAlternatives == 0 {
		e.fail("the conflict %s says that %d of %d can be had", c.Kind, c.Have, c.Need)
	}
	if len(named) > 1 {
		e.stats["conflict "+string(refusal.Conflict.Kind)]++
	}
	e.checkReports(refusal)
}

// checkReports works out each funnel anew.
func (e *examination) checkReports(refusal *Refusal) {
	o := e.oracle(e.Claims)
	asks := slices.Concat(o.requests...)
	if len(refusal.Requests) != len(asks) {
		e.fail("a refusal has %d reports for %d requests and alternatives", len(refusal.Requests), len(asks))
		return
	}
	for i, ask := range asks {
		report := &refusal.Requests[i]
		claim := e.Claims[ask.claim]
		if want := (RequestRef{claim.Namespace + "/" + claim.Name, ask.name}); report.RequestRef != want {
			e.fail("report %d is of %v, not of %v", i, report.RequestRef, want)
			continue
		}
		e.checkFunnel(o, ask, report)
	}
}

func (e *examination) checkFunnel(o *oracle, ask *oracleAsk, report *RequestReport) {
	var left [Stages]int
	dropped := map[Stage][]*inventory.Device{}
	for i := range e.view.Pools {
		for _, d := range e.view.Pools[i].Devices {
			if e.view.Pools[i].Pool.Problem != nil {
				continue
			}
			failed := o.stage(oraclePick{ask, &e.view.Pools[i], d})
			for stage := range failed {
				left[stage]++
			}
			if failed >= StageFree && failed <= StageNode {
				dropped[failed] = append(dropped[failed], d)
			}
		}
	}
	if left != report.Left {
		e.fail("the funnel of %v has %v left, not %v", report.RequestRef, report.Left, left)
	}
	for stage := StageFree; stage <= StageNode; stage++ {
		if !slices.Equal(report.Dropped[stage], dropped[stage]) {
			e.fail("%v drops %v at stage %d, not %v", report.RequestRef, ids(report.Dropped[stage]), stage, ids(dropped[stage]))
		}
	}
	failed := NoStage
	for stage := StageConstraints; stage >= StageDevices; stage-- {
		if left[stage] < max(report.Wants, 1) {
			failed = stage
		}
	}
	if failed != report.Failed {
		e.fail("%v fails at stage %d, not %d: %v left of %d", report.RequestRef, report.Failed, failed, left, report.Wants)
	}
}

// stage returns the first stage that a device does not pass on its own, or
// Stages.
func (o *oracle) stage(p oraclePick) Stage {
	classOnly := *p.ask
	classOnly.spec.Selectors = nil
	alone := []oraclePick{p}
	switch {
	case !o.matches(&classOnly, p.device):
		return StageClass
	case !o.matches(p.ask, p.device):
		return StageSelector
	case !o.free(p):
		return StageFree
	case !o.tolerates(p.ask, p.device):
		return StageTaints
	case !o.withinCounters(alone) || !o.withinGroups(alone):
		return StageCounters
	case o.amounts(p.ask, p.device) == nil || !o.withinCapacity(alone):
		return StageCapacity
	case !o.withinNode(alone):
		return StageNode
	case !o.withinConstraints(alone):
		return StageConstraints
	}
	return Stage(Stages)
}

func keys(set map[string]bool) []string {
	var list []string
	for key := range set {
		list = append(list, key)
	}
	slices.Sort(list)
	return list
}

// only returns the claims with nothing but the requests to keep, named
// "ns/claim request". Constraints are for those of their requests that stay.
func only(claims []*resourceapi.ResourceClaim, keep map[string]bool) []*resourceapi.ResourceClaim {
	var kept []*resourceapi.ResourceClaim
	for _, claim := range claims {
		claim = claim.DeepCopy()
		stays := func(request string) bool {
			parent, _, _ := strings.Cut(request, "/")
			return keep[claim.Namespace+"/"+claim.Name+" "+parent]
		}
		spec := &claim.Spec.Devices
		spec.Requests = slices.DeleteFunc(spec.Requests, func(r resourceapi.DeviceRequest) bool { return !stays(r.Name) })
		spec.Constraints = slices.DeleteFunc(spec.Constraints, func(c resourceapi.DeviceConstraint) bool {
			return len(c.Requests) > 0 && !slices.ContainsFunc(c.Requests, stays)
		})
		if len(spec.Requests) > 0 {
			kept = append(kept, claim)
		}
	}
	return kept
}

// giveUp gives the search almost nothing to spend. It may find an answer or give
// up, but must not call impossible what is possible.
func (e *examination) giveUp(full *Outcome) {
	if full.GaveUp != nil {
		return
	}
	for budget := 1; budget <= 3; budget++ {
		for _, strategy := range []Strategy{Listed, BestFit} {
			problem, err := Compile(e.Claims, e.Class, tableMatcher{}, Options{Strategy: strategy, StepBudget: budget, Containers: e.Containers})
			if err != nil {
				return // reported before
			}
			out, err := problem.Allocate(e.view)
			switch {
			case err != nil:
				e.fail("%s with %d steps: %v", strategy, budget, err)
			case out.GaveUp != nil && out.GaveUp.Budget != budget:
				e.fail("%s gives up after a budget of %d, not %d", strategy, out.GaveUp.Budget, budget)
			case out.GaveUp != nil && out.Steps != budget:
				e.fail("%s gives up after %d of %d steps", strategy, out.Steps, budget)
			case out.GaveUp == nil && (out.Result != nil) != (full.Result != nil):
				e.fail("%s says something else with %d steps: %s", strategy, budget, describeOutcome(&out))
			case out.Result != nil:
				for _, v := range Check(e.view, e.Claims, e.Class, tableMatcher{}, e.Containers, out.Result.Claims) {
					e.fail("%s with %d steps: Check: %s", strategy, budget, v)
				}
			}
		}
	}
	e.giveUpWork(full)
}

// giveUpWork ends the work at many places. What is cut short must not be taken for a
// proof, and nothing may take much more than it was given.
func (e *examination) giveUpWork(full *Outcome) {
	for _, strategy := range []Strategy{Listed, BestFit} {
		problem, err := Compile(e.Claims, e.Class, tableMatcher{}, Options{Strategy: strategy, Containers: e.Containers})
		if err != nil {
			return // reported before
		}
		whole, err := problem.Allocate(e.view)
		if err != nil {
			e.fail("%s: %v", strategy, err)
			return
		}
		for part := int64(1); part < 64; part *= 2 {
			work := whole.Work * part / 64
			out, err := problem.Within(work, nil).Allocate(e.view)
			switch {
			case err != nil:
				e.fail("%s with %d units of work: %v", strategy, work, err)
			case out.GaveUp == nil && (out.Result != nil) != (full.Result != nil):
				e.fail("%s says something else with %d of %d units of work: %s", strategy, work, whole.Work, describeOutcome(&out))
			case out.Work > work+overrun+3*leastExplaining:
				e.fail("%s takes %d units of work instead of %d", strategy, out.Work, work)
			case out.GaveUp != nil && len(out.GaveUp.Spent) == 0:
				e.fail("%s gives up after %d units of work and does not say what they went into", strategy, work)
			case out.Result != nil:
				for _, v := range Check(e.view, e.Claims, e.Class, tableMatcher{}, e.Containers, out.Result.Claims) {
					e.fail("%s with %d units of work: Check: %s", strategy, work, v)
				}
			}
		}
	}
}

// overrun is the work that goes unnoticed until somebody looks what is left, on nodes as
// small as those of the tests.
const overrun = 500_000
