// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"strings"
)

// call is a verb's line, without the verb, and its body.
type call struct {
	usage string // of the verb or expectation, for errors
	words []word
	body  []line
}

// misused is the error for words that do not fit the usage.
func (c call) misused() error { return fmt.Errorf("want: %s", c.usage) }

// name returns the only word of a verb's line.
func (c call) name() (string, error) {
	if len(c.words) != 1 {
		return "", c.misused()
	}
	return c.words[0].text, nil
}

// nameAndClauses reads "NAME [CLAUSE]...". The first word is the name, even if
// it looks like a keyword.
func (c call) nameAndClauses(keywords ...string) (string, []clause, error) {
	if len(c.words) == 0 {
		return "", nil, c.misused()
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
	// usage is what follows the name. doc.go explains it.
	usage string
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
		{name: "node", usage: "NAME... [LABEL=VALUE]... [offers RESOURCE=AMOUNT...]", do: doNode},
		{name: "class", usage: "NAME [of DRIVER] [where CEL]... [serves RESOURCE] [config DRIVER KEY=VALUE...]...", do: doClass},
		{name: "pool", usage: "NAME of DRIVER REACH [generation N]", body: true, do: doPool},
		{name: "slice", usage: "NAME of DRIVER [pool NAME] REACH [generation N] [slices N]", body: true, do: doSlice},
		{name: "taint", usage: "NAME KEY[=VALUE]:EFFECT [driver NAME] [pool NAME] [device NAME]", do: doTaint},
		{name: "claim", usage: "NAME", body: true, do: doClaim},
		{name: "template", usage: "NAME", body: true, do: doTemplate},
		{name: "pod", usage: "NAME [claim NAME...] [template NAME...] [asks RESOURCE=AMOUNT...] [on NODE...]", body: true, do: doPod},
		{name: "apply", usage: "FILE...", do: doApply},
		{name: "delete", usage: "KIND NAME...", do: doDelete},
		{name: "finish", usage: "POD...", do: doFinish},
		{name: "condition", usage: "CLAIM [REQUEST=]POOL/DEVICE TYPE=STATUS [outdated]", do: doCondition},
		{name: "annotate", usage: "CLAIM KEY=VALUE...", do: doAnnotate},
		{name: "settle", do: doSettle},

		{name: "expect", do: doExpect},
		{name: "await", usage: "EXPECTATION", do: doAwait},
		{name: "check", do: doCheck},
		{name: "pods", prints: true, do: doPods},
		{name: "claims", prints: true, do: doClaims},
		{name: "config", usage: "CLAIM", prints: true, do: doConfig},
		{name: "pools", prints: true, do: doPools},
		{name: "counters", usage: "[POOL...]", prints: true, do: doCounters},
		{name: "why", usage: "POD", prints: true, do: doWhy},

		{name: "budget", usage: "STEPS", on: "core", do: doBudget},
		{name: "strategy", usage: "BestFit|Spread|Listed", on: "core", do: doStrategy},
		{name: "shelf", usage: "HOST... [CLAUSE]...", on: "sandbox", body: true, do: doShelf},
		{name: "fabric", usage: "NAME of DRIVER [CLAUSE]...", on: "sandbox", do: doFabric},
		{name: "driver", usage: "NAME on NODE... [notices TIME]", on: "sandbox", body: true, do: doDriver},
		{name: "show", usage: "DEVICE... [ATTRIBUTE=VALUE]... [CLAUSE]... [without NAME...]", on: "sandbox", body: true, do: doShow},
		{name: "fault", usage: "KIND|none [DEVICE] [CLAUSE]...", on: "sandbox", do: doFault},
		{name: "attachments", on: "sandbox", prints: true, do: doAttachments},
		{name: "hold", usage: "scheduler|controller|kube-controller-manager VERB RESOURCE [once done] [saying TEXT...]", on: "sandbox", do: doHold},
		{name: "release", usage: "VERB RESOURCE [with timeout|twice]", on: "sandbox", do: doRelease},
		{name: "kill", usage: partUsage, on: "sandbox", do: onParts(Parts.Kill)},
		{name: "start", usage: partUsage, on: "sandbox", do: onParts(Parts.Start)},
		{name: "restart", usage: partUsage, on: "sandbox", do: onParts(restartPart)},
		{name: "disconnect", usage: "scheduler|controller", on: "sandbox", do: onParts(disconnectPart)},
		{name: "reconnect", usage: "scheduler|controller", on: "sandbox", do: onParts(reconnectPart)},
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
