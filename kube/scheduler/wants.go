// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"iter"

	resourceapi "k8s.io/api/resource/v1"
)

// want is what a request, or one alternative of it, says about a device.
type want struct {
	class     string
	selectors []resourceapi.DeviceSelector
	all       bool
}

// wantsOf yields the requests of a claim and their alternatives.
func wantsOf(claim *resourceapi.ResourceClaim) iter.Seq[want] {
	return func(yield func(want) bool) {
		for i := range claim.Spec.Devices.Requests {
			request := &claim.Spec.Devices.Requests[i]
			if e := request.Exactly; e != nil {
				if !yield(want{e.DeviceClassName, e.Selectors, e.AllocationMode == resourceapi.DeviceAllocationModeAll}) {
					return
				}
			}
			for j := range request.FirstAvailable {
				sub := &request.FirstAvailable[j]
				if !yield(want{sub.DeviceClassName, sub.Selectors, sub.AllocationMode == resourceapi.DeviceAllocationModeAll}) {
					return
				}
			}
		}
	}
}
