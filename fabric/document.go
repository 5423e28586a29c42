// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"strings"
)

//go:generate go test -run TestStatesDocument -update .

// Markdown renders the phases and the table of transitions, which STATES.md keeps.
func Markdown() string {
	var b strings.Builder
	b.WriteString("# The states of an attachment\n\nWritten from the table in this package by `make gen`.\n\n")
	b.WriteString("| phase | meaning | guard | counts against the limits | in the fabric's pool |\n|---|---|---|---|---|\n")
	for _, info := range phases {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", info.Phase, info.Meaning, orDash(string(info.Guard)), yes(info.Operation), published(info))
	}
	b.WriteString(publishedText + guardsText)
	b.WriteString("\nIn each phase, the first line that holds is carried out. \"record\" writes the status of the attachment;\n" +
		"what is done at the manager, on the claim or with guards leaves the phase as it is, and its outcome leads on.\n")
	var from Phase = "?"
	for _, t := range transitions {
		if t.From != from {
			from = t.From
			fmt.Fprintf(&b, "\n## %s\n\n| when | do | then | reason |\n|---|---|---|---|\n", name(from))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", t.When, t.Do, name(t.To), reason(t))
	}
	return b.String()
}

func name(p Phase) string {
	if p == PhaseNone {
		return "No attachment"
	}
	return string(p)
}

func reason(t Transition) string {
	switch {
	case t.Reason != "":
		return string(t.Reason)
	case t.From == PhaseFailed && t.Do == VerbFail:
		return "as recorded"
	case t.To == PhaseFailed || t.Do == VerbFail:
		return fmt.Sprintf("%s, %s or %s", ReasonTimeout, ReasonNodeGone, ReasonClaimFailed)
	default:
		return ""
	}
}

func orDash(s string) string {
	if s == "" {
		return "as it was"
	}
	return s
}

// publishedText and guardsText explain the columns.
const (
	publishedText = "\nA device without identity, and a template, cannot be kept: it is free as long as the table says so, and then absent. One that was not what its\nmodel promises is withheld: it is absent until the fabric's spec changes.\n"
	guardsText    = "\n| guard | on what | taint |\n|---|---|---|\n" +
		"| Pool | all that the driver publishes on the node | `fabric.kerf.dev/arriving`: nobody can say yet which device it will be |\n" +
		"| Device | the target | `fabric.kerf.dev/claim`, with the claim's UID |\n" +
		"| Drain | the device, or all of the driver's on the node where it is not known | `fabric.kerf.dev/drain` |\n"
)

// published says what the fabric's pool shows of the device.
func published(info PhaseInfo) string {
	switch {
	case info.Kept && info.Offered:
		return "kept, or free"
	case info.Kept:
		return "kept for the claim"
	case info.Offered:
		return "free"
	default:
		return ""
	}
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}
