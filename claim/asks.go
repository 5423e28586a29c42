// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"fmt"
	"iter"

	resourceapi "k8s.io/api/resource/v1"
)

// Ask is what a request asks for, or one alternative of a prioritized list (KEP-4816).
type Ask struct {
	// Request is its name as results and constraints have it: request, or
	// request/alternative.
	Request string
	// DeviceSubRequest has all that a request says of devices, but for AdminAccess.
	*resourceapi.DeviceSubRequest
	AdminAccess bool

	// index is that of the request, alternative that in its list or -1.
	index, alternative int
}

// Path is that of the field below the claim's spec.devices.
func (a Ask) Path() string {
	if a.alternative < 0 {
		return fmt.Sprintf("requests[%d].exactly", a.index)
	}
	return fmt.Sprintf("requests[%d].firstAvailable[%d]", a.index, a.alternative)
}

// All reports whether it asks for all devices that suit it, not for a number of them.
func (a Ask) All() bool { return a.AllocationMode == resourceapi.DeviceAllocationModeAll }

// Asks yields what a claim asks for, in the order of its spec.
func Asks(devices *resourceapi.DeviceClaim) iter.Seq[Ask] {
	return func(yield func(Ask) bool) {
		for i := range devices.Requests {
			r := &devices.Requests[i]
			if r.Exactly != nil && !yield(exactly(r, i)) {
				return
			}
			for k := range r.FirstAvailable {
				sub := &r.FirstAvailable[k]
				if !yield(Ask{Request: r.Name + "/" + sub.Name, DeviceSubRequest: sub, index: i, alternative: k}) {
					return
				}
			}
		}
	}
}

func exactly(r *resourceapi.DeviceRequest, index int) Ask {
	e := r.Exactly
	return Ask{
		Request: r.Name, index: index, alternative: -1, AdminAccess: e.AdminAccess != nil && *e.AdminAccess,
		DeviceSubRequest: &resourceapi.DeviceSubRequest{
			Name: r.Name, DeviceClassName: e.DeviceClassName, Selectors: e.Selectors, AllocationMode: e.AllocationMode,
			Count: e.Count, Tolerations: e.Tolerations, Capacity: e.Capacity, DerivedAttributes: e.DerivedAttributes,
		},
	}
}

// AskOf returns what the request of that name asks for, ok is false where the claim has
// no such request.
func AskOf(devices *resourceapi.DeviceClaim, request string) (ask Ask, ok bool) {
	for ask := range Asks(devices) {
		if ask.Request == request {
			return ask, true
		}
	}
	return Ask{}, false
}

// RequestNames lists what constraints and configuration may name: each request, and
// request/alternative for each alternative of a prioritized list.
func RequestNames(devices *resourceapi.DeviceClaim) []string {
	var names []string
	for i := range devices.Requests {
		r := &devices.Requests[i]
		names = append(names, r.Name)
		for k := range r.FirstAvailable {
			names = append(names, r.Name+"/"+r.FirstAvailable[k].Name)
		}
	}
	return names
}
