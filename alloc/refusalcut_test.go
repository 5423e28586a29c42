// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/inventory"
)

// dearMatcher takes most of a budget for each answer: devices match what is "any".
type dearMatcher struct{ nameMatcher }

func (dearMatcher) Match(_ Stop, expression string, _ *inventory.Device) (bool, uint64, error) {
	return expression == "any", resourceapi.CELSelectorExpressionMaxCost, nil
}

// TestRefusalWithoutTime: a refusal that is proved before all alternatives are judged is
// explained, also where judging them takes more than there is, and where it shows that
// one request is the whole reason.
func TestRefusalWithoutTime(t *testing.T) {
	for _, last := range []string{"any", "none"} {
		claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}
		for r := range 20 {
			expression := "any"
			if r == 19 {
				expression = last
			}
			claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, resourceapi.DeviceRequest{
				Name: fmt.Sprint("r", r), Exactly: &resourceapi.ExactDeviceRequest{
					DeviceClassName: "card", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
					Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}},
				},
			})
		}
		class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "card"}}
		problem, err := Compile([]*resourceapi.ResourceClaim{claim}, func(string) *resourceapi.DeviceClass { return class }, dearMatcher{}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for work := int64(1); work < 1<<40; work *= 4 {
			out, err := problem.Within(work, nil).Allocate(cards(1))
			if err != nil {
				t.Fatal(err)
			}
			if out.Result != nil {
				t.Errorf("%s, %d units of work: 20 devices of one card are given out", last, work)
			}
			if r := out.Refusal; r != nil && (len(r.Conflict.Requests) == 0 || r.Untold < 0 || len(r.Requests)+r.Untold != 20) {
				t.Errorf("%s, %d units of work: %d reports and %d untold, conflict %+v", last, work, len(r.Requests), r.Untold, r.Conflict)
			}
		}
	}
}
