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
	pod, err := state.pod(name)
	if err != nil {
		return "", err
	}
	attempts, err := state.Attempt(pod, Search{Snapshot: state.Inventory().Snapshot(), Matcher: selector.New()})
	if err != nil {
		return inputText(err) + "\n", nil
	}
	texts := map[string]string{}
	for i := range attempts {
		if attempts[i].Barred == "" {
			texts[attempts[i].Node.Name] = attempts[i].details()
		}
	}
	var b strings.Builder
	for _, line := range explain.Group(texts) {
		fmt.Fprintf(&b, "%s: %s\n", fold(line.Nodes), strings.TrimSuffix(line.Reason, "\n"))
	}
	return b.String(), nil
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

// reason is one line, details are several.
func (a *Attempt) reason() string {
	switch {
	case a.Barred != "":
		return a.Barred
	case a.Outcome.Result != nil:
		return "fits"
	}
	return explain.Outcome(a.Outcome, a.known())
}

func (a *Attempt) details() string {
	if a.Outcome.Refusal == nil {
		return a.reason()
	}
	return explain.Details(a.Outcome.Refusal, a.known())
}

// known is what there is to say beyond the outcome.
func (a *Attempt) known() explain.Options {
	o := explain.Options{Holders: a.snapshot.Holders, Claims: a.Claims, View: a.view}
	if a.Outcome.Refusal != nil {
		o.Remedies = explain.Remedies(a.Outcome.Refusal, a.view, func(changed *inventory.View) bool {
			outcome, err := a.problem.Allocate(changed)
			return err == nil && outcome.Result != nil
		})
	}
	return o
}

func problemText(p *inventory.Pool) string {
	if p.Problem == nil {
		return ""
	}
	return explain.Pool(p)
}
