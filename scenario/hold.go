// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
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
	// Seen reports whether the scheduler has seen all that there is, and what not.
	Seen() (seen bool, missing string, err error)
}

// Hold is about a request of a part, scheduler or controller.
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
	hold := Hold{Part: lead[0].text, Verb: lead[1].text, Resource: lead[2].text}
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
	return "", h.Hold(hold)
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
	return "", h.Release(c.words[0].text, c.words[1].text, how)
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
	verb, resource := c.words[0].text, c.words[1].text
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
