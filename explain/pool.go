// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"

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

// Problem says what one of the pool's problems is, without the name of the pool.
func Problem(p *inventory.Pool, e *inventory.PoolProblem) string {
	switch e.Kind {
	case inventory.Incomplete:
		if e.Have > e.Want {
			return fmt.Sprintf("%s of generation %d published, but resourceSliceCount is %d", count(int(e.Have), "slice"), p.Generation, e.Want)
		}
		return fmt.Sprintf("%d of %s of generation %d published", e.Have, count(int(e.Want), "slice"), p.Generation)
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
		return fmt.Sprintf("slice %s has a node selector that is not valid: %s", e.Name, cut(e.Detail, 120))
	case inventory.Uncountable:
		return fmt.Sprintf("%s of slice %s is more than 1e24, which nobody can compute with", e.Field, e.Name)
	}
	return string(e.Kind)
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
