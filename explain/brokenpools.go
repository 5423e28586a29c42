// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
)

// brokenPools are pools of a driver that have the same problem.
type brokenPools struct {
	// before is what is said before them, and state what of one of them and of several.
	before string
	state  [2]string
	pools  []*inventory.Pool
	// more are those of one node that are only counted.
	more int
}

var offersNothing = [2]string{"offers nothing", "offer nothing"}

// brief has no names.
func (b *brokenPools) brief() string {
	return fmt.Sprintf("%sa pool of %s %s: %s", b.before, b.pools[0].ID.Driver, b.state[0], flawOf(b.pools[0].Problem))
}

// String names the pools. Of a single one it says which slices and devices it is about.
func (b *brokenPools) String() string {
	first := b.pools[0]
	if len(b.pools)+b.more == 1 {
		return fmt.Sprintf("%spool %s %s: %s", b.before, first.ID, b.state[0], problem(first))
	}
	var names []string
	for _, p := range b.pools {
		names = append(names, p.ID.Pool)
	}
	which := ListAnd(names)
	if b.more > 0 {
		which = fmt.Sprintf("%s and %d more", strings.Join(names[:Listed], ", "), len(names)-Listed+b.more)
	}
	return fmt.Sprintf("%spools %s of %s %s: %s", b.before, which, first.ID.Driver, b.state[1], flawOf(first.Problem))
}

// maxPools bounds the problems of pools that are told in a line, and namedPools those of
// a node that may be named.
const maxPools, namedPools = 2, 32

// brokenPools tells of pools that offer nothing, those with the same problem together.
func (t *teller) brokenPools() []*brokenPools {
	if t.Conflict.Kind == alloc.AllUnknown {
		return nil
	}
	var found []*brokenPools
	for _, p := range t.Pools {
		at := slices.IndexFunc(found, func(b *brokenPools) bool { return alike(b.pools[0], p) })
		switch {
		case at < 0 && len(found) < maxPools:
			found = append(found, &brokenPools{state: offersNothing, pools: []*inventory.Pool{p}})
		case at < 0:
		case len(found[at].pools) < namedPools:
			found[at].pools = append(found[at].pools, p)
		default:
			found[at].more++
		}
	}
	return found
}

// alike reports whether flawOf says the same of two pools of one driver.
func alike(a, b *inventory.Pool) bool {
	return a.ID.Driver == b.ID.Driver && a.Problem.Kind == b.Problem.Kind && a.Problem.Have == b.Problem.Have && a.Problem.Want == b.Problem.Want
}

// unknownForAll says that a request for all devices cannot be answered while a pool may
// have some that nobody can see; it is nil where that is not the conflict.
func (t *teller) unknownForAll() *brokenPools {
	c := &t.Conflict
	if c.Kind != alloc.AllUnknown || c.Pool == nil || c.Pool.Problem == nil || len(t.reports(c.Requests[0])) > 1 {
		return nil
	}
	return t.allUnknown()
}

func (t *teller) allUnknown() *brokenPools {
	ref, p := t.Conflict.Requests[0], t.Conflict.Pool
	is := "invalid"
	if p.Problem.Kind == inventory.Incomplete || p.Problem.Kind == inventory.Superseded {
		is = "incomplete"
	}
	return &brokenPools{
		before: fmt.Sprintf("claim %s, request %s: asks for all devices, but ", short(ref.Claim), cmp.Or(t.called(ref), ref.Request)),
		state:  [2]string{"is " + is, "are " + is},
		pools:  []*inventory.Pool{p},
	}
}

// flawOf is the problem without what tells pools apart.
func flawOf(e *inventory.PoolProblem) string {
	switch e.Kind {
	case inventory.Incomplete:
		return slicesPublished(e, "")
	case inventory.Superseded:
		return slicesPublished(e, "") + ", and others publish a higher generation"
	case inventory.CountMismatch:
		return "slices disagree on resourceSliceCount"
	case inventory.DuplicateDevice:
		return "a device name is published twice"
	case inventory.DuplicateCounterSet:
		return "a counter set is published twice"
	case inventory.MissingCounterSet:
		return "a device consumes a counter set that the pool does not have"
	case inventory.MissingCounter:
		return "a device consumes a counter that its set does not have"
	case inventory.BadNodeSelector:
		return "a slice has a node selector that is not valid"
	case inventory.Uncountable:
		return "an amount is " + inventory.Uncounted
	}
	return string(e.Kind)
}
