// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"math"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
)

// purse is what searches may take together, in units of alloc.Outcome.Work.
type purse int64

func newPurse(problem *alloc.Problem, nodes int) purse {
	return purse(min(problem.Work(), math.MaxInt64/2) + int64(nodes)*alloc.NodeWork)
}

// allocate solves a problem as far as the purse allows.
func (p *purse) allocate(problem *alloc.Problem, view *inventory.View) (alloc.Outcome, error) {
	if *p <= 0 {
		return alloc.Outcome{GaveUp: &alloc.GaveUp{Before: true}}, nil
	}
	out, err := problem.Within(int64(*p), nil).Allocate(view)
	*p -= purse(out.Work)
	return out, err
}
