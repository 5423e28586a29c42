// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"strings"
)

// call is a verb's line, without the verb, and its body.
type call struct {
	words []word
	body  []line
}

// name returns the only word of a verb's line.
func (c call) name() (string, error) {
	if len(c.words) != 1 {
		return "", fmt.Errorf("want one word, have %d", len(c.words))
	}
	return c.words[0].text, nil
}

// nameAndClauses reads "NAME [CLAUSE]...". The first word is the name, even if
// it looks like a keyword.
func (c call) nameAndClauses(keywords ...string) (string, []clause, error) {
	if len(c.words) == 0 {
		return "", nil, fmt.Errorf("want a name")
	}
	extra, clauses := cutClauses(c.words[1:], keywords...)
	if len(extra) > 0 {
		return "", nil, fmt.Errorf("%s: want one of %s after the name", extra[0].text, strings.Join(keywords, ", "))
	}
	return c.words[0].text, clauses, nil
}

// verb is a word of the language.
type verb struct {
	name string
	// usage is what follows the name, help what it does.
	usage, help string
	// on is the one backend that has the verb, empty for all.
	on string
	// body says whether indented lines may follow, prints whether there is
	// output to be compared.
	body, prints bool

	do func(*telling, call) (string, error)
}

// verbs is the language, in the order in which doc.go explains it.
func verbs() []verb {
	return []verb{
		{name: "node", usage: "NAME... [LABEL=VALUE]...", help: "adds nodes", do: doNode},
		{name: "class", usage: "NAME [of DRIVER] [where CEL]... [config DRIVER KEY=VALUE...]...", help: "adds a DeviceClass", do: doClass},
		{name: "pool", usage: "NAME of DRIVER on NODE...|everywhere|per-device [generation N]", help: "publishes a whole pool", body: true, do: doPool},
		{name: "slice", usage: "NAME of DRIVER [pool NAME] on NODE...|everywhere|per-device [generation N] [slices N]", help: "publishes one ResourceSlice", body: true, do: doSlice},
		{name: "taint", usage: "NAME KEY[=VALUE]:EFFECT [driver NAME] [pool NAME] [device NAME]", help: "adds a DeviceTaintRule", do: doTaint},
		{name: "claim", usage: "NAME", help: "adds a ResourceClaim", body: true, do: doClaim},
		{name: "template", usage: "NAME", help: "adds a ResourceClaimTemplate", body: true, do: doTemplate},
		{name: "pod", usage: "NAME [claim NAME...] [template NAME...] [on NODE...]", help: "adds a pod", body: true, do: doPod},
		{name: "apply", usage: "FILE...", help: "creates or updates the objects of YAML files in the archive", do: doApply},
		{name: "delete", usage: "KIND NAME...", help: "deletes objects", do: doDelete},
		{name: "finish", usage: "POD...", help: "lets the containers of running pods succeed", do: doFinish},
		{name: "condition", usage: "CLAIM POOL/DEVICE TYPE=STATUS", help: "sets a condition of an allocated device, as its driver would", do: doCondition},
		{name: "settle", help: "waits until nothing moves", do: doSettle},

		{name: "expect", usage: strings.Join(expectationUsages(), " / "), help: "states what must be true", do: doExpect},
		{name: "check", help: "verifies the whole state: nothing is given out twice, no counter is overdrawn, every pod has what it asks for", do: doCheck},
		{name: "pods", help: "prints where the pods are, with which devices", prints: true, do: doPods},
		{name: "claims", help: "prints what the claims got, where it can be used and by whom", prints: true, do: doClaims},
		{name: "config", usage: "CLAIM", help: "prints the configuration in an allocation", prints: true, do: doConfig},
		{name: "pools", help: "prints the pools, and why one offers nothing", prints: true, do: doPools},
		{name: "counters", usage: "[POOL]", help: "prints what is left of the shared counters", prints: true, do: doCounters},
		{name: "why", usage: "POD", help: "prints, for each node, why the pod cannot go there", prints: true, do: doWhy},

		{name: "budget", usage: "STEPS", help: "sets the step budget of the allocator", on: "core", do: doBudget},
		{name: "strategy", usage: "BestFit|Spread|Listed", help: "sets the strategy of the allocator", on: "core", do: doStrategy},
		{name: "restart", usage: "scheduler", help: "stops the scheduler and starts another one", on: "sandbox", do: doRestart},
	}
}

func verbNamed(name string) *verb {
	for _, v := range verbs() {
		if v.name == name {
			return &v
		}
	}
	return nil
}

func verbNames() []string {
	var names []string
	for _, v := range verbs() {
		names = append(names, v.name)
	}
	return names
}
