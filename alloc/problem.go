// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/inventory"
)

// Problem is a set of claims, ready to be solved on any node. It is immutable.
type Problem struct {
	claims      []*resourceapi.ResourceClaim
	requests    []*request
	asks        []*ask
	constraints []*constraint
	matcher     Matcher
	options     Options
}

// Compile checks the claims and prepares them. The claims must not be allocated;
// they are not changed. The error is an *InputError.
func Compile(claims []*resourceapi.ResourceClaim, classes Classes, matcher Matcher, options Options) (*Problem, error) {
	p := &Problem{claims: claims, matcher: matcher, options: options.withDefaults()}
	for claim := range claims {
		for i := range claims[claim].Spec.Devices.Constraints {
			if err := p.compileConstraint(claim, i); err != nil {
				return nil, err
			}
		}
		for i := range claims[claim].Spec.Devices.Requests {
			if err := p.compileRequest(claim, i, classes); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

// Allocate solves the problem on a node. There are errors only with
// Options.Stock: *SelectorError, *DeviceError, *AllError and *LimitError.
func (p *Problem) Allocate(view *inventory.View) (Outcome, error) {
	if p.options.Stock {
		return p.allocateStock(view)
	}
	b := newBoard(p, view)
	s := newSearch(b, p.options.StepBudget)
	if p.options.Strategy == Listed {
		switch v, err := s.walk(0); {
		case err != nil:
			return Outcome{}, err
		case v == yes:
			return Outcome{Result: s.result(), Steps: s.steps}, nil
		}
		s.hard = true
	}
	if err := b.completeAll(); err != nil {
		return Outcome{}, err
	}
	v := s.solve()
	if s.err != nil {
		return Outcome{}, s.err
	}
	switch v {
	case yes:
		return Outcome{Result: s.result(), Steps: s.steps}, nil
	case unknown:
		return Outcome{GaveUp: &GaveUp{Budget: p.options.StepBudget}, Steps: s.steps}, nil
	}
	return Outcome{Refusal: s.refusal(), Steps: s.steps}, nil
}
