// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Holds is a backend that can hold what its parts ask of the API server.
type Holds interface {
	// Hold has the next such request wait when it comes, or a watch keep its events
	// back.
	Hold(Hold) error
	// Held reports whether a request waits, or an event.
	Held(verb, resource string) (bool, error)
	// Release ends a hold. It is an error if nothing has come that could be released.
	Release(verb, resource string, how Release) error
	// Left returns the holds that have not ended: the idle ones, which nothing came for,
	// and those for which something waits.
	Left() (idle, held []Hold)
	// Seen reports whether the scheduler has seen all that there is, and what not.
	Seen() (seen bool, missing string, err error)
}

// Hold is about a request of a part: scheduler, controller, or kube-controller-manager.
type Hold struct {
	Part string
	// Verb and Resource are as RBAC has them: create, pods/binding.
	Verb, Resource string
	// Done has the request wait only when it has been carried out.
	Done bool
	// Saying are texts that the request contains.
	Saying []string
}

// Release says how a hold ends.
type Release string

const (
	// GoOn has the request carried out, or its answer sent.
	GoOn Release = ""
	// TimeOut answers that time is up.
	TimeOut Release = "with timeout"
	// Twice has the request carried out twice, and the second answer sent.
	Twice Release = "twice"
)

func (t *telling) holds() (Holds, error) {
	h, ok := t.backend.(Holds)
	if !ok {
		return nil, fmt.Errorf("%s has no API server whose requests could be held; write [sandbox] before the verb", t.backend.Name())
	}
	return h, nil
}

// doHold reads "hold PART VERB RESOURCE [once done] [saying TEXT...]".
func doHold(t *telling, c call) (string, error) {
	h, err := t.holds()
	if err != nil {
		return "", err
	}
	lead, clauses := cutClauses(c.words, "once", "saying")
	if len(lead) != 3 {
		return "", c.misused()
	}
	hold := Hold{Part: lead[0].text}
	if hold.Verb, hold.Resource, err = apiRequest(lead[1:]); err != nil {
		return "", err
	}
	for _, cl := range clauses {
		switch {
		case cl.keyword == "saying" && len(cl.words) > 0:
			for _, w := range cl.words {
				hold.Saying = append(hold.Saying, w.text)
			}
		case cl.keyword == "once" && len(cl.words) == 1 && cl.words[0].is("done"):
			hold.Done = true
		default:
			return "", c.misused()
		}
	}
	if err := h.Hold(hold); err != nil {
		return "", err
	}
	t.armed = append(t.armed, armedHold{hold, t.at})
	return "", nil
}

// armedHold is a hold and where the story has it.
type armedHold struct {
	hold Hold
	at   step
}

// openHolds are the mistakes of a story that has ended and still holds something, or
// wanted to: with such a hold it does not show what it says.
func (t *telling) openHolds() []error {
	h, ok := t.backend.(Holds)
	if !ok || len(t.armed) == 0 {
		return nil
	}
	idle, held := h.Left()
	var mistakes []error
	for _, one := range idle {
		mistakes = append(mistakes, t.openHold(one, "nothing came that it could hold; is it what the part asks for?"))
	}
	for _, one := range held {
		mistakes = append(mistakes, t.openHold(one, "it is still held at the end; release it"))
	}
	return mistakes
}

func (t *telling) openHold(h Hold, what string) error {
	err := fmt.Errorf("%s %s %s: %s", h.Part, h.Verb, h.Resource, what)
	for _, a := range slices.Backward(t.armed) {
		if reflect.DeepEqual(a.hold, h) {
			return t.story.failure(a.at, err)
		}
	}
	return err
}

// apiVerbs are the verbs of requests, as RBAC has them.
var apiVerbs = []string{"create", "update", "patch", "delete", "deletecollection", "get", "list", "watch"}

// apiRequest reads VERB RESOURCE.
func apiRequest(words []word) (verb, resource string, err error) {
	verb, resource = words[0].text, words[1].text
	if !slices.Contains(apiVerbs, verb) {
		return "", "", fmt.Errorf("%q is no verb of the API; there are: %s", verb, strings.Join(apiVerbs, " "))
	}
	return verb, resource, nil
}

// doRelease reads "release VERB RESOURCE [with timeout|twice]".
func doRelease(t *telling, c call) (string, error) {
	h, err := t.holds()
	if err != nil {
		return "", err
	}
	if len(c.words) < 2 {
		return "", c.misused()
	}
	var rest []string
	for _, w := range c.words[2:] {
		rest = append(rest, w.text)
	}
	how := Release(strings.Join(rest, " "))
	if how != GoOn && how != TimeOut && how != Twice {
		return "", c.misused()
	}
	verb, resource, err := apiRequest(c.words)
	if err != nil {
		return "", err
	}
	return "", h.Release(verb, resource, how)
}

// expectHeld expects a request to wait, whatever else there is.
func expectHeld(t *telling, _ *State, c call) error {
	h, err := t.holds()
	if err != nil {
		return err
	}
	if len(c.words) != 2 {
		return c.misused()
	}
	verb, resource, err := apiRequest(c.words)
	if err != nil {
		return err
	}
	held, err := h.Held(verb, resource)
	if err == nil && !held {
		return unmet("no %s %s waits", verb, resource)
	}
	return err
}

// expectSeen expects the scheduler to have seen all that there is.
func expectSeen(t *telling, _ *State, c call) error {
	h, err := t.holds()
	if err != nil {
		return err
	}
	if len(c.words) > 0 {
		return c.misused()
	}
	seen, missing, err := h.Seen()
	if err == nil && !seen {
		return unmet("the scheduler has not seen the latest %s", missing)
	}
	return err
}

// doAnnotate reads "annotate CLAIM KEY=VALUE...". It waits for nothing: it is for
// claims that somebody else is about to write.
func doAnnotate(t *telling, c call) (string, error) {
	if len(c.words) < 2 {
		return "", c.misused()
	}
	state, err := t.backend.State()
	if err != nil {
		return "", err
	}
	claim, err := state.claim(c.words[0].text)
	if err != nil {
		return "", err
	}
	set, err := settings(c.words[1:])
	if err != nil {
		return "", err
	}
	claim = claim.DeepCopy()
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	for _, s := range set {
		claim.Annotations[s.key] = s.value
	}
	return "", t.apply("claim", claim)
}
