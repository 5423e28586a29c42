// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/kube/scheduler/podclaim"
)

const notLookedAt = "not looked at: the search on other nodes used up what one attempt may take"

// attempt is what the plugin keeps of the cycle.
func (c *cycle) attempt() *attempt {
	c.t.Helper()
	s, err := stateOf(c.state)
	if err != nil || s == nil {
		c.t.Fatalf("got state %v, error %v", s, err)
	}
	return s.attempt
}

func (r *rig) gaveUp(reason string) float64 {
	r.t.Helper()
	n, err := testutil.GetCounterMetricValue(searchesGaveUp.WithLabelValues(reason))
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// TestPurseEmptiedByOneNode: the other nodes are not looked at, which takes no work.
func TestPurseEmptiedByOneNode(t *testing.T) {
	r := newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), newSlice("n2", newDevice("d1")), newClaim("c"))
	c := r.cycle(newPod("p", "c"))
	r.succeed("PreFilter", c.preFilter())
	purse := c.attempt().purses.attempt
	purse.left.Store(1)
	budget, before := r.gaveUp(reasonBudget), r.gaveUp(reasonNotLookedAt)

	if got := c.filter("n1"); got.Code() != fwk.UnschedulableAndUnresolvable || !strings.HasPrefix(got.Message(), "gave up after ") {
		t.Errorf("n1: got %s: %q", got.Code(), got.Message())
	}
	left := purse.left.Load()
	if left >= 0 {
		t.Errorf("%d is left, want the purse empty", left)
	}
	for range 3 {
		if got := c.filter("n2"); got.Code() != fwk.UnschedulableAndUnresolvable || got.Message() != notLookedAt {
			t.Errorf("n2: got %s: %q", got.Code(), got.Message())
		}
	}
	if got := purse.left.Load(); got != left {
		t.Errorf("%d is left, then %d: nodes that are not looked at take work", left, got)
	}
	if why := purse.gaveUp.Load(); why == nil || !strings.HasPrefix(*why, "gave up after ") {
		t.Errorf("got %v, want the reason of the first node", why)
	}
	if got := r.gaveUp(reasonBudget) - budget; got != 1 {
		t.Errorf("counted %v searches without budget, want 1", got)
	}
	if got := r.gaveUp(reasonNotLookedAt) - before; got != 3 {
		t.Errorf("counted %v searches not begun, want 3", got)
	}
}

// TestPurseSettles: what a search leaves for those on other nodes.
func TestPurseSettles(t *testing.T) {
	r := newRig(t, "")
	for name, tc := range map[string]struct {
		outcome  alloc.Outcome
		unwanted bool
		want     int64
		gaveUp   string // its reason, empty where it did not
	}{
		"an answer":               {outcome: alloc.Outcome{Result: &alloc.Result{}, Work: 7}, want: attemptWork - 7},
		"budget":                  {outcome: alloc.Outcome{GaveUp: &alloc.GaveUp{}, Work: 7}, want: attemptWork - 7, gaveUp: reasonBudget},
		"time":                    {outcome: alloc.Outcome{GaveUp: &alloc.GaveUp{Stopped: true}, Work: 7}, want: noFunds, gaveUp: reasonTime},
		"the caller has enough":   {outcome: alloc.Outcome{GaveUp: &alloc.GaveUp{Stopped: true}, Work: 7}, unwanted: true, want: attemptWork - 7},
		"budget, and then enough": {outcome: alloc.Outcome{GaveUp: &alloc.GaveUp{}, Work: 7}, unwanted: true, want: attemptWork - 7, gaveUp: reasonBudget},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPurse(time.Now(), newFunds(), 0, false)
			counted := map[string]float64{}
			for _, reason := range []string{reasonBudget, reasonTime, reasonNotLookedAt} {
				counted[reason] = r.gaveUp(reason)
			}
			p.settle(tc.outcome, tc.unwanted)
			if got := p.left.Load(); got != tc.want {
				t.Errorf("%d is left, want %d", got, tc.want)
			}
			if gaveUp := p.gaveUp.Load() != nil; gaveUp != (tc.gaveUp != "") {
				t.Errorf("gave up: %t", gaveUp)
			}
			for reason, before := range counted {
				want := 0.0
				if reason == tc.gaveUp {
					want = 1
				}
				if got := r.gaveUp(reason) - before; got != want {
					t.Errorf("counted %v for %s, want %v", got, reason, want)
				}
			}
		})
	}
}

// TestPurseWithoutTime: no search begins when the time of the attempt is over.
func TestPurseWithoutTime(t *testing.T) {
	r := newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), newClaim("c"))
	c := r.cycle(newPod("p", "c"))
	r.succeed("PreFilter", c.preFilter())
	c.attempt().purses.attempt.until = time.Now()
	if got := c.filter("n1"); got.Message() != notLookedAt {
		t.Errorf("got %s: %q", got.Code(), got.Message())
	}
}

// TestDryRunsHaveAPurse: what preemption tries does not begin where its own purse is
// empty, and goes on where that of the attempt is.
func TestDryRunsHaveAPurse(t *testing.T) {
	for name, tc := range map[string]struct {
		attempt, dryRuns int64
		want             fwk.Code
	}{
		"dry runs used theirs up":      {attempt: attemptWork, want: fwk.Unschedulable},
		"the attempt used its own up":  {dryRuns: attemptWork, want: fwk.Success},
		"neither has used all of them": {attempt: attemptWork, dryRuns: attemptWork, want: fwk.Success},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "", newClass(), newClaim("c"), newSlice("n1", newDevice("d1")), used("a", "n1", "d1", "v"), newPod("v"))
			c := r.cycle(newPod("p", "c"))
			r.succeed("PreFilter", c.preFilter())
			purses := c.attempt().purses
			purses.attempt.left.Store(tc.attempt)
			purses.dryRuns().left.Store(tc.dryRuns)
			simulated := c.state.Clone()
			r.succeed("RemovePod", r.plugin.RemovePod(r.ctx, simulated, c.pod, podInfo(t, newPod("v", "a")), nil))
			if got := r.plugin.Filter(r.ctx, simulated, c.pod, nodeInfo("n1")); got.Code() != tc.want {
				t.Errorf("got %s: %s, want %s", got.Code(), got.Message(), tc.want)
			}
			if got := purses.attempt.left.Load(); got != tc.attempt {
				t.Errorf("%d is left of the attempt's %d", got, tc.attempt)
			}
		})
	}
}

// TestGroupSharesFunds: pods of a group are tried in one turn, and so have together
// what a single pod has.
func TestGroupSharesFunds(t *testing.T) {
	r, group := groupRig(t, nil, nil, func() *rig {
		return newRig(t, "", newClass(), newSlice("n1", newDevice("d1")), newClaim("a"), newClaim("b"), newClaim("c"))
	})
	first, second := r.cycle(member("p1", "a")), r.cycle(member("p2", "b"))
	state := inGroup(first, second)
	r.succeed("PreFilter", first.preFilter())
	first.attempt().purses.attempt.left.Store(1)
	if got := first.filter("n1"); !strings.HasPrefix(got.Message(), "gave up after ") {
		t.Errorf("first: got %s: %q", got.Code(), got.Message())
	}
	r.succeed("PreFilter", second.preFilter())
	if got := second.filter("n1"); got.Message() != notLookedAt {
		t.Errorf("second: got %s: %q", got.Code(), got.Message())
	}
	if first.attempt().purses.dryRuns().funds != second.attempt().purses.dryRuns().funds {
		t.Error("dry runs for each pod have funds of their own")
	}

	alone := r.cycle(newPod("p3", "c"))
	r.succeed("PreFilter", alone.preFilter())
	r.succeed("Filter", alone.filter("n1"))

	// Groups whose placements are tried one by one are kept away as well.
	info := groupInfo{group: group, pods: []*v1.Pod{first.pod, second.pod}}
	if _, got := r.plugin.PodGroupPostFilter(r.ctx, state, compositeInfo{info}, nil); got.Code() != fwk.Unschedulable {
		t.Errorf("PodGroupPostFilter: got %s: %s", got.Code(), got.Message())
	}
	for _, c := range []*cycle{first, second} {
		if got := r.cycle(c.pod).preFilter(); !strings.HasPrefix(got.Message(), "the search for devices gave up once and is tried again at ") {
			t.Errorf("%s: got %s: %q", c.pod.Name, got.Code(), got.Message())
		}
	}
}

// compositeInfo is that of a group of groups.
type compositeInfo struct{ groupInfo }

func (compositeInfo) GetType() fwk.EntityKeyType { return fwk.CompositePodGroupKeyType }

// TestGangCountDrawsOnPurse: how many pods of a gang fit is worked out from the same
// purse, and gives up with it.
func TestGangCountDrawsOnPurse(t *testing.T) {
	r := newRig(t, "", newClass(), newSlice("n1", newDevice("d1"), newDevice("d2")), newClaim("a"), newClaim("b"))
	c := r.cycle(newPod("p", "a"))
	r.succeed("PreFilter", c.preFilter())
	a := c.attempt()
	g := &gang{
		followers: [][]*podclaim.Claim{a.wanted}, problems: map[int]*alloc.Problem{0: a.problem},
		compile: func(int) (*alloc.Problem, error) { return a.problem, nil },
	}
	view := a.snapshot.View(newNode("n1"))
	before := a.purses.attempt.left.Load()
	if n, err := g.count(r.ctx, a.purses.attempt, view); err != nil || n != 2 {
		t.Errorf("got %d, error %v", n, err)
	}
	if got := a.purses.attempt.left.Load(); got >= before {
		t.Errorf("%d is left of %d: counting is free", got, before)
	}
	a.purses.attempt.left.Store(0)
	if n, err := g.count(r.ctx, a.purses.attempt, view); err != nil || n != 2 {
		t.Errorf("with an empty purse: got %d, error %v; what nobody refuted counts as fitting", n, err)
	}
	if got := a.purses.attempt.left.Load(); got != 0 || a.purses.attempt.gaveUp.Load() == nil {
		t.Errorf("with an empty purse: %d is left, gave up: %v", got, a.purses.attempt.gaveUp.Load())
	}
}
