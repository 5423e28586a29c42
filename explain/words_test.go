// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/inventory"
)

func TestPool(t *testing.T) {
	for want, problem := range map[string]*inventory.PoolProblem{
		"": nil,
		"pool gpu.example.com/n1: 1 of 2 slices of generation 3 published":                                               {Kind: inventory.Incomplete, Have: 1, Want: 2},
		"pool gpu.example.com/n1: 2 slices of generation 3 published, but resourceSliceCount is 1":                       {Kind: inventory.Incomplete, Have: 2, Want: 1},
		"pool gpu.example.com/n1: 1 of 2 slices of generation 3 published, and node n2 (slice b) publishes generation 9": {Kind: inventory.Superseded, Have: 1, Want: 2, Other: 9, Name: "b", Node: "n2"},
		"pool gpu.example.com/n1: 3 slices of generation 3 published, but resourceSliceCount is 2, and slice b publishes generation 9": {
			Kind: inventory.Superseded, Have: 3, Want: 2, Other: 9, Name: "b",
		},
		"pool gpu.example.com/n1: slices disagree on resourceSliceCount: 2 in a, 3 in b":                                 {Kind: inventory.CountMismatch, Want: 2, Other: 3, Slices: []string{"a", "b"}},
		"pool gpu.example.com/n1: device name gpu-0 published twice, in slices a and b":                                  {Kind: inventory.DuplicateDevice, Name: "gpu-0", Slices: []string{"a", "b"}},
		"pool gpu.example.com/n1: device name gpu-0 published twice, both times in slice a":                              {Kind: inventory.DuplicateDevice, Name: "gpu-0", Slices: []string{"a", "a"}},
		"pool gpu.example.com/n1: counter set card-0 published twice, in slices a and b":                                 {Kind: inventory.DuplicateCounterSet, Name: "card-0", Slices: []string{"a", "b"}},
		"pool gpu.example.com/n1: device gpu-0-1g consumes counter set card-9, which the pool does not have":             {Kind: inventory.MissingCounterSet, Name: "card-9", Device: "gpu-0-1g"},
		"pool gpu.example.com/n1: device gpu-0-1g consumes counter x of counter set card-0, which the set does not have": {Kind: inventory.MissingCounter, Name: "card-0", Counter: "x", Device: "gpu-0-1g"},
		"pool gpu.example.com/n1: slice a has a node selector that is not valid: bad operator":                           {Kind: inventory.BadNodeSelector, Name: "a", Detail: "bad operator"},
	} {
		p := &inventory.Pool{ID: inventory.PoolID{Driver: "gpu.example.com", Pool: "n1"}, Generation: 3, Problem: problem}
		if got := explain.Pool(p); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestRivals(t *testing.T) {
	p := &inventory.Pool{ID: inventory.PoolID{Driver: "gpu.example.com", Pool: "n1"}, Generation: 3}
	if got := explain.Rivals(p); got != "" {
		t.Errorf("a pool of its own: %s", got)
	}
	p.Publishers = []string{"evil", "n1"}
	if got, want := explain.Rivals(p), "pool gpu.example.com/n1: nodes evil and n1 publish slices of this name that do not belong together; devices of the same name are given out only once"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	p.Problem = &inventory.PoolProblem{Kind: inventory.Incomplete, Have: 1, Want: 2}
	if got, want := explain.Pool(p), "pool gpu.example.com/n1: 1 of 2 slices of generation 3 published; nodes evil and n1 publish slices of it"; got != want || explain.Rivals(p) != "" {
		t.Errorf("got  %s%s\nwant %s", got, explain.Rivals(p), want)
	}
}

func TestOutcome(t *testing.T) {
	for want, out := range map[string]alloc.Outcome{
		"": {Result: &alloc.Result{}},
		"gave up after 200000 steps, not known to be impossible": {GaveUp: &alloc.GaveUp{Budget: 200_000}},
		"gpu: needs 5 devices, 4 match": {Refusal: &alloc.Refusal{
			Requests: []alloc.RequestReport{{RequestRef: gpu, Wants: 5, Left: [alloc.Stages]int{4, 4, 4, 4, 4, 4, 4, 4, 4}}},
			Conflict: alloc.Conflict{Kind: alloc.TooFew, Requests: []alloc.RequestRef{gpu}},
		}},
	} {
		if got := explain.Outcome(out, explain.Options{}); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestInput(t *testing.T) {
	for want, err := range map[string]*alloc.InputError{
		`claim ns/c: spec.devices.requests[0].exactly.deviceClassName: device class "x" does not exist; create the class or correct the name`: {
			Object: "claim ns/c", Field: "spec.devices.requests[0].exactly.deviceClassName", Problem: `device class "x" does not exist`, Class: "x",
		},
		"device class gpu: spec.selectors[0].cel.expression: the CEL expression is not valid: compilation failed: ERROR: <input>:1:1: undeclared reference…": {
			Object: "device class gpu", Field: "spec.selectors[0].cel.expression", Problem: "the CEL expression is not valid",
			Err: errors.New("compilation failed: ERROR: <input>:1:1: undeclared reference\n | x\n | ^"),
		},
	} {
		if got := explain.Input(err); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestGroup(t *testing.T) {
	causes := map[string]explain.Cause{"n0": explain.Because("a pool is incomplete")}
	for i := range 12 {
		causes[fmt.Sprintf("gpu-node-%02d", i)] = explain.Because("gpu: needs 1 device, the node has none")
	}
	var got []string
	for _, line := range explain.Group(causes) {
		got = append(got, line.String())
	}
	if diff := cmp.Diff([]string{
		"12 nodes (gpu-node-00, gpu-node-01, gpu-node-02, gpu-node-03 and 8 more): gpu: needs 1 device, the node has none",
		"n0: a pool is incomplete",
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if lines := explain.Group(nil); len(lines) != 0 {
		t.Errorf("lines of no nodes: %v", lines)
	}
}

var gpu = alloc.RequestRef{Claim: "default/c", Request: "gpu"}

// TestVisible: whoever may not see claims of a namespace gets their number.
func TestVisible(t *testing.T) {
	held := &inventory.Device{ID: inventory.DeviceID{Driver: "gpu.example.com", Pool: "n1", Device: "gpu-0"}}
	refusal := &alloc.Refusal{
		Requests: []alloc.RequestReport{{RequestRef: gpu, Wants: 2, All: true, Dropped: map[alloc.Stage][]*inventory.Device{alloc.StageFree: {held}}}},
		Conflict: alloc.Conflict{Kind: alloc.AllUnavailable, Requests: []alloc.RequestRef{gpu}, Devices: []*inventory.Device{held}},
	}
	own := func(namespace string) bool { return namespace == "default" }
	a, b, c := inventory.Holder{Namespace: "default", Claim: "a", UID: "1"}, inventory.Holder{Namespace: "ns", Claim: "b", UID: "2"}, inventory.Holder{Namespace: "ns", Claim: "c", UID: "3"}
	for want, tc := range map[string]struct {
		holders []inventory.Holder
		visible func(string) bool
	}{
		"held by default/a": {[]inventory.Holder{a, a}, own},
		"held by default/a and 1 claim in another namespace": {[]inventory.Holder{a, b}, own},
		"held by 2 claims in other namespaces":               {[]inventory.Holder{b, c}, own},
		"held by default/a, ns/b and ns/c":                   {[]inventory.Holder{a, b, c}, nil},
		"held by another claim":                              {[]inventory.Holder{{}}, own},
	} {
		o := explain.Options{Visible: tc.visible, Holders: func(id inventory.DeviceID) []inventory.Holder {
			if id != held.ID {
				t.Errorf("asked for the holders of %s", id)
			}
			return tc.holders
		}}
		if got, want := explain.Reason(refusal, o), "gpu: a request for all devices matches 2, gpu-0 is "+want; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestSeveralClaims: requests are told apart by their claims where those differ.
func TestSeveralClaims(t *testing.T) {
	other := alloc.RequestRef{Claim: "default/d", Request: "gpu"}
	refusal := &alloc.Refusal{
		Requests: []alloc.RequestReport{{RequestRef: gpu}, {RequestRef: other}},
		Conflict: alloc.Conflict{Kind: alloc.Exhausted, Requests: []alloc.RequestRef{gpu, other}},
	}
	const want = "c/gpu and d/gpu: every combination of devices was tried, none satisfies all constraints"
	if got := explain.Reason(refusal, explain.Options{}); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestSharedGroups: where requests compete for the devices of a group, counts per
// request would mislead.
func TestSharedGroups(t *testing.T) {
	second := alloc.RequestRef{Claim: "default/c", Request: "second"}
	devices := make([]*inventory.Device, 5)
	for i := range devices {
		devices[i] = &inventory.Device{}
	}
	refusal := &alloc.Refusal{
		Requests: []alloc.RequestReport{{RequestRef: gpu, Wants: 3}, {RequestRef: second, Wants: 3}},
		Conflict: alloc.Conflict{
			Kind: alloc.NoMatch, Requests: []alloc.RequestRef{gpu, second}, Attribute: "gpu.example.com/numa", Need: 6,
			Groups: []alloc.ValueGroup{{Value: "0", Counts: []int{5, 5}, Devices: [][]*inventory.Device{devices, devices}}},
		},
	}
	const want = "gpu and second: need 6 devices with the same gpu.example.com/numa, largest group 5 < 6"
	if got := explain.Reason(refusal, explain.Options{}); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestJSON(t *testing.T) {
	refusal, o := refused["counters"].refuse(t)
	text, err := json.MarshalIndent(explain.Describe(refusal, o), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "counters.json", string(text)+"\n")
}

// TestUntold: what there was no time to explain is not passed over in silence.
func TestUntold(t *testing.T) {
	r := &alloc.Refusal{Untold: 7, Conflict: alloc.Conflict{Kind: alloc.Exhausted}}
	if got, want := explain.Details(r, explain.Options{}), "and 7 more of the requests and alternatives, which were not looked at"; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q in it", got, want)
	}
}

// TestGaveUpOn: the reason says what most of the work went into, and whose end it was.
func TestGaveUpOn(t *testing.T) {
	for want, g := range map[string]*alloc.GaveUp{
		"gave up after 200000 steps or as much other work (75% CEL selectors, 20% counting), not known to be impossible": {
			Budget: 200_000, Spent: []alloc.Spent{{On: alloc.Selecting, Work: 75}, {On: alloc.Counting, Work: 20}, {On: alloc.Ranking, Work: 5}},
		},
		"gave up when the time for it was over, not known to be impossible":                      {Stopped: true},
		"gave up when the time for it was over (100% CEL selectors), not known to be impossible": {Stopped: true, Spent: []alloc.Spent{{On: alloc.Selecting, Work: 5}}},
		"not looked at: the search on other nodes used up what one attempt may take":             {Before: true},
	} {
		if got := explain.GaveUp(g); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestBrokenPools: many pools are counted, those of several nodes once.
func TestBrokenPools(t *testing.T) {
	broken := func(first, n int) *alloc.Refusal {
		r := &alloc.Refusal{
			Requests: []alloc.RequestReport{{RequestRef: gpu, Wants: 1}},
			Conflict: alloc.Conflict{Kind: alloc.TooFew, Requests: []alloc.RequestRef{gpu}},
		}
		for i := range n {
			r.Pools = append(r.Pools, &inventory.Pool{
				ID: inventory.PoolID{Driver: "gpu.example.com", Pool: fmt.Sprint("p", first+i)}, Problem: &inventory.PoolProblem{Kind: inventory.Incomplete, Have: 1, Want: 2},
			})
		}
		return r
	}
	for want, refusals := range map[string][]*alloc.Refusal{
		"pool gpu.example.com/p0 offers nothing: 1 of 2 slices of generation 0 published":                 {broken(0, 1), broken(0, 1)},
		"pools p0, p1 and p2 of gpu.example.com offer nothing: 1 of 2 slices published":                   {broken(0, 2), broken(1, 2)},
		"pools p0, p1, p2, p3 and 996 more of gpu.example.com offer nothing: 1 of 2 slices published":     {broken(0, 1000)},
		"pools p0, p1, p2, p3 and 997 more of gpu.example.com offer nothing: 1 of 2 slices published":     {broken(0, 2), broken(1, 1000)},
		"pools p900, p901, p0, p1 and 998 more of gpu.example.com offer nothing: 1 of 2 slices published": {broken(900, 2), broken(0, 1000)},
	} {
		causes := map[string]explain.Cause{}
		for i, r := range refusals {
			causes[fmt.Sprint("n", i)] = explain.CauseOf(r, explain.Options{})
		}
		lines := explain.Group(causes)
		if len(lines) != 1 || !strings.HasSuffix(lines[0].Reason, want) {
			t.Errorf("got %v, want %s", lines, want)
		}
	}
}
