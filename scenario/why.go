// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"fmt"
	"strings"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/selector"
)

// doWhy explains the pod's case anew from the state, for the nodes that the pod
// may go to. It does not ask the scheduler, so it says the same on every backend;
// what the scheduler itself says is a matter of "expect pending".
func doWhy(t *telling, c call) (string, error) {
	name, err := c.name()
	if err != nil {
		return "", err
	}
	state, err := t.state()
	if err != nil {
		return "", err
	}
	lines, err := state.why(name, explain.Details)
	return strings.Join(lines, ""), err
}

// expectWhy reads "POD 'TEXT'...": parts of the reasons in one line per node.
func expectWhy(_ *telling, state *State, c call) error {
	if len(c.words) < 2 {
		return c.misused()
	}
	lines, err := state.why(c.words[0].text, explain.Reason)
	if err != nil {
		return err
	}
	text := strings.Join(lines, "")
	for _, w := range c.words[1:] {
		if !strings.Contains(text, w.text) {
			return unmet("not %q but: %s", w.text, text)
		}
	}
	return nil
}

// why gives a text for each group of nodes that refuse a pod for the same reason.
func (s *State) why(ref string, refusal func(*alloc.Refusal, explain.Options) string) ([]string, error) {
	pod, err := s.pod(ref)
	if err != nil {
		return nil, err
	}
	attempts, err := s.Attempt(pod, Search{Snapshot: s.Inventory().Snapshot(), Matcher: selector.New()})
	if err != nil {
		return []string{inputText(err) + "\n"}, nil
	}
	texts := map[string]string{}
	for i := range attempts {
		a := &attempts[i]
		switch r := a.Outcome.Refusal; {
		case a.Barred != "":
		case r != nil:
			texts[a.Node.Name] = strings.TrimSuffix(refusal(r, a.known()), "\n")
		default:
			texts[a.Node.Name] = a.reason()
		}
	}
	var lines []string
	for _, line := range explain.Group(texts) {
		lines = append(lines, fmt.Sprintf("%s: %s\n", fold(line.Nodes), line.Reason))
	}
	return lines, nil
}

// Reason says in one line why a pod cannot be placed, given the attempts to do
// so, or the error of trying.
func Reason(attempts []Attempt, err error) string {
	if err != nil {
		return inputText(err)
	}
	reasons := map[string]string{}
	for i := range attempts {
		reasons[attempts[i].Node.Name] = attempts[i].reason()
	}
	text := fmt.Sprintf("0/%d nodes are available", len(attempts))
	for _, line := range explain.Group(reasons) {
		text += "; " + line.String()
	}
	return text
}

func inputText(err error) string {
	var bad *alloc.InputError
	if errors.As(err, &bad) {
		return explain.Input(bad)
	}
	return err.Error()
}

func (a *Attempt) reason() string {
	switch {
	case a.Barred != "":
		return a.Barred
	case a.Outcome.Result != nil:
		return "fits"
	}
	return explain.Outcome(a.Outcome, explain.Options{Claims: a.Claims, View: a.view})
}

// known is all that there is to say beyond a refusal, with what would help.
func (a *Attempt) known() explain.Options {
	return explain.Options{
		Holders: a.snapshot.Holders, Claims: a.Claims, View: a.view,
		Remedies: explain.Remedies(a.Outcome.Refusal, a.view, func(changed *inventory.View) bool {
			outcome, err := a.problem.Allocate(changed)
			return err == nil && outcome.Result != nil
		}),
	}
}

func problemText(p *inventory.Pool) string {
	if p.Problem == nil {
		return ""
	}
	return explain.Pool(p)
}
