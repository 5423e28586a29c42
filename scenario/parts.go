// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"fmt"
)

// Parts is a backend whose parts can be killed and cut off. A part is scheduler,
// controller, redfish or driver; a driver is one on a node, where has the node.
type Parts interface {
	// Kill ends a part as a crash does, Start starts it without memory.
	Kill(part, where string) error
	Start(part, where string) error
	// Disconnect cuts a part off from the API server, until Reconnect.
	Disconnect(part string) error
	Reconnect(part string) error
}

// Waiter is a backend in which time passes.
type Waiter interface {
	// Wait asks again and again until it is done or fails, or until it has taken too
	// long.
	Wait(done func() (bool, error)) error
	// ReasonNow is what the scheduler has said so far about a pod that has no node.
	ReasonNow(namespace, pod string) (string, error)
}

// onParts reads "PART [NODE...]" and does something to each.
func onParts(do func(p Parts, part, where string) error) func(*telling, call) (string, error) {
	return func(t *telling, c call) (string, error) {
		parts, ok := t.backend.(Parts)
		if !ok {
			return "", fmt.Errorf("%s has no parts that could be killed; write [sandbox] before the verb", t.backend.Name())
		}
		if len(c.words) == 0 {
			return "", c.misused()
		}
		part := c.words[0].text
		nodes, err := expandWords(c.words[1:])
		if err != nil {
			return "", err
		}
		if (part == "driver") != (len(nodes) > 0) {
			return "", c.misused()
		}
		if len(nodes) == 0 {
			return "", do(parts, part, "")
		}
		for _, node := range nodes {
			err = errors.Join(err, do(parts, part, node))
		}
		return "", err
	}
}

const partUsage = "scheduler|controller|redfish|driver NODE..."

func disconnectPart(p Parts, part, _ string) error { return p.Disconnect(part) }

func reconnectPart(p Parts, part, _ string) error { return p.Reconnect(part) }

func restartPart(p Parts, part, where string) error {
	if err := p.Kill(part, where); err != nil {
		return err
	}
	return p.Start(part, where)
}

// doAwait waits until an expectation is met, whatever else moves. Where no time passes it
// is met when nothing moves, or never.
func doAwait(t *telling, c call) (string, error) {
	waiter, ok := t.backend.(Waiter)
	if !ok {
		return doExpect(t, c)
	}
	e, err := expectationFor(c)
	if err != nil {
		return "", err
	}
	t.awaiting = true
	defer func() { t.awaiting = false }()
	var missing *unmetError
	err = waiter.Wait(func() (bool, error) {
		missing = nil
		state, err := t.backend.State()
		if err != nil {
			return false, err
		}
		err = e.met(t, state, call{usage: e.usage, words: c.words[1:]})
		if errors.As(err, &missing) {
			return false, nil
		}
		return true, err
	})
	if missing != nil {
		return "", unmet("%s: %s, and that did not change", e.noun, missing.text)
	}
	return "", err
}

// reason is what the scheduler last said about a pod: when all is settled, or up to now
// while a story awaits something.
func (t *telling) reason(namespace, pod string) (string, error) {
	if waiter, ok := t.backend.(Waiter); ok && t.awaiting {
		return waiter.ReasonNow(namespace, pod)
	}
	return t.backend.Reason(namespace, pod)
}
