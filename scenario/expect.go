// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"kerf.dev/kerf/claim"
)

// expectation is a noun that "expect" can say something about.
type expectation struct {
	noun, usage string
	// on is the one backend that can tell, empty for all.
	on string
	// met returns an unmetError where the expectation is not met.
	met func(*telling, *State, call) error
}

func expectations() []expectation {
	return []expectation{
		{noun: "pod", usage: "POD... [on NODE...] [with DEVICE...|with N devices] [holding DEVICE...]", met: expectPod},
		{noun: "pending", usage: "POD... ['TEXT']...", met: expectPending},
		{noun: "why", usage: "POD 'TEXT'...", met: expectWhy},
		{noun: "claim", usage: "CLAIM... [with DEVICE...] [usable NODE...|any] [used POD...]", met: expectClaim},
		{noun: "free", usage: "DEVICE...", met: expectFree},
		{noun: "taken", usage: "DEVICE...", met: expectTaken},
		{noun: "gone", usage: "pod|claim NAME...", met: expectGone},
		{noun: "dated", usage: "CLAIM...", met: expectDated},
		{noun: "held", usage: "VERB RESOURCE", on: "sandbox", met: expectHeld},
		{noun: "seen", on: "sandbox", met: expectSeen},
		{noun: "attachment", usage: "CLAIM|DEVICE PHASE|none [DEVICE...]", on: "sandbox", met: expectAttachment},
		{noun: "host", usage: "HOST sees DEVICE...|nothing", on: "sandbox", met: expectHost},
		{noun: "shelf", usage: "DEVICE...|nothing", on: "sandbox", met: expectShelf},
		{noun: "offered", usage: "DEVICE...|N devices|nothing", on: "sandbox", met: expectOffered},
		{noun: "model", usage: "FABRIC/MODEL DEVICE...|nothing ['TEXT']...", on: "sandbox", met: expectModel},
		{noun: "effort", usage: "POD <= STEPS", on: "core", met: expectEffort},
		{noun: "gave-up", usage: "POD...", on: "core", met: expectGaveUp},
	}
}

func doExpect(t *telling, c call) (string, error) {
	e, err := expectationFor(c)
	if err != nil {
		return "", err
	}
	state, err := t.state()
	if err != nil {
		return "", err
	}
	if err := e.met(t, state, call{usage: e.usage, words: c.words[1:]}); err != nil {
		return "", fmt.Errorf("%s: %w", e.noun, err)
	}
	return "", nil
}

// expectationFor finds the expectation that the first word names.
func expectationFor(c call) (expectation, error) {
	var nouns []string
	for _, e := range expectations() {
		nouns = append(nouns, e.noun)
		if len(c.words) > 0 && c.words[0].is(e.noun) {
			return e, nil
		}
	}
	return expectation{}, fmt.Errorf("want one of: %s", strings.Join(nouns, " "))
}

func expectPod(t *telling, state *State, c call) error {
	lead, clauses := cutClauses(c.words, "on", "with", "holding")
	names, err := expandWords(lead)
	if err != nil {
		return err
	}
	for _, name := range names {
		pod, err := state.pod(name)
		if err != nil {
			return unmet("%s", err)
		}
		if pod.Spec.NodeName == "" {
			reason, err := t.reason(pod.Namespace, pod.Name)
			if err != nil {
				return err
			}
			return unmet("%s is pending: %s", name, reason)
		}
		for _, cl := range clauses {
			if err := t.podMatches(state, pod, cl); err != nil {
				return err
			}
		}
	}
	return nil
}

// podMatches compares where a pod is and what it has with a clause.
func (t *telling) podMatches(state *State, pod *v1.Pod, c clause) error {
	want, err := c.names()
	if err != nil {
		return err
	}
	if c.keyword == "on" {
		if !slices.Contains(want, pod.Spec.NodeName) {
			return unmet("%s is on %s", pod.Name, pod.Spec.NodeName)
		}
		return nil
	}
	if c.keyword == "holding" {
		got, err := t.holding(state, state.claimsOf(pod))
		if err != nil {
			return err
		}
		return sameNames(pod.Name+" holds", want, got)
	}
	got := devicesOf(state.claimsOf(pod))
	if len(want) == 2 && strings.TrimSuffix(want[1], "s") == "device" {
		if want[0] != fmt.Sprint(len(got)) {
			return unmet("%s has %d devices: %s", pod.Name, len(got), fold(got))
		}
		return nil
	}
	return sameNames(pod.Name+" has", want, got)
}

// sameNames compares two sets of names.
func sameNames(subject string, want, got []string) error {
	got = slices.Sorted(slices.Values(got))
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(want, got) {
		return unmet("%s %s", subject, fold(got))
	}
	return nil
}

func expectPending(t *telling, state *State, c call) error {
	var texts []string
	var named []word
	for _, w := range c.words {
		if w.quoted {
			texts = append(texts, w.text)
		} else {
			named = append(named, w)
		}
	}
	names, err := expandWords(named)
	if err != nil {
		return err
	}
	for _, name := range names {
		pod, err := state.pod(name)
		if err != nil {
			return unmet("%s", err)
		}
		if pod.Spec.NodeName != "" {
			return unmet("%s is on %s with %s", name, pod.Spec.NodeName, fold(devicesOf(state.claimsOf(pod))))
		}
		reason, err := t.reason(pod.Namespace, pod.Name)
		if err != nil {
			return err
		}
		for _, text := range texts {
			if !strings.Contains(reason, text) {
				return unmet("%s is pending, but not because of %q: %s", name, text, reason)
			}
		}
	}
	return nil
}

func expectClaim(_ *telling, state *State, c call) error {
	lead, clauses := cutClauses(c.words, "with", "usable", "used")
	names, err := expandWords(lead)
	if err != nil {
		return err
	}
	for _, name := range names {
		claim, err := state.claim(name)
		if err != nil {
			return unmet("%s", err)
		}
		for _, cl := range clauses {
			if err := claimMatches(state, claim, cl); err != nil {
				return err
			}
		}
	}
	return nil
}

// claimMatches compares a claim with a clause; the word nothing stands for no
// devices, nodes or pods.
func claimMatches(state *State, claim *Claim, c clause) error {
	want, err := c.names()
	if err != nil {
		return err
	}
	if len(want) == 1 && want[0] == "nothing" {
		want = nil
	}
	switch name := claimRef(claim); c.keyword {
	case "with":
		return sameNames(name+" has", want, devicesOf([]*Claim{claim}))
	case "usable":
		return sameNames(name+" is usable on", want, state.usableOn(claim))
	default:
		return sameNames(name+" is used by", want, consumers(claim))
	}
}

// holders returns the claims that hold each device of the state, by POOL/DEVICE.
// Admin access holds nothing.
func (s *State) holders() map[string][]string {
	holders := map[string][]string{}
	for _, c := range s.ResourceClaims {
		for _, r := range claim.Results(c) {
			if r.AdminAccess == nil || !*r.AdminAccess {
				holders[resultRef(r)] = append(holders[resultRef(r)], claimRef(c))
			}
		}
	}
	return holders
}

func expectFree(_ *telling, state *State, c call) error {
	devices, err := expandWords(c.words)
	if err != nil {
		return err
	}
	holders := state.holders()
	for _, d := range devices {
		if len(holders[d]) > 0 {
			return unmet("%s is held by %s", d, strings.Join(holders[d], " "))
		}
	}
	return nil
}

func expectTaken(_ *telling, state *State, c call) error {
	devices, err := expandWords(c.words)
	if err != nil {
		return err
	}
	holders := state.holders()
	for _, d := range devices {
		if len(holders[d]) == 0 {
			return unmet("%s is free", d)
		}
	}
	return nil
}

func expectGone(_ *telling, state *State, c call) error {
	if len(c.words) < 2 {
		return c.misused()
	}
	names, err := expandWords(c.words[1:])
	if err != nil {
		return err
	}
	for _, name := range names {
		switch word := c.words[0].text; word {
		case "pod":
			_, err = state.pod(name)
		case "claim":
			_, err = state.claim(name)
		default:
			return fmt.Errorf("%s: want pod or claim", word)
		}
		if err == nil {
			return unmet("%s is still there", name)
		}
	}
	return nil
}

// expectDated expects claims to say when they were allocated.
func expectDated(_ *telling, state *State, c call) error {
	names, err := expandWords(c.words)
	if err != nil {
		return err
	}
	for _, name := range names {
		claim, err := state.claim(name)
		if err != nil {
			return unmet("%s", err)
		}
		if claim.Status.Allocation == nil || claim.Status.Allocation.AllocationTimestamp.IsZero() {
			return unmet("%s has no allocationTimestamp", name)
		}
	}
	return nil
}
