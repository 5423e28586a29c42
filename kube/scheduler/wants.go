// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"iter"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/inventory"
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

// matches reports whether the selectors of the class and of the request match
// the device. Nothing matches an unknown class, and no failing selector matches.
func (pl *Plugin) matches(w want, device *inventory.Device) bool {
	class, err := pl.manager.DeviceClasses().Get(w.class)
	if err != nil {
		return false
	}
	return pl.selects(class.Spec.Selectors, device) && pl.selects(w.selectors, device)
}

func (pl *Plugin) selects(selectors []resourceapi.DeviceSelector, device *inventory.Device) bool {
	for _, s := range selectors {
		if s.CEL == nil {
			return false
		}
		if ok, _, err := pl.matcher.Match(nil, s.CEL.Expression, device); err != nil || !ok {
			return false
		}
	}
	return true
}

// anyWants reports whether some request of the claims could use the device.
func (pl *Plugin) anyWants(claims []*podClaim, device *inventory.Device) bool {
	for _, pc := range claims {
		for w := range wantsOf(pc.claim) {
			if pl.matches(w, device) {
				return true
			}
		}
	}
	return false
}
