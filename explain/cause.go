// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
)

// Cause is why a pod does not fit on a node. Nodes in the same situation have causes
// that differ in names alone: of pools, slices and holders. [Group] tells them together.
type Cause struct {
	// clauses begin with the conflict, or whatever is the proof.
	clauses []clause
	rank    int
}

// clause is a part of a cause.
type clause struct {
	// brief is what can be said without names that tell nodes apart; text has them.
	brief, text string
	// pools, amounts and holders are set where those of several nodes can be told together.
	pools   *brokenPools
	amounts *amounts
	holders *holders
}

// Because makes a cause of a text that has no names of nodes, or of what they have.
func Because(text string) Cause { return Cause{clauses: []clause{{brief: text, text: text}}} }

// CauseOf says in one line why claims cannot be allocated on a node. It does not name
// the node.
func CauseOf(r *alloc.Refusal, o Options) Cause { return newTeller(r, o).cause() }

// String is the cause with all names.
func (c Cause) String() string { return strings.Join(together([]Cause{c}), "; ") }

// Brief is the cause without names, which is the same for nodes in the same situation.
func (c Cause) Brief() string {
	var texts []string
	for i := range c.clauses {
		if brief := c.clauses[i].brief; brief != "" {
			texts = append(texts, brief)
		}
	}
	return strings.Join(texts, "; ")
}

// situation is equal for nodes that are told of together: it also tells whether there
// are names.
func (c Cause) situation() string { return fmt.Sprintf("%d: %s", len(c.clauses), c.Brief()) }

// together joins causes of the same situation, clause by clause.
func together(causes []Cause) []string {
	texts := make([]string, len(causes[0].clauses))
	for i := range texts {
		of := make([]*clause, len(causes))
		for k := range causes {
			of[k] = &causes[k].clauses[i]
		}
		texts[i] = tell(of)
	}
	return texts
}

// tell joins clauses of the same situation. Where names cannot be joined it gives the
// text of the first.
func tell(of []*clause) string {
	switch first := of[0]; {
	case first.pools != nil:
		all, known := *first.pools, map[inventory.PoolID]bool{}
		all.pools = nil
		for _, c := range of {
			all.more = max(all.more, c.pools.more)
			for _, p := range c.pools.pools {
				if !known[p.ID] {
					known[p.ID] = true
					all.pools = append(all.pools, p)
				}
			}
		}
		return all.String()
	case first.amounts != nil:
		all := &amounts{}
		for _, c := range of {
			all.join(c.amounts)
		}
		return all.String()
	case first.holders != nil:
		all := newHolders()
		for _, c := range of {
			all.join(c.holders)
		}
		return "held by " + all.String()
	default:
		return first.text
	}
}

func (t *teller) cause() Cause {
	c := Cause{clauses: []clause{t.proof()}, rank: t.rank()}
	add := func(more clause) { c.clauses = append(c.clauses, more) }
	if short := t.shortAmounts(); short.some() {
		add(clause{amounts: short})
	}
	if held := t.inTheWay(); held.some() {
		add(clause{holders: held})
	}
	if failed := t.failedSelectors(); failed != "" {
		add(clause{brief: failed, text: failed})
	}
	for _, pools := range t.brokenPools() {
		add(clause{brief: pools.brief(), pools: pools})
	}
	if rivals := t.rivals(); len(rivals) > 0 {
		add(clause{text: rivals[0]})
	}
	if misses := t.nearMisses(true); len(misses) > 0 {
		add(clause{text: "near miss: " + misses[0]})
	}
	if len(t.Remedies) > 0 {
		add(clause{text: "would fit if " + t.remedy(&t.Remedies[0])})
	}
	return c
}

// proof is the conflict.
func (t *teller) proof() clause {
	if pools := t.unknownForAll(); pools != nil {
		return clause{brief: pools.brief(), pools: pools}
	}
	text := t.conflict()
	return clause{brief: text, text: text}
}

// rank orders causes: the farther devices got, the more there is to learn.
func (t *teller) rank() int {
	if t.Conflict.Kind != alloc.TooFew {
		return alloc.Stages
	}
	rank := 0
	for _, r := range t.reportsAtFault() {
		rank = max(rank, int(r.Failed))
	}
	if len(t.Pools) > 0 {
		rank = max(rank, int(alloc.StageSelector))
	}
	return rank
}
