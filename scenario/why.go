// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"strings"

	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/selector"
	"kerf.dev/kerf/show"
	"kerf.dev/kerf/simulate"
)

// doWhy prints what "kerf explain" says about a pod. It goes by the state alone
// and does not ask the scheduler, so it says the same on every backend; what the
// scheduler itself says is a matter of "expect pending".
func doWhy(t *telling, c call) (string, error) {
	name, err := c.name()
	if err != nil {
		return "", err
	}
	state, err := t.state()
	if err != nil {
		return "", err
	}
	explained, err := state.why(name)
	return explained.Text(), err
}

// expectWhy reads "POD 'TEXT'...": parts of what "kerf explain" says, or of the one
// line that it has for each node.
func expectWhy(_ *telling, state *State, c call) error {
	if len(c.words) < 2 {
		return c.misused()
	}
	explained, err := state.why(c.words[0].text)
	if err != nil {
		return err
	}
	text := explained.Text()
	for _, wait := range explained.Waits {
		if wait.Refusal != nil {
			text += wait.Refusal.Reason + "\n"
		}
	}
	for _, w := range c.words[1:] {
		if !strings.Contains(text, w.text) {
			return unmet("not %q but: %s", w.text, text)
		}
	}
	return nil
}

func (s *State) why(ref string) (show.PodState, error) {
	pod, err := s.pod(ref)
	if err != nil {
		return show.PodState{}, err
	}
	world := &show.World{World: simulate.NewWorld(&s.Objects, simulate.Options{Matcher: selector.New()})}
	explained, err := world.Pod(pod)
	explained.Scheduler = ""
	return explained, err
}

func problemText(p *inventory.Pool) string {
	if p.Problem == nil {
		return ""
	}
	return explain.Pool(p)
}
