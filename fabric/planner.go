// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"time"
)

// Planner knows what is wanted of a fabric and what was seen of it, and decides
// what to do next. There is one planner for a fabric at a time.
//
// What is known is in facts, which know nothing of plans. The rest stays together: what is
// observed and what a step comes to are told alike, and both queue what they concern.
type Planner struct {
	facts
	ready bool

	queue agenda
	slots slots
	// waiting are the attachments that only the limits hold back.
	waiting set[*entry]
	// hoping are the claims that wait for any device of a template.
	hoping map[key]bool
	// wanting are those that wait for an inventory.
	wanting map[key]bool
	reading uint64 // the step that reads the inventory
	readAt  time.Time

	underWay    map[key]uint64
	lastStep    uint64
	evaluations uint64
}

// New returns a planner that knows nothing. What is zero in the policy is
// defaulted.
func New(policy Policy) *Planner {
	return &Planner{
		facts:    newFacts(policy.WithDefaults()),
		queue:    newAgenda(),
		slots:    slots{perMachine: map[MachineRef]int{}},
		waiting:  set[*entry]{},
		hoping:   map[key]bool{},
		wanting:  map[key]bool{},
		underWay: map[key]uint64{},
	}
}

// Ready says that all attachments, claims, nodes and pools that exist have been
// observed. Before, nothing is planned but to read the inventory: a planner that
// does not know all claims does not know what is unused. Guards that are in place
// are best observed before, too: those that are not are put in place again.
func (p *Planner) Ready() { p.ready = true }

// Effort counts the situations that were looked at, for metrics and tests.
func (p *Planner) Effort() uint64 { return p.evaluations }
