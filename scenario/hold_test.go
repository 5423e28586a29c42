// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kerf.dev/kerf/scenario"
	"kerf.dev/kerf/scenario/core"
)

// gatekeeper is core with an API server in front of it that notes what it is to hold.
type gatekeeper struct {
	scenario.Backend
	heard []string
	left  []scenario.Hold
}

func (g *gatekeeper) Name() string { return "sandbox" }

func (g *gatekeeper) Hold(h scenario.Hold) error {
	g.heard = append(g.heard, fmt.Sprintf("hold %s %s %s %v %q", h.Part, h.Verb, h.Resource, h.Done, h.Saying))
	g.left = append(g.left, h)
	return nil
}

func (g *gatekeeper) Held(verb, _ string) (bool, error) { return verb == "create", nil }

func (g *gatekeeper) Release(verb, resource string, how scenario.Release) error {
	g.heard = append(g.heard, fmt.Sprintf("release %s %s %q", verb, resource, how))
	g.left = slices.DeleteFunc(g.left, func(h scenario.Hold) bool { return h.Verb == verb && h.Resource == resource })
	return nil
}

// Left: what creates has come, and nothing else.
func (g *gatekeeper) Left() (idle, held []scenario.Hold) {
	for _, h := range g.left {
		if h.Verb == "create" {
			held = append(held, h)
		} else {
			idle = append(idle, h)
		}
	}
	return idle, held
}

func (g *gatekeeper) Seen() (bool, string, error) { return false, "pods", nil }

func (g *gatekeeper) Wait(done func() (bool, error)) error {
	_, err := done()
	return err
}

func (g *gatekeeper) ReasonNow(_, pod string) (string, error) {
	return pod + " has no devices yet", nil
}

func guard(t *testing.T, script string) (*gatekeeper, error) {
	t.Helper()
	story, err := scenario.Parse("s.txtar", []byte(header+"only sandbox because core has no API server\n"+script))
	if err != nil {
		t.Fatal(err)
	}
	g := &gatekeeper{Backend: core.New()}
	return g, story.Run(g).Err()
}

func TestHolds(t *testing.T) {
	g, err := guard(t, `
hold scheduler create pods/binding
await held create pods/binding
release create pods/binding
hold controller patch pods/status once done saying 'the claim' 'once'
release patch pods/status with timeout
release patch pods/status twice
`)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`hold scheduler create pods/binding false []`,
		`release create pods/binding ""`,
		`hold controller patch pods/status true ["the claim" "once"]`,
		`release patch pods/status "with timeout"`,
		`release patch pods/status "twice"`,
	}
	if diff := cmp.Diff(want, g.heard); diff != "" {
		t.Errorf("heard (-want +got):\n%s", diff)
	}
}

func TestMisusedHolds(t *testing.T) {
	for script, want := range map[string]string{
		"hold scheduler create":                    "hold: want: scheduler|controller|kube-controller-manager VERB RESOURCE",
		"hold scheduler create pods once":          "hold: want: scheduler|controller|kube-controller-manager VERB RESOURCE",
		"hold scheduler create pods once more":     "hold: want: scheduler|controller|kube-controller-manager VERB RESOURCE",
		"hold scheduler create pods saying":        "hold: want: scheduler|controller|kube-controller-manager VERB RESOURCE",
		"hold scheduler creates pods":              "hold: \"creates\" is no verb of the API; there are: create update",
		"release bind pods":                        "release: \"bind\" is no verb of the API",
		"await held binding pods":                  "await: \"binding\" is no verb of the API",
		"release create":                           "release: want: VERB RESOURCE [with timeout|twice]",
		"release create pods with care":            "release: want: VERB RESOURCE [with timeout|twice]",
		"expect held create":                       "expect: held: want: VERB RESOURCE",
		"expect held update pods":                  "expect: held: no update pods waits",
		"await held update pods":                   "await: held: no update pods waits, and that did not change",
		"expect seen":                              "expect: seen: the scheduler has not seen the latest pods",
		"expect seen pods":                         "expect: seen: want: ",
		"annotate a":                               "annotate: want: CLAIM KEY=VALUE...",
		"annotate a b=c":                           "annotate: no claim a",
		"claim a\n  g: 1 of gpu\nannotate a empty": "annotate: \"empty\": want KEY=VALUE",
	} {
		_, err := guard(t, script)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", script, err, want)
		}
	}
}

// TestAwaitPending: what is awaited is what the scheduler has said so far.
func TestAwaitPending(t *testing.T) {
	if _, err := guard(t, "pod p\n  g: 1 of gpu\nawait pending p 'no devices' 'yet'\n"); err != nil {
		t.Error(err)
	}
	_, err := guard(t, "pod p\n  g: 1 of gpu\nawait pending p 'a quota'\n")
	if want := `await: pending: p is pending, but not because of "a quota": p has no devices yet, and that did not change`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}

// TestOpenHolds: a story that ends with a hold does not show what it says.
func TestOpenHolds(t *testing.T) {
	_, err := guard(t, "hold scheduler create pods saying a\nhold controller update pods/status\nhold scheduler create pods saying b\nexpect held create pods\n")
	want := strings.Join([]string{
		"s.txtar:5: hold: controller update pods/status: nothing came that it could hold; is it what the part asks for?",
		"s.txtar:4: hold: scheduler create pods: it is still held at the end; release it",
		"s.txtar:6: hold: scheduler create pods: it is still held at the end; release it",
	}, "\n")
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	_, err = guard(t, "hold scheduler create pods\nclass\n")
	if err == nil || strings.Contains(err.Error(), "at the end") {
		t.Errorf("error of a story that was broken off: %v", err)
	}
}

// TestAnnotate: the change stays, and so does all else.
func TestAnnotate(t *testing.T) {
	story, err := scenario.Parse("s.txtar", []byte(header+"class gpu of gpu.example.com\nclaim a\n  g: 1 of gpu\nannotate a by=somebody\nannotate a for=nothing\n"))
	if err != nil {
		t.Fatal(err)
	}
	b := core.New()
	if err := story.Run(b).Err(); err != nil {
		t.Fatal(err)
	}
	state, err := b.State()
	if err != nil {
		t.Fatal(err)
	}
	claim := state.Claim("default", "a")
	if diff := cmp.Diff(map[string]string{"by": "somebody", "for": "nothing"}, claim.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if len(claim.Spec.Devices.Requests) != 1 {
		t.Error("the claim asks for something else")
	}
}
