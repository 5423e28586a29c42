// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
)

// amounts are what requests take of capacities, and the most that there is of that on
// devices which are too small.
type amounts map[taken]atMost

// taken is an amount of a capacity that is taken, in words.
type taken struct {
	name  resourceapi.QualifiedName
	words string
}

// atMost is the most that a request could have of a capacity.
type atMost struct {
	// there is of no meaning where no device has the capacity (known is not set), or more
	// devices are too small than were looked at.
	there inventory.Amount
	known bool
	more  bool
	// limited is set where a policy allows no more, used where there is more on a device,
	// which others have.
	limited, used bool
}

// maxTold is how many amounts, or taints, a line names.
const maxTold = 3

// maxMeasured bounds the devices whose capacity is looked at for a line.
const maxMeasured = 1024

func (a *amounts) some() bool { return len(*a) > 0 }

// String is "memory: 4Gi asked, 2Gi left at most".
func (a *amounts) String() string {
	var texts []string
	for _, of := range slices.SortedFunc(maps.Keys(*a), func(x, y taken) int {
		return cmp.Or(cmp.Compare(x.name, y.name), cmp.Compare(x.words, y.words))
	}) {
		texts = append(texts, fmt.Sprintf("%s: %s%s", of.name, of.words, (*a)[of]))
	}
	return firstOf(texts, "; ")
}

// firstOf joins as many of the entries as a line names; the rest is counted.
func firstOf(entries []string, separator string) string {
	rest := len(entries) - maxTold
	if rest <= 0 {
		return strings.Join(entries, separator)
	}
	return fmt.Sprintf("%s and %d more", strings.Join(entries[:maxTold], separator), rest)
}

// String continues what is asked.
func (m atMost) String() string {
	switch {
	case m.more:
		return ""
	case !m.known:
		return ", no device has it"
	case m.used && m.there.Sign() == 0:
		return ", none left"
	case m.used:
		return ", " + Amount(m.there) + " left at most"
	case m.limited:
		return ", " + Amount(m.there) + " at most by policy"
	}
	return ", " + Amount(m.there) + " at most"
}

// join adds other amounts.
func (a *amounts) join(o *amounts) {
	for of, m := range *o {
		a.add(of, m)
	}
}

func (a *amounts) add(of taken, m atMost) {
	if *a == nil {
		*a = amounts{}
	}
	known, found := (*a)[of]
	if !found {
		(*a)[of] = m
		return
	}
	all := atMost{there: known.there, limited: known.limited, known: known.known || m.known, more: known.more || m.more, used: known.used || m.used}
	switch c := m.there.Cmp(known.there); {
	case m.known && (!known.known || c > 0):
		all.there, all.limited = m.there, m.limited
	case m.known && c == 0:
		all.limited = known.limited && m.limited
	}
	(*a)[of] = all
}

// shortAmounts are those of the devices that are too small for the request of the
// conflict.
func (t *teller) shortAmounts() *amounts {
	short := &amounts{}
	if t.Conflict.Kind != alloc.TooFew {
		return short
	}
	for _, r := range t.reportsAtFault() {
		requests, ok := t.capacityAsked(r)
		if !ok {
			continue
		}
		dropped := r.Dropped[alloc.StageCapacity]
		for _, d := range dropped[:min(len(dropped), maxMeasured)] {
			if spelledTwice(d, requests) != "" {
				continue // the proof says it
			}
			if s := t.shortfall(d, requests); s != nil {
				short.add(taken{s.name, s.words}, atMost{
					there: s.there, known: s.kind != missing, more: len(dropped) > maxMeasured, limited: s.kind == limited, used: s.kind == used,
				})
			}
		}
	}
	return short
}
