// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario_test

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kerf.dev/kerf/scenario"
	"kerf.dev/kerf/scenario/core"
)

// header makes a story of a script. The script begins in line 3.
const header = "# Test.\n# Source: none.\n"

func tell(t *testing.T, script string) (scenario.Report, error) {
	t.Helper()
	story, err := scenario.Parse("s.txtar", []byte(header+script))
	if err != nil {
		return scenario.Report{}, err
	}
	return story.Run(core.New()), nil
}

// TestMistakes expects mistakes in stories to be answered with file, line, verb
// and what is wrong.
func TestMistakes(t *testing.T) {
	for _, tc := range []struct{ name, script, want string }{
		{"unknown verb", "dance", "s.txtar:3: dance: no such verb; there are: node"},
		{"unclosed quote", "pod 'a", "s.txtar:3: quote is not closed"},
		{"unknown backend", "[moon] check", "s.txtar:3: [moon]: want [core] or [sandbox]"},
		{"only too late", "check\nonly core because x", "s.txtar:4: only: must be the first verb"},
		{"body without verb", "  a: 1 of b", "s.txtar:3: indented line without a verb"},
		{"body of a verb without one", "check\n  a", "s.txtar:4: check: takes no indented lines"},
		{"output without verb", "| a", "s.txtar:3: expected output without a verb"},
		{"output of a verb without one", "check\n| a", "s.txtar:4: check: prints nothing"},
		{"output in pieces", "pods\n| a\n\n| b", "s.txtar:6: pods: expected output must be in one piece"},
		{"verb of the other backend", "restart scheduler", "s.txtar:3: restart: works on sandbox alone; write [sandbox] before it"},
		{"expectation of the other backend", "[sandbox] expect effort a <= 1", "s.txtar:3: expect: works on core alone"},

		{"variable without value", "node n$i", "s.txtar:3: node: no \"for i in ...\" gives $i a value"},
		{"pool without driver", "pool p on n1", "s.txtar:3: pool: p: want: of DRIVER"},
		{"pool without nodes", "pool p of d", "s.txtar:3: pool: p: want one of: on NODE"},
		{"line of a pool", "pool p of d on n1\n  gpu-0", "s.txtar:3: pool: line 4: gpu-0: want a line that begins with counters or device"},
		{"amount", "pool p of d on n1\n  device a uses s x=lots", "s.txtar:3: pool: line 4: device a: x=lots: quantities must match"},
		{"amount without end", "pool p of d on n1\n  device a uses s x=1e-999999999", "s.txtar:3: pool: line 4: device a: x=1e-999999999: is \"1e-999999999\", want an exponent from -100 to 100"},
		{"amount without end in a file", "apply a.yaml\n-- a.yaml --\napiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus: {allocatable: {cpu: 1e-999999999}}", "s.txtar:3: apply: a.yaml: document 1: Node a: line 4: status.allocatable.cpu: is \"1e-999999999\", want an exponent from -100 to 100"},
		{"taint", "pool p of d on n1\n  device a taint broken", "s.txtar:3: pool: line 4: device a: taint \"broken\": want KEY[=VALUE]:EFFECT"},
		{"request", "claim c\n  gpu 1 of x", "s.txtar:3: claim: line 4: gpu: want NAME: before a request"},
		{"count", "claim c\n  gpu: some of x", "s.txtar:3: claim: line 4: gpu: \"some\" is neither a count nor all"},
		{"no request", "claim c", "s.txtar:3: claim: want a request"},
		{"alternatives of nothing", "claim c\n  gpu: 1 of x\n    a: 1 of y", "s.txtar:3: claim: line 5: only below \"NAME: first of\""},
		{"admin alternative", "claim c\n  gpu: first of\n    a: 1 of y admin", "s.txtar:3: claim: line 5: a: an alternative cannot have admin access"},
		{"no such kind", "delete car a", "s.txtar:3: delete: no kind \"car\"; there are: namespace"},
		{"no such object", "delete pod a", "s.txtar:3: delete: no pod a"},
		{"no such file", "apply a.yaml", "s.txtar:3: apply: no file a.yaml in the story"},
		{"unknown field", "apply a.yaml\n-- a.yaml --\napiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {nodes: 1}", "s.txtar:3: apply: a.yaml: document 1: Pod a: error unmarshaling JSON: while decoding JSON: json: unknown field \"nodes\""},
		{"kind that core does not have", "apply a.yaml\n-- a.yaml --\napiVersion: batch/v1\nkind: Job\nmetadata: {name: a}", "s.txtar:3: apply: Job a: core has no batch/v1 Job; begin the story with: only sandbox"},
		{"class for two extended resources", "class a serves x/y serves x/z", "s.txtar:3: class: serves: a class has one extended resource, and a has x/y"},
		{"nothing offered", "node n1 offers", "s.txtar:3: node: offers: want RESOURCE=AMOUNT... after it"},
		{"nothing asked for", "pod a asks", "s.txtar:3: pod: asks: want RESOURCE=AMOUNT... after it"},
		{"misused verb", "condition a", "s.txtar:3: condition: want: CLAIM [REQUEST=]POOL/DEVICE TYPE=STATUS"},
		{"misused expectation", "[core] expect effort a", "s.txtar:3: expect: effort: want: POD <= STEPS"},
		{"clause that is none", "class gpu from x", "s.txtar:3: class: from: want one of of, where, serves, config after the name"},
		{"expectation", "expect luck", "s.txtar:3: expect: want one of: pod pending"},
		{"strategy", "[core] strategy Luck", "s.txtar:3: strategy: no strategy \"Luck\"; there are: [BestFit Spread Listed]"},

		{"no such pod", "expect pod a", "s.txtar:3: expect: pod: no pod a"},
		{"output", "node n1\npods", "s.txtar:4: pods: output differs"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			report, err := tell(t, tc.script)
			if err == nil {
				err = report.Err()
			}
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("error = %v, want it to begin with %s", err, tc.want)
			}
		})
	}
}

func TestHeader(t *testing.T) {
	_, err := scenario.Parse("s.txtar", []byte("# Test.\ncheck\n"))
	if err == nil || !strings.HasPrefix(err.Error(), "s.txtar:1: the story must begin with a comment") {
		t.Errorf("error without a source = %v", err)
	}
	story, err := scenario.Parse("s.txtar", []byte("# Test.\n# Source: none.\nonly sandbox because of  the weather\n"))
	if err != nil {
		t.Fatal(err)
	}
	if story.Title() != "Test." || story.Only != "sandbox" || story.Because != "of the weather" {
		t.Errorf("title %q, only %q because %q", story.Title(), story.Only, story.Because)
	}
	if story.TellableOn("core") || !story.TellableOn("sandbox") {
		t.Error("the story can be told on the wrong backend")
	}
}

// TestUnmet expects all expectations that are not met to be reported, and the
// story to go on behind them but not behind anything else.
func TestUnmet(t *testing.T) {
	report, err := tell(t, `
class gpu of gpu.example.com
node n1
pool p of gpu.example.com on n1
  device gpu-0..1
pod a
  gpu: 1 of gpu
pod b
  gpu: 5 of gpu
expect pod a on n2
expect pod a with p/gpu-1
expect pod a with 2 devices
expect pending a
expect pending b 'the moon'
expect claim a used b
expect claim a usable any
expect free p/gpu-0
expect taken p/gpu-1
expect gone claim a
[core] expect effort a <= 0
[core] expect gave-up a
delete pod c
expect pod a on n3
`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range report.Failures {
		got = append(got, f.Error())
	}
	want := []string{
		"s.txtar:12: expect: pod: a is on n1",
		"s.txtar:13: expect: pod: a has p/gpu-0",
		"s.txtar:14: expect: pod: a has 1 devices: p/gpu-0",
		"s.txtar:15: expect: pending: a is on n1 with p/gpu-0",
		"s.txtar:16: expect: pending: b is pending, but not because of \"the moon\": ",
		"s.txtar:17: expect: claim: a is used by a",
		"s.txtar:18: expect: claim: a is usable on n1",
		"s.txtar:19: expect: free: p/gpu-0 is held by a",
		"s.txtar:20: expect: taken: p/gpu-1 is free",
		"s.txtar:21: expect: gone: a is still there",
		"s.txtar:22: expect: effort: a took ",
		"s.txtar:23: expect: gave-up: a took ",
		"s.txtar:24: delete: no pod c",
	}
	if len(got) != len(want) {
		t.Fatalf("failures:\n%s", strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("failure %d = %s, want %s", i, got[i], want[i])
		}
	}
}

// TestUpdate expects a story to be rewritten with the output of its verbs, and
// nothing else in it to change.
func TestUpdate(t *testing.T) {
	const script = `
node n1   # a comment
pods
| something
| else

# Another comment.
pool p of gpu.example.com on n1

  device gpu-0

counters
pools
[sandbox] why nobody
| stays as it is
check
-- file.yaml --
# Left alone.
`
	const want = `
node n1   # a comment
pods
| POD  NODE  DEVICES

# Another comment.
pool p of gpu.example.com on n1

  device gpu-0

counters
| POOL  SET  COUNTER  FREE  OF
pools
| POOL  GENERATION  DEVICES  TAKEN  PROBLEM
| p     1           1        0      -
[sandbox] why nobody
| stays as it is
check
-- file.yaml --
# Left alone.
`
	report, err := tell(t, script)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Failures) > 0 || len(report.Differences) != 3 {
		t.Errorf("failures %v, differences %v", report.Failures, report.Differences)
	}
	if diff := cmp.Diff(header+want, string(report.Text)); diff != "" {
		t.Errorf("updated story (-want +got):\n%s", diff)
	}
	again, err := tell(t, strings.TrimPrefix(string(report.Text), header))
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Err(); err != nil {
		t.Errorf("the updated story: %v", err)
	}
}

// TestDocumentation expects doc.go to explain the whole language.
func TestDocumentation(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	text := file.Doc.Text()
	for _, usage := range scenario.Usages() {
		if !strings.Contains(text, "\n\t"+usage) {
			t.Errorf("doc.go does not explain: %s", usage)
		}
	}
}
