// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
)

// Devices of a counter set can only be in use together if they have a compatibility
// group in common, or none at all (consumesCounters[].compatibilityGroups). The
// search counts that as a matter of counters; it is told apart here.

// loners stands for the group of those that declare none.
const loners = "no group"

// apart is what becomes of devices whose groups are the reason.
const apart = "not compatible with devices in use"

func groupsIn(d *inventory.Device, set int) []string {
	for _, g := range d.Groups {
		if g.Set == set {
			if len(g.Groups) == 0 {
				return []string{loners}
			}
			return g.Groups
		}
	}
	return nil
}

func agree(a, b []string) bool {
	return slices.ContainsFunc(a, func(group string) bool { return slices.Contains(b, group) })
}

// groupText is "group a", "groups a, b" or "no group".
func groupText(groups []string) string {
	if groups[0] == loners {
		return loners
	}
	return Verb(len(groups), "group ", "groups ") + List(groups)
}

// incompatible returns the devices in use that a device cannot join because of its
// groups, and their set: those that each have no group in common with it, or all
// where no group is left. There are none where something else keeps it out.
func incompatible(pv *inventory.PoolView, d *inventory.Device) (rivals []*inventory.Device, set int) {
	for _, g := range d.Groups {
		left := groupsIn(d, g.Set)
		var used, alien []*inventory.Device
		for i, other := range pv.Pool.Devices {
			theirs := groupsIn(other, g.Set)
			if pv.Use.Taken[i] == nil || theirs == nil {
				continue
			}
			used = append(used, other)
			if !agree(groupsIn(d, g.Set), theirs) {
				alien = append(alien, other)
			}
			left = slices.DeleteFunc(slices.Clone(left), func(group string) bool { return !slices.Contains(theirs, group) })
		}
		switch {
		case len(alien) > 0:
			return alien, g.Set
		case len(left) == 0:
			return used, g.Set
		}
	}
	return nil, 0
}

// notCompatible says with which devices in use a device has no group in common.
func (o *Options) notCompatible(pv *inventory.PoolView, d *inventory.Device, rivals []*inventory.Device, set int) string {
	var names []string
	var ids []inventory.DeviceID
	for _, other := range rivals {
		names = append(names, fmt.Sprintf("%s (%s)", other.ID.Device, groupText(groupsIn(other, set))))
		ids = append(ids, other.ID)
	}
	return fmt.Sprintf("of %s in counter set %s, not compatible with %s, %s",
		groupText(groupsIn(d, set)), pv.Pool.Sets[set].Name, ListAnd(names), o.heldBy(ids...))
}

// splitCounters counts those of the devices dropped for their counters that are
// short of them, and those whose groups are the reason.
func (o *Options) splitCounters(r *alloc.RequestReport) (short, incompatible int) {
	for _, d := range r.Dropped[alloc.StageCounters] {
		pv := o.pool(d.ID.PoolID())
		if pv != nil && o.counterShortage(pv, d) == "" {
			incompatible++
		} else {
			short++
		}
	}
	return short, incompatible
}

// groupConflict says that the groups of the candidates keep the requests of the
// conflict from being satisfied together; it is empty where they do not prove it.
func (t *teller) groupConflict() string {
	if t.Conflict.Kind != alloc.Counters && t.Conflict.Kind != alloc.Exhausted {
		return ""
	}
	var reports []*alloc.RequestReport
	for _, ref := range t.Conflict.Requests {
		of := t.reports(ref)
		if len(of) != 1 || len(of[0].Candidates) < max(of[0].Wants, 1) || slices.ContainsFunc(of[0].Candidates, (*inventory.Device).MultiAlloc) {
			return ""
		}
		reports = append(reports, of[0])
	}
	if len(reports) > 1 && nothingTogether(reports) {
		return t.nothingCompatible(reports)
	}
	if most := largestCompatible(reports); most < t.Conflict.Need {
		return fmt.Sprintf("%s: %s, the compatibility groups allow %d of the candidates together", t.labels(t.Conflict.Requests), t.needs(), most)
	}
	return ""
}

// nothingCompatible lists the groups that each request could have.
func (t *teller) nothingCompatible(reports []*alloc.RequestReport) string {
	var texts []string
	for _, r := range reports {
		var entries []string
		for _, d := range r.Candidates {
			entries = append(entries, fmt.Sprintf("%s (%s)", d.ID.Device, groupText(groupsIn(d, d.Groups[0].Set))))
		}
		texts = append(texts, t.label(r.RequestRef)+": "+List(entries))
	}
	return strings.Join(texts, "; ") + "; no compatibility group has enough devices for all"
}

// place is a group of a counter set.
type place struct {
	pool  inventory.PoolID
	set   int
	group string
}

// largestCompatible is at least how many of the candidates can be in use together:
// for each set those of its largest group, and all that belong to none. A device of
// several sets counts for the first.
func largestCompatible(reports []*alloc.RequestReport) int {
	most, counts, seen := 0, map[place]int{}, map[*inventory.Device]bool{}
	for _, r := range reports {
		for _, d := range r.Candidates {
			switch {
			case seen[d]:
			case len(d.Groups) == 0:
				most++
			default:
				for _, group := range groupsIn(d, d.Groups[0].Set) {
					counts[place{d.ID.PoolID(), d.Groups[0].Set, group}]++
				}
			}
			seen[d] = true
		}
	}
	largest := map[place]int{}
	for p, n := range counts {
		p.group = ""
		largest[p] = max(largest[p], n)
	}
	for _, n := range largest {
		most += n
	}
	return most
}

// nothingTogether reports whether all candidates belong to one set, no group of
// which has as many as each request wants.
func nothingTogether(reports []*alloc.RequestReport) bool {
	var set place
	counts := make([]map[string]int, len(reports))
	groups := map[string]bool{}
	for k, r := range reports {
		counts[k] = map[string]int{}
		for _, d := range r.Candidates {
			if len(d.Groups) == 0 {
				return false
			}
			at := place{pool: d.ID.PoolID(), set: d.Groups[0].Set}
			if set.pool != (inventory.PoolID{}) && at != set {
				return false
			}
			set = at
			for _, group := range groupsIn(d, at.set) {
				counts[k][group]++
				groups[group] = true
			}
		}
	}
	for group := range groups {
		enough := true
		for k, r := range reports {
			enough = enough && counts[k][group] >= r.Wants
		}
		if enough {
			return false
		}
	}
	return true
}
