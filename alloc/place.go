// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
)

// place is where in a claim something is asked for. It becomes text for errors alone:
// a pod may have thousands of alternatives.
type place struct{ request, alternative int }

// What may stand for an alternative: the request as a whole, or what it asks for
// exactly.
const (
	whollyAsked  = -1
	exactlyAsked = -2
)

// String is the path of the field.
func (p place) String() string {
	text := fmt.Sprintf("spec.devices.requests[%d]", p.request)
	switch p.alternative {
	case whollyAsked:
		return text
	case exactlyAsked:
		return text + ".exactly"
	}
	return fmt.Sprintf("%s.firstAvailable[%d]", text, p.alternative)
}

// selector is the path of a selector.
func (p place) selector(i int) string { return fmt.Sprintf("%s.selectors[%d].cel", p, i) }

// classSelector is the path of a selector in a device class.
func classSelector(i int) string { return fmt.Sprintf("spec.selectors[%d].cel", i) }

// check compiles expressions to see whether they are valid, as many as there is work for:
// those of classes and of first alternatives before others, for they are looked at first.
// One that is left out tells on the first device that it is tried on.
func (p *Problem) check() error {
	classes := map[*resourceapi.DeviceClass]bool{}
	for _, first := range []bool{true, false} {
		for _, a := range p.asks {
			if (a.rank == 0) != first {
				continue
			}
			if !classes[a.class] {
				classes[a.class] = true
				for i, s := range a.class.Spec.Selectors {
					if err := p.checkExpression("device class "+a.class.Name, func() string { return classSelector(i) }, s.CEL.Expression); err != nil {
						return err
					}
				}
			}
			for i, expression := range a.selectors {
				if err := p.checkExpression("claim "+a.ref.Claim, func() string { return p.placeOf(a).selector(i) }, expression); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// placeOf is where the ask is in its claim.
func (p *Problem) placeOf(a *ask) place {
	at := place{alternative: exactlyAsked}
	for r := a.request; r > 0 && p.requests[r-1].claim == a.claim; r-- {
		at.request++
	}
	if p.claims[a.claim].Spec.Devices.Requests[at.request].Exactly == nil {
		at.alternative = a.rank
	}
	return at
}

func (p *Problem) checkExpression(object string, field func() string, expression string) error {
	if p.compiling.compiled[expression] || !p.compiling.payCompilation(expression) {
		return nil
	}
	if err := p.matcher.Compile(expression); err != nil {
		return &InputError{Object: object, Field: field() + ".expression", Problem: "the CEL expression is not valid", Err: err}
	}
	return nil
}
