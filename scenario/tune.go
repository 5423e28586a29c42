// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"strconv"
)

// tuner returns the backend's allocator, if the backend lets stories near it.
func (t *telling) tuner() (Tuner, error) {
	tuner, ok := t.backend.(Tuner)
	if !ok {
		return nil, fmt.Errorf("%s hides its allocator; write [core] before the verb", t.backend.Name())
	}
	return tuner, nil
}

func doBudget(t *telling, c call) (string, error) {
	text, err := c.name()
	if err != nil {
		return "", err
	}
	steps, err := strconv.Atoi(text)
	if err != nil || steps < 0 {
		return "", fmt.Errorf("%q is not a number of steps", text)
	}
	tuner, err := t.tuner()
	if err != nil {
		return "", err
	}
	tuner.SetBudget(steps)
	return "", nil
}

func doStrategy(t *telling, c call) (string, error) {
	name, err := c.name()
	if err != nil {
		return "", err
	}
	tuner, err := t.tuner()
	if err != nil {
		return "", err
	}
	return "", tuner.SetStrategy(name)
}

// expectEffort reads "POD <= STEPS".
func expectEffort(t *telling, _ *State, c call) error {
	if len(c.words) != 3 || !c.words[1].is("<=") {
		return c.misused()
	}
	limit, err := strconv.Atoi(c.words[2].text)
	if err != nil {
		return fmt.Errorf("%q is not a number of steps", c.words[2].text)
	}
	effort, err := t.effort(c.words[0].text)
	if err != nil {
		return err
	}
	if effort.Steps > limit {
		return unmet("%s took %d steps", c.words[0].text, effort.Steps)
	}
	return nil
}

func expectGaveUp(t *telling, _ *State, c call) error {
	for _, w := range c.words {
		effort, err := t.effort(w.text)
		if err != nil {
			return err
		}
		if !effort.GaveUp {
			return unmet("%s took %d steps and did not give up", w.text, effort.Steps)
		}
	}
	return nil
}

func (t *telling) effort(ref string) (Effort, error) {
	tuner, err := t.tuner()
	if err != nil {
		return Effort{}, err
	}
	namespace, name := splitRef(ref)
	return tuner.Effort(namespace, name)
}
