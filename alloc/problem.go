// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/inventory"
)

// Problem is a set of claims, ready to be solved on any node. It is immutable.
type Problem struct {
	claims      []*resourceapi.ResourceClaim
	requests    []*request
	asks        []*ask
	constraints []*constraint
	// ties are the requests that each constraint applies to; tied has them as a
	// set.
	ties [][]tie
	// own and ownRequests are where the constraints and the requests of the claim begin
	// that is being compiled, compiling what may still be spent on its expressions.
	own         int
	ownRequests int
	attributes  map[resourceapi.FullyQualifiedName]int
	compiling   *meter
	// firsts has the first ask that looks for something, of all claims and of the one
	// that is being compiled.
	firsts map[seeks][2]int
	// scratch is where asks are written down to be compared, limits where the constraints
	// are collected that apply to one.
	scratch []byte
	limits  []int
	// compiled are the expressions that the matcher has seen.
	compiled map[string]bool
	tied     []bits
	matcher  Matcher
	options  Options
	reading  reading
}

// Compile checks the claims and prepares them. The claims must not be allocated;
// they are not changed. The error is an *InputError. Of many expressions only some are
// checked now, those of classes and first alternatives before others; one of the others
// that is not valid matches no device.
func Compile(claims []*resourceapi.ResourceClaim, classes Classes, matcher Matcher, options Options) (*Problem, error) {
	p := &Problem{claims: claims, matcher: matcher, options: options.withDefaults(), reading: options.reading()}
	p.compiling = newMeter(checkWork, nil)
	for claim := range claims {
		p.own, p.ownRequests = len(p.constraints), len(p.requests)
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
	if err := p.check(); err != nil {
		return nil, err
	}
	p.tie()
	p.compiled = p.compiling.compiled
	p.compiling, p.attributes, p.firsts, p.scratch, p.limits = nil, nil, nil, nil, nil
	return p, nil
}

// tie is a request that a constraint applies to: by has a bit for each alternative
// of it.
type tie struct {
	request int
	by      uint64
}

// tie finds out which requests constraints apply to: the same for all of a claim that
// name the same requests.
func (p *Problem) tie() {
	p.ties, p.tied = make([][]tie, len(p.constraints)), make([]bits, len(p.constraints))
	like := make([]int, len(p.constraints))
	for c, of := range p.constraints {
		like[c] = c
		if c > 0 && p.constraints[c-1].claim == of.claim && slices.Equal(p.constraints[c-1].requests, of.requests) {
			like[c] = like[c-1]
			continue
		}
		p.tied[c] = newBits(len(p.requests))
	}
	for r, of := range p.requests {
		for k, a := range of.asks {
			for _, c := range a.limits {
				if like[c] != c {
					continue
				}
				if !p.tied[c].has(r) {
					p.tied[c].set(r)
					p.ties[c] = append(p.ties[c], tie{request: r})
				}
				p.ties[c][len(p.ties[c])-1].by |= 1 << k
			}
		}
	}
	for c, first := range like {
		p.ties[c], p.tied[c] = p.ties[first], p.tied[first]
	}
}

// Allocate solves the problem on a node. There are errors only with
// Options.Stock: *SelectorError, *DeviceError, *AllError and *LimitError.
func (p *Problem) Allocate(view *inventory.View) (Outcome, error) {
	return p.reading.allocate(p, view)
}

// outcome is what a search found, or how far it got. Neither a cost nor an explanation comes
// with it yet.
func (s *search) outcome(v verdict) Outcome {
	out := Outcome{Steps: s.steps, Work: s.meter.used}
	switch v {
	case yes:
		out.Result = (&answer{s.board, s.state.asks, s.solution}).result()
	case no:
		out.Refusal = &Refusal{}
	default:
		out.GaveUp = &GaveUp{Budget: s.problem.options.StepBudget, Spent: s.meter.bill(), Stopped: s.meter.stopped}
	}
	return out
}

// Work is what an attempt may take, in units of Outcome.Work.
func (p *Problem) Work() int64 { return p.options.work }

// Within returns the same problem with less to spend on it: no more work than that,
// in units of Outcome.Work, and none after stop, which may be nil.
func (p *Problem) Within(work int64, stop Stop) *Problem {
	limited := *p
	limited.options.work = min(p.options.work, max(work, 0))
	limited.options.Stop = stop
	return &limited
}
