// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/inventory"
)

// Pool says why nothing can be allocated from a pool, empty where it has no
// problem.
func Pool(p *inventory.Pool) string {
	if p.Problem == nil {
		return ""
	}
	return fmt.Sprintf("pool %s: %s", p.ID, problem(p))
}

// problem is the problem without the name of the pool, which often is that of a
// node.
func problem(p *inventory.Pool) string { return Problem(p, p.Problem) }

// Problem says what one of the pool's problems is, without the name of the pool. Where
// nodes publish slices that contradict each other, it names them.
func Problem(p *inventory.Pool, e *inventory.PoolProblem) string {
	text := flaw(p, e)
	if len(p.Publishers) == 0 || e.Kind == inventory.Superseded || e.Kind == inventory.BadNodeSelector {
		return text
	}
	return text + "; " + publishers(p) + " slices of it"
}

// publishers is "nodes a and b publish".
func publishers(p *inventory.Pool) string {
	n := len(p.Publishers)
	return fmt.Sprintf("%s %s %s", Verb(n, "node", "nodes"), ListAnd(p.Publishers), Verb(n, "publishes", "publish"))
}

func flaw(p *inventory.Pool, e *inventory.PoolProblem) string {
	switch e.Kind {
	case inventory.Incomplete:
		return incomplete(p, e)
	case inventory.Superseded:
		who := "slice " + e.Name
		if e.Node != "" {
			who = fmt.Sprintf("node %s (slice %s)", e.Node, e.Name)
		}
		return fmt.Sprintf("%s, and %s publishes generation %d", incomplete(p, e), who, e.Other)
	case inventory.CountMismatch:
		return fmt.Sprintf("slices disagree on resourceSliceCount: %d in %s, %d in %s", e.Want, slice(e, 0), e.Other, slice(e, 1))
	case inventory.DuplicateDevice:
		return fmt.Sprintf("device name %s published twice, %s", e.Name, where(e))
	case inventory.DuplicateCounterSet:
		return fmt.Sprintf("counter set %s published twice, %s", e.Name, where(e))
	case inventory.MissingCounterSet:
		return fmt.Sprintf("device %s consumes counter set %s, which the pool does not have", e.Device, e.Name)
	case inventory.MissingCounter:
		return fmt.Sprintf("device %s consumes counter %s of counter set %s, which the set does not have", e.Device, e.Counter, e.Name)
	case inventory.BadNodeSelector:
		return fmt.Sprintf("slice %s has a node selector that is not valid: %s", e.Name, Cut(e.Detail, 120))
	case inventory.Uncountable:
		return fmt.Sprintf("%s of slice %s is %s", e.Field, e.Name, inventory.Uncounted)
	}
	return string(e.Kind)
}

// incomplete also names the slices: they may be of several nodes.
func incomplete(p *inventory.Pool, e *inventory.PoolProblem) string {
	text := slicesPublished(e, fmt.Sprintf(" of generation %d", p.Generation))
	if names := sliceNames(p); names != "" {
		text += " (" + names + ")"
	}
	return text
}

func slicesPublished(e *inventory.PoolProblem, generation string) string {
	if e.Have > e.Want {
		return fmt.Sprintf("%s%s published, but resourceSliceCount is %d", Count(int(e.Have), "slice"), generation, e.Want)
	}
	return fmt.Sprintf("%d of %s%s published", e.Have, Count(int(e.Want), "slice"), generation)
}

// sliceNames is "slices a and b", or "slices a of node n1 and b of node n2".
func sliceNames(p *inventory.Pool) string {
	if len(p.Slices) == 0 {
		return ""
	}
	same := !slices.ContainsFunc(p.Slices, func(s *resourceapi.ResourceSlice) bool { return nodeOf(s) != nodeOf(p.Slices[0]) })
	var names []string
	for _, s := range p.Slices {
		name := s.Name
		if node := nodeOf(s); !same && node != "" {
			name += " of node " + node
		}
		names = append(names, name)
	}
	return Verb(len(names), "slice ", "slices ") + ListAnd(names)
}

// nodeOf is the node that a slice is for, empty where it may be several.
func nodeOf(s *resourceapi.ResourceSlice) string {
	if s.Spec.NodeName == nil {
		return ""
	}
	return *s.Spec.NodeName
}

// Rivals says that others publish a pool of the same name, so that nodes have different
// devices in it; empty where none does. Names of devices are for the whole cluster: where
// one is taken, those of the same name on other nodes are not given out.
func Rivals(p *inventory.Pool) string {
	if len(p.Publishers) == 0 || p.Problem != nil {
		return ""
	}
	return fmt.Sprintf("pool %s: %s slices of this name that do not belong together; devices of the same name are given out only once", p.ID, publishers(p))
}

// where names the two slices that publish the same thing.
func where(e *inventory.PoolProblem) string {
	if slice(e, 0) == slice(e, 1) {
		return "both times in slice " + slice(e, 0)
	}
	return fmt.Sprintf("in slices %s and %s", slice(e, 0), slice(e, 1))
}

func slice(e *inventory.PoolProblem, i int) string {
	if i < len(e.Slices) {
		return e.Slices[i]
	}
	return "an unknown slice"
}
