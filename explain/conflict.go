// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
)

// conflict is the minimal reason in one sentence, or one for each alternative of
// a prioritized list.
func (t *teller) conflict() string {
	c := &t.Conflict
	if len(c.Requests) == 1 {
		if alternatives := t.reports(c.Requests[0]); len(alternatives) > 1 {
			return t.alternatives(alternatives)
		}
	}
	return t.sentence()
}

// alternatives says what each alternative lacks that cannot be had even alone.
// The conflict is about one of them, or about those that are left.
func (t *teller) alternatives(of []*alloc.RequestReport) string {
	var texts []string
	told := false
	for _, r := range of {
		switch {
		case r.RequestRef == t.Conflict.Requests[0]:
			texts, told = append(texts, t.sentence()), true
		case r.Failed != alloc.NoStage || r.Wants > resourceapi.AllocationResultsMaxSize:
			texts = append(texts, t.label(r.RequestRef)+": "+t.shortage(r))
		}
	}
	if len(texts) > Listed {
		texts = append(texts[:Listed], fmt.Sprintf("and %d more alternatives", len(texts)-Listed))
	}
	if !told {
		texts = append(texts, t.sentence())
	}
	return strings.Join(texts, "; ")
}

func (t *teller) sentence() string {
	c := &t.Conflict
	who := t.labels(c.Requests)
	if text := t.groupConflict(); text != "" {
		return text
	}
	switch c.Kind {
	case alloc.TooFew:
		return who + ": " + t.shortage(t.report(c.Requests[0]))
	case alloc.TooMany:
		return t.tooMany(who)
	case alloc.AllUnavailable:
		return t.allUnavailable()
	case alloc.AllUnknown:
		if c.Pool != nil && c.Pool.Problem != nil {
			return t.allUnknown().String()
		}
		return who + ": asks for all devices, but a pool is not usable"
	case alloc.NoMatch:
		return t.noMatch()
	case alloc.TooFewGroups:
		return fmt.Sprintf("%s: needs %s with a %s of their own each, %d can be had", who, Count(c.Need, "group"), c.Attribute, c.Have)
	case alloc.NotDistinct:
		return fmt.Sprintf("%s: %s that differ in %s, there %s %s", who, t.needs(), c.Attribute,
			Verb(c.Have, "is", "are"), Count(c.Have, "value"))
	case alloc.Counters:
		return fmt.Sprintf("%s: %s, the shared counters suffice for %d", who, t.needs(), c.Have)
	case alloc.NodeResource:
		s := &c.Shortage
		return fmt.Sprintf("%s: %s, %s: they take at least %s of %s, %s left", who, t.needs(), insufficient(s.Resource), Quantity(s.Resource, s.Needs), t.whose(s.Resource), Quantity(s.Resource, NotBelowZero(s.Left)))
	case alloc.Shared:
		return fmt.Sprintf("%s: %s, %d can be had", who, t.needs(), c.Have)
	}
	return who + ": every combination of devices was tried, none satisfies all constraints" + t.constraints()
}

// constraints lists the constraints of the claims in the conflict, in brackets.
func (t *teller) constraints() string {
	var texts []string
	add := func(how string, attribute *resourceapi.FullyQualifiedName) {
		if attribute == nil {
			return
		}
		if text := how + " " + string(*attribute); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	for _, claim := range t.claimsAtFault() {
		for _, c := range claim.Spec.Devices.Constraints {
			add("same", c.MatchAttribute)
			add("different", c.DistinctAttribute)
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return " (" + List(texts) + ")"
}

func (t *teller) tooMany(who string) string {
	text := t.needs()
	if len(t.Conflict.Requests) == 1 {
		if r := t.report(t.Conflict.Requests[0]); r != nil && r.All {
			text = "matches " + Count(t.Conflict.Need, "device")
		}
	}
	return fmt.Sprintf("%s: %s, a claim can have at most %d", who, text, t.Conflict.Limit)
}

// needs says how many devices the requests of the conflict want together.
func (t *teller) needs() string {
	return Verb(len(t.Conflict.Requests), "needs ", "need ") + devicesWanted(t.Conflict.Need)
}

// allUnavailable says what keeps a request for all devices from some of them.
func (t *teller) allUnavailable() string {
	ref := t.Conflict.Requests[0]
	r := t.report(ref)
	var reasons []string
	for _, d := range t.drops(r, func(d *inventory.Device) bool { return slices.Contains(t.Conflict.Devices, d) }) {
		reasons = append(reasons, fmt.Sprintf("%s %s %s", List(deviceNames(d.devices)), Verb(len(d.devices), "is", "are"), d.why))
	}
	if len(reasons) > 2 {
		reasons = append(reasons[:2], "and more")
	}
	if len(reasons) == 0 {
		reasons = []string{List(deviceNames(t.Conflict.Devices)) + " cannot be had"}
	}
	return fmt.Sprintf("%s: a request for all devices matches %d, %s", t.label(ref), r.Wants, strings.Join(reasons, ", "))
}

// noMatch explains a matchAttribute constraint that cannot be met.
func (t *teller) noMatch() string {
	c := &t.Conflict
	who, attribute := t.labels(c.Requests), c.Attribute
	switch {
	case len(c.Groups) == 0:
		return fmt.Sprintf("%s: %s with the same %s, no device has it", who, t.needs(), attribute)
	case len(c.Groups[0].Counts) != len(c.Requests):
		// The constraint concerns some of the requests only.
		return fmt.Sprintf("%s: no value of %s is shared by enough devices", who, attribute)
	case len(c.Requests) == 1:
		largest := c.Groups[0].Counts[0]
		if largest < c.Need {
			return fmt.Sprintf("%s: %s with the same %s, largest group %d < %d", who, t.needs(), attribute, largest, c.Need)
		}
		return fmt.Sprintf("%s: %s with the same %s, no group can give them at once", who, t.needs(), attribute)
	case !slices.ContainsFunc(c.Groups, inCommon):
		return t.nothingInCommon()
	}
	if largest, shared := largestUnion(c.Groups); shared && largest < c.Need {
		return fmt.Sprintf("%s: %s with the same %s, largest group %d < %d", who, t.needs(), attribute, largest, c.Need)
	}
	return t.groupsTooSmall()
}

// largestUnion counts the devices of the largest group; shared is set where a
// device may serve several requests, so that counts per request mislead.
func largestUnion(groups []alloc.ValueGroup) (largest int, shared bool) {
	for i := range groups {
		seen := map[*inventory.Device]bool{}
		for _, devices := range groups[i].Devices {
			for _, d := range devices {
				shared = shared || seen[d]
				seen[d] = true
			}
		}
		largest = max(largest, len(seen))
	}
	return largest, shared
}

// inCommon reports whether every request has a candidate in the group.
func inCommon(g alloc.ValueGroup) bool { return !slices.Contains(g.Counts, 0) }

// nothingInCommon lists the values that each request could have: device by
// device where there are few, else values with their counts.
func (t *teller) nothingInCommon() string {
	c := &t.Conflict
	var texts []string
	for k, ref := range c.Requests {
		entries := deviceValues(c.Groups, k)
		if len(entries) > Listed {
			entries = valueCounts(c.Groups, k)
		}
		if len(entries) == 0 {
			entries = []string{"no device has it"}
		}
		texts = append(texts, t.label(ref)+": "+List(entries))
	}
	return strings.Join(texts, "; ") + "; no common " + string(c.Attribute)
}

// deviceValues gives "gpu0 (A)" for each candidate of the k-th request.
func deviceValues(groups []alloc.ValueGroup, k int) []string {
	values := map[*inventory.Device][]string{}
	var devices []*inventory.Device
	for i := range groups {
		if k >= len(groups[i].Devices) {
			continue
		}
		for _, d := range groups[i].Devices[k] {
			if values[d] == nil {
				devices = append(devices, d)
			}
			values[d] = append(values[d], groupValue(groups, i))
		}
	}
	slices.SortFunc(devices, func(a, b *inventory.Device) int {
		return cmp.Or(a.ID.PoolID().Compare(b.ID.PoolID()), cmp.Compare(a.Index, b.Index))
	})
	entries := make([]string, len(devices))
	for i, d := range devices {
		entries[i] = fmt.Sprintf("%s (%s)", d.ID.Device, List(values[d]))
	}
	return entries
}

// groupValue gives the type of a value where that tells groups apart: strings in
// quotes, versions by name.
func groupValue(groups []alloc.ValueGroup, i int) string {
	g := &groups[i]
	if !slices.ContainsFunc(groups, func(other alloc.ValueGroup) bool { return other.Type != g.Type }) {
		return Value(g.Value)
	}
	switch g.Type {
	case "string":
		if text := Value(g.Value); text != g.Value {
			return text
		}
		return strconv.Quote(g.Value)
	case "version":
		return "version " + Value(g.Value)
	}
	return Value(g.Value)
}

// valueCounts gives "4 × A" for each value of the k-th request.
func valueCounts(groups []alloc.ValueGroup, k int) []string {
	var entries []string
	for i := range groups {
		if n := groups[i].Counts[k]; n > 0 {
			entries = append(entries, fmt.Sprintf("%d × %s", n, groupValue(groups, i)))
		}
	}
	return entries
}

// groupsTooSmall lists the values that all requests share, none of which has
// enough devices.
func (t *teller) groupsTooSmall() string {
	c := &t.Conflict
	var wants, groups []string
	for _, ref := range c.Requests {
		n := 1
		if r := t.report(ref); r != nil {
			n = r.Wants
		}
		wants = append(wants, fmt.Sprintf("%d × %s", n, t.label(ref)))
	}
	for i := range c.Groups {
		if !inCommon(c.Groups[i]) {
			continue
		}
		counts := make([]string, len(c.Groups[i].Counts))
		for k, n := range c.Groups[i].Counts {
			counts[k] = fmt.Sprint(n)
		}
		groups = append(groups, fmt.Sprintf("%s has %s", groupValue(c.Groups, i), strings.Join(counts, " + ")))
	}
	return fmt.Sprintf("%s with the same %s: %s", strings.Join(wants, " + "), c.Attribute, List(groups))
}
