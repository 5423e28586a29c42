// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestBudgetEndsCounting: bounds look at every constraint and at every request. They stop
// when the budget is spent, and what explains a refusal stops with its own.
func TestBudgetEndsCounting(t *testing.T) {
	const steps = 50_000
	for name, constraint := range map[string]func(name *resourceapi.FullyQualifiedName) resourceapi.DeviceConstraint{
		"match": func(name *resourceapi.FullyQualifiedName) resourceapi.DeviceConstraint {
			return resourceapi.DeviceConstraint{MatchAttribute: name}
		},
		"distinct": func(name *resourceapi.FullyQualifiedName) resourceapi.DeviceConstraint {
			return resourceapi.DeviceConstraint{DistinctAttribute: name}
		},
	} {
		for _, strategy := range []Strategy{BestFit, Listed} {
			w := crowdedWorld(constraint)
			problem, err := Compile(w.Claims, w.Class, tableMatcher{}, Options{Strategy: strategy, StepBudget: steps})
			if err != nil {
				t.Fatal(err)
			}
			out, err := problem.Allocate(w.View())
			if err != nil {
				t.Fatal(err)
			}
			if most := problem.Work() + 4*mostExplaining; out.Work > most {
				t.Errorf("%s, %s: took %d units of work, want at most %d", name, strategy, out.Work, most)
			}
		}
	}
}

// crowdedWorld has as many requests as claims of a pod may have, most of which
// constraints tie to others, and devices with long lists of values.
func crowdedWorld(constraint func(*resourceapi.FullyQualifiedName) resourceapi.DeviceConstraint) *World {
	const claims, requests, devices, values = 100, 32, 3300, 48
	var w []*resourceapi.ResourceClaim
	for c := range claims {
		claim := claimFor(fmt.Sprintf("c%d", c), types.UID(fmt.Sprint(c)))
		for r := range requests {
			claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, anyOf(fmt.Sprintf("r%d", r), 1))
			one := constraint(ptr(resourceapi.FullyQualifiedName("a.example.com/v")))
			one.Requests = []string{fmt.Sprintf("r%d", r), fmt.Sprintf("r%d", (r+1)%requests)}
			claim.Spec.Devices.Constraints = append(claim.Spec.Devices.Constraints, one)
		}
		w = append(w, claim)
	}
	var list []resourceapi.Device
	for i := range devices {
		d := resourceapi.Device{Name: fmt.Sprintf("d%d", i)}
		var of []int64
		for v := range values {
			of = append(of, int64(i*values+v))
		}
		d.Attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"v": {IntValues: of}}
		list = append(list, d)
	}
	return someDevices(w, list...)
}
