// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/inventory"
)

// seededRuns is how many worlds a plain `go test` looks at. They are the same in
// every run; `go test -fuzz=FuzzAllocate` looks at others.
const seededRuns = 3000

func TestSeededWorlds(t *testing.T) {
	stats, failures := map[string]int{}, 0
	for seed := range uint64(seededRuns) {
		if len(examine(SeededBytes(seed), stats)) == 0 {
			continue
		}
		if failures++; failures > 3 {
			t.Fatalf("seed %d: and more", seed)
		}
		small := shrink(SeededBytes(seed))
		t.Errorf("seed %d, reduced to []byte(%q):\n%s\n%s", seed, small,
			strings.Join(examine(small, map[string]int{}), "\n"), DescribeWorld(Generate(small, WithAll)))
	}
	t.Logf("of %d worlds: %v", seededRuns, stats)
	for _, outcome := range []string{"result", "refusal"} {
		if stats[outcome] < seededRuns/10 {
			t.Errorf("only %d of %d worlds have a %s; the generator is not balanced", stats[outcome], seededRuns, outcome)
		}
	}
}

// shrink makes the world of the bytes as small as it can, so that the same kind
// of problem stays.
func shrink(data []byte) []byte {
	kind := problemKind(data)
	for before := -1; before != weight(data); {
		before = weight(data)
		for n := len(data) / 2; n > 0; n /= 2 {
			for i := 0; i+n <= len(data); i++ {
				zeroed := slices.Clone(data)
				clear(zeroed[i : i+n])
				for _, smaller := range [][]byte{slices.Delete(slices.Clone(data), i, i+n), zeroed} {
					if weight(smaller) < weight(data) && problemKind(smaller) == kind {
						data = smaller
						break
					}
				}
				if i+n > len(data) {
					break
				}
			}
		}
	}
	return data
}

// weight is less for simpler input.
func weight(data []byte) int {
	n := len(data)
	for _, b := range data {
		if b != 0 {
			n++
		}
	}
	return n
}

// problemKind is the first problem, without what differs between worlds.
func problemKind(data []byte) string {
	problems := examine(data, map[string]int{})
	if len(problems) == 0 {
		return ""
	}
	kind, _, _ := strings.Cut(problems[0], ":")
	return strings.Join(strings.FieldsFunc(kind, func(r rune) bool { return r < 'A' || r > 'z' }), " ")
}

func FuzzAllocate(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(SeededBytes(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if problems := examine(data, map[string]int{}); len(problems) > 0 {
			t.Errorf("%s\n%s", strings.Join(problems, "\n"), DescribeWorld(Generate(data, WithAll)))
		}
	})
}

// examination looks at one world from all sides.
type examination struct {
	*World
	view     *inventory.View
	stats    map[string]int
	problems []string
}

// examine returns what is wrong with the answers for the world of the bytes.
func examine(data []byte, stats map[string]int) []string {
	e := &examination{World: Generate(data, WithAll), stats: stats}
	e.run(data)
	slices.Sort(e.problems)
	return e.problems
}

func (e *examination) run(data []byte) {
	defer func() {
		if r := recover(); r != nil {
			e.fail("panic: %v\n%s", r, debug.Stack())
		}
	}()
	e.view = e.View()
	before := e.inputs()
	listed := e.solve(Listed)
	best := e.solve(BestFit)
	spread := e.solve(Spread)
	if after := e.inputs(); before != after {
		e.fail("Allocate changed its input:\n%s\nbefore:\n%s", after, before)
	}
	e.againstOracle(listed, best, spread)
	if best.Result != nil && listed.Result != nil && best.Result.Cost.Compare(listed.Result.Cost) > 0 {
		e.fail("best fit costs %+v, more than first fit's %+v", best.Result.Cost, listed.Result.Cost)
	}
	for _, out := range []*Outcome{listed, best, spread} {
		if out.Refusal != nil {
			e.checkRefusal(out.Refusal)
		}
	}
	e.giveUp(listed)
	e.arrival(data, best)
}

func (e *examination) fail(format string, args ...any) {
	e.problems = append(e.problems, fmt.Sprintf(format, args...))
}

// inputs is all that Allocate gets, as text.
func (e *examination) inputs() string {
	text, err := json.Marshal([]any{e.Slices, e.Rules, e.Claims, e.Classes, e.Node})
	if err != nil {
		panic(err)
	}
	var use strings.Builder
	for _, p := range e.view.Pools {
		fmt.Fprintf(&use, "\n%v %v %v", p.Pool.ID, p.Use.Free, p.Use.Closed)
		for _, taken := range p.Use.Taken {
			if taken != nil {
				fmt.Fprintf(&use, " %+v", *taken)
			}
		}
		for _, d := range p.Devices {
			fmt.Fprintf(&use, " %v %v", d.Draws, d.Groups)
		}
	}
	return string(text) + use.String()
}

// solve runs one strategy, twice, and verifies what any outcome has to obey.
func (e *examination) solve(strategy Strategy) *Outcome {
	outcome := func() *Outcome {
		problem, err := Compile(e.Claims, e.Class, tableMatcher{}, Options{Strategy: strategy, Containers: e.Containers})
		if err != nil {
			e.fail("%s: Compile: %v", strategy, err)
			return &Outcome{}
		}
		outcome, err := problem.Allocate(e.view)
		if err != nil {
			e.fail("%s: Allocate: %v", strategy, err)
		}
		return &outcome
	}
	first, second := outcome(), outcome()
	if !reflect.DeepEqual(first, second) {
		e.fail("%s: two runs differ:\n%s\n%s", strategy, describeOutcome(first), describeOutcome(second))
	}
	if n := countSet(first.Result != nil, first.Refusal != nil, first.GaveUp != nil); n != 1 {
		e.fail("%s: %d of Result, Refusal and GaveUp are set", strategy, n)
	}
	if first.GaveUp != nil && first.Steps < first.GaveUp.Budget {
		e.fail("%s: gave up after %d of %d steps", strategy, first.Steps, first.GaveUp.Budget)
	}
	if first.Result != nil {
		for _, v := range Check(e.view, e.Claims, e.Class, tableMatcher{}, e.Containers, first.Result.Claims) {
			e.fail("%s: Check: %s\n%s", strategy, v, describeOutcome(first))
		}
		e.checkDevices(strategy, first.Result)
	}
	return first
}

func countSet(conditions ...bool) int {
	n := 0
	for _, c := range conditions {
		if c {
			n++
		}
	}
	return n
}

// checkDevices compares the two forms in which a Result has the devices.
func (e *examination) checkDevices(strategy Strategy, result *Result) {
	for i := range result.Claims {
		var want, got []string
		for _, r := range result.Claims[i].Devices.Results {
			want = append(want, r.Driver+"/"+r.Pool+"/"+r.Device)
		}
		for _, d := range result.Devices[i] {
			got = append(got, d.ID.String())
		}
		if !slices.Equal(got, want) {
			e.fail("%s: Result.Devices has %v, Result.Claims %v", strategy, got, want)
		}
	}
}

// againstOracle compares the outcomes with what trying everything says.
func (e *examination) againstOracle(listed, best, spread *Outcome) {
	outcomes := map[Strategy]*Outcome{Listed: listed, BestFit: best, Spread: spread}
	o := e.oracle(e.Claims)
	first, feasible := o.first()
	if o.exhausted() {
		e.stats["too large"]++
		return
	}
	for strategy, out := range outcomes {
		if out.GaveUp != nil {
			e.stats["gave up"]++
		} else if (out.Result != nil) != feasible {
			e.fail("%s: %s; feasible: %t %s", strategy, describeOutcome(out), feasible, describePicks(first))
		}
	}
	if !feasible {
		e.stats["refusal"]++
		return
	}
	e.stats["result"]++
	if listed.Result != nil {
		if got, want := resultPicks(listed.Result), describePicks(first); got != want {
			e.fail("listed order: got %s, want %s", got, want)
		}
	}
	ranks := o.bestRanks()
	if o.exhausted() {
		return
	}
	for strategy, out := range outcomes {
		if out.Result == nil || strategy == Listed || out.Work > promptWork {
			continue // the stock order prefers devices of earlier requests, and is taken where the best takes long
		}
		if got := e.ranks(out.Result); !slices.Equal(got, ranks) {
			e.fail("%s: alternatives %v, the best are %v", strategy, got, ranks)
		}
	}
}

// resultPicks and describePicks write assignments in the same way.
func resultPicks(result *Result) string {
	var picks []string
	for i := range result.Claims {
		for _, r := range result.Claims[i].Devices.Results {
			picks = append(picks, fmt.Sprintf("%d:%s=%s/%s/%s", i, r.Request, r.Driver, r.Pool, r.Device))
		}
	}
	return strings.Join(picks, " ")
}

func describePicks(assignment []oraclePick) string {
	var picks []string
	for _, p := range assignment {
		picks = append(picks, fmt.Sprintf("%d:%s=%s", p.ask.claim, p.ask.name, p.device.ID))
	}
	return strings.Join(picks, " ")
}

// ranks reads the alternatives that a result chose.
func (e *examination) ranks(result *Result) []int {
	var ranks []int
	for i, claim := range e.Claims {
		for _, request := range claim.Spec.Devices.Requests {
			rank := 0
			for k, sub := range request.FirstAvailable {
				if slices.ContainsFunc(result.Claims[i].Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool {
					return r.Request == request.Name+"/"+sub.Name
				}) {
					rank = k
				}
			}
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// arrival verifies that the order in which objects arrive does not matter.
func (e *examination) arrival(data []byte, want *Outcome) {
	if e.Before != nil {
		return // what came before what is the point there
	}
	order := rand.New(rand.NewPCG(uint64(len(data)), 1))
	problem, err := Compile(e.Claims, e.Class, tableMatcher{}, Options{Containers: e.Containers})
	if err != nil {
		return // reported before
	}
	got, err := problem.Allocate(e.viewOf(e.Inventory(order)))
	if err != nil {
		e.fail("Allocate: %v", err)
	}
	if a, b := describeOutcome(&got), describeOutcome(want); a != b {
		e.fail("the order of arrival matters:\n%s\n%s", a, b)
	}
}

// describeOutcome writes all of an outcome, with IDs instead of devices.
func describeOutcome(out *Outcome) string {
	var text strings.Builder
	fmt.Fprintf(&text, "steps %d", out.Steps)
	switch {
	case out.Result != nil:
		results, err := json.Marshal(out.Result.Claims)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&text, " result %s %+v %s", resultPicks(out.Result), out.Result.Cost, results)
	case out.GaveUp != nil:
		fmt.Fprintf(&text, " gave up %+v", *out.GaveUp)
	case out.Refusal != nil:
		c := out.Refusal.Conflict
		fmt.Fprintf(&text, " refusal %s %v attribute %s need %d have %d limit %d", c.Kind, c.Requests, c.Attribute, c.Need, c.Have, c.Limit)
		for _, g := range c.Groups {
			fmt.Fprintf(&text, " %s:%v", g.Value, g.Counts)
		}
		for _, r := range out.Refusal.Requests {
			fmt.Fprintf(&text, "\n  %v wants %d all %t left %v failed %d errors %+v candidates %v", r.RequestRef, r.Wants, r.All, r.Left, r.Failed, r.SelectorErrors, ids(r.Candidates))
			for stage := range Stage(Stages) {
				if len(r.Dropped[stage]) > 0 {
					fmt.Fprintf(&text, " %d:%v", stage, ids(r.Dropped[stage]))
				}
			}
		}
		for _, p := range out.Refusal.Pools {
			fmt.Fprintf(&text, "\n  pool %s %s", p.ID, p.Problem.Kind)
		}
	}
	return text.String()
}

func ids(devices []*inventory.Device) []inventory.DeviceID {
	var list []inventory.DeviceID
	for _, d := range devices {
		list = append(list, d.ID)
	}
	return list
}

// DescribeWorld writes a world as JSON, one object a line.
func DescribeWorld(w *World) string {
	var text strings.Builder
	line := func(kind string, object any) {
		data, err := json.Marshal(object)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&text, "%s %s\n", kind, data)
	}
	for _, s := range w.Before {
		line("before", map[string]any{s.Name: s.Spec})
	}
	for _, s := range w.Slices {
		line("slice", map[string]any{s.Name: s.Spec})
	}
	for _, r := range w.Rules {
		line("rule", r.Spec)
	}
	for _, c := range w.Held {
		line("held", map[string]any{c.Name: c.Status.Allocation.Devices.Results})
	}
	for _, c := range w.Claims {
		line("claim", map[string]any{c.Name: c.Spec.Devices})
	}
	line("node", w.Node)
	return text.String()
}
