// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/inventory"
)

// Text draws the pool as a tree.
func (t *PoolTree) Text() string {
	title := fmt.Sprintf("%s/%s, generation %d", t.Driver, t.Pool, t.Generation)
	if t.Nodes != "" {
		title += ", " + t.Nodes
	}
	root := &branch{text: title}
	for _, problem := range t.Problems {
		root.add("nothing can be allocated: " + problem)
	}
	if t.Rivals != "" {
		root.add(t.Rivals)
	}
	for i := range t.Cards {
		card := &t.Cards[i]
		under := root.add("card " + card.Name + ": " + card.Summary())
		under.add("left: " + card.CountersLeft())
		addDevices(under, card.Devices)
	}
	addDevices(root, t.Devices)
	for i := range t.Gone {
		root.add(t.Gone[i].Name + ": not published any more, " + t.Gone[i].Summary())
	}
	var b strings.Builder
	root.write(&b, "", "")
	return b.String()
}

func addDevices(to *branch, devices []DeviceState) {
	for i := range devices {
		to.add(devices[i].Name + ": " + devices[i].Summary())
	}
}

// Summary says in one line what is taken of the card and what is left.
func (c *Card) Summary() string { return c.InUse() + ", " + c.LargestText() }

// InUse counts the devices of the card that somebody holds.
func (c *Card) InUse() string {
	used := 0
	for i := range c.Devices {
		if len(c.Devices[i].HeldBy)+c.Devices[i].HeldByOthers > 0 {
			used++
		}
	}
	return fmt.Sprintf("%d of %s in use", used, explain.Count(len(c.Devices), "device"))
}

// LargestText says which is the largest device that can still be allocated.
func (c *Card) LargestText() string {
	switch {
	case c.Closed:
		return "closed: partly held by a device that the pool no longer describes"
	case c.Largest == "":
		return "nothing left"
	}
	return fmt.Sprintf("largest left %s (%.0f%%)", c.Largest, 100*c.LargestShare)
}

// CountersLeft is "multiprocessors 42 of 108, decoders 5 of 5".
func (c *Card) CountersLeft() string {
	var texts []string
	for _, counter := range c.Counters {
		texts = append(texts, fmt.Sprintf("%s %s of %s", counter.Name, counter.Left, counter.Value))
	}
	return strings.Join(texts, ", ")
}

// Summary says in one line who holds the device, or why it cannot be allocated.
func (d *DeviceState) Summary() string {
	text := d.State
	if d.State == DeviceBlocked && d.Why != "" {
		text = d.Why
	}
	if who := d.Holders(); who != "" {
		text += " by " + who
	}
	var more []string
	for _, name := range slices.Sorted(maps.Keys(d.Consumed)) {
		more = append(more, fmt.Sprintf("%s of %s consumed", d.Consumed[name], name))
	}
	more = append(more, taintWords(d.Taints)...)
	if len(d.Sets) > 0 {
		more = append(more, "draws from "+explain.List(d.Sets))
	}
	if d.Nodes != "" {
		more = append(more, d.Nodes)
	}
	return strings.Join(append([]string{text}, more...), "; ")
}

// Holders names the claims that hold the device and counts those that may not be
// named; empty where nobody holds it.
func (d *DeviceState) Holders() string {
	names := slices.Clone(d.HeldBy)
	if n := d.HeldByOthers; n > 0 {
		names = append(names[:min(len(names), explain.Listed)], explain.Count(n, "claim")+" in "+explain.Verb(n, "another namespace", "other namespaces"))
	}
	return explain.ListAnd(names)
}

// TaintTexts are the taints and where they come from, each once, in words where they
// reserve the device.
func TaintTexts(taints []TaintState) []string {
	return textsOf(taints, TaintState.String)
}

// taintWords are TaintTexts that say what they are.
func taintWords(taints []TaintState) []string {
	return textsOf(taints, func(t TaintState) string {
		if t.Reserved == "" {
			return "taint " + t.String()
		}
		return t.String()
	})
}

func textsOf(taints []TaintState, word func(TaintState) string) []string {
	var texts []string
	for _, t := range taints {
		if text := word(t); !t.redundant && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return texts
}

// String is the taint and where it comes from, or what it reserves the device for.
func (t TaintState) String() string {
	if t.Reserved != "" {
		return t.Reserved
	}
	if t.Rule != "" {
		return t.Taint + " by rule " + t.Rule
	}
	return t.Taint + " of slice " + t.Slice
}

// reachText says which nodes reach a device.
func reachText(r *inventory.Reach) string {
	switch {
	case r.NodeName != "":
		return "node " + r.NodeName
	case r.AllNodes:
		return "all nodes"
	case r.Selector != nil:
		return selectorText(r.Selector)
	}
	return "no node"
}

// selectorText is "node n1" or "nodes with a in (b, c) and d exists".
func selectorText(s *v1.NodeSelector) string {
	var terms []string
	for _, term := range s.NodeSelectorTerms {
		var texts []string
		for _, r := range slices.Concat(term.MatchFields, term.MatchExpressions) {
			if r.Key == "metadata.name" && r.Operator == v1.NodeSelectorOpIn && len(r.Values) == 1 && len(s.NodeSelectorTerms) == 1 {
				return "node " + r.Values[0]
			}
			texts = append(texts, requirement(r))
		}
		terms = append(terms, strings.Join(texts, " and "))
	}
	return "nodes with " + strings.Join(terms, ", or ")
}

func requirement(r v1.NodeSelectorRequirement) string {
	switch r.Operator {
	case v1.NodeSelectorOpExists:
		return r.Key + " set"
	case v1.NodeSelectorOpDoesNotExist:
		return r.Key + " not set"
	case v1.NodeSelectorOpGt, v1.NodeSelectorOpLt:
		return fmt.Sprintf("%s %s %s", r.Key, map[v1.NodeSelectorOperator]string{v1.NodeSelectorOpGt: ">", v1.NodeSelectorOpLt: "<"}[r.Operator], explain.List(r.Values))
	case v1.NodeSelectorOpNotIn:
		return fmt.Sprintf("%s not in (%s)", r.Key, explain.List(r.Values))
	}
	if len(r.Values) == 1 {
		return r.Key + "=" + r.Values[0]
	}
	return fmt.Sprintf("%s in (%s)", r.Key, explain.List(r.Values))
}

// branch is a line of a tree with the lines below it.
type branch struct {
	text  string
	below []*branch
}

func (b *branch) add(text string) *branch {
	below := &branch{text: text}
	b.below = append(b.below, below)
	return below
}

func (b *branch) write(to *strings.Builder, first, rest string) {
	to.WriteString(first + b.text + "\n")
	for i, below := range b.below {
		if i < len(b.below)-1 {
			below.write(to, rest+"├─ ", rest+"│  ")
		} else {
			below.write(to, rest+"└─ ", rest+"   ")
		}
	}
}
