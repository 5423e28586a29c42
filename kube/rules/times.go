// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// withoutTimes returns what takes away again the times of taints that are not set now:
// the default is the time of writing, and what is read twice has to be the same.
func withoutTimes(object runtime.Object) (restore func()) {
	var unset []*resourceapi.DeviceTaint
	note := func(taint *resourceapi.DeviceTaint) {
		if taint.TimeAdded == nil {
			unset = append(unset, taint)
		}
	}
	switch o := object.(type) {
	case *resourceapi.ResourceSlice:
		for i := range o.Spec.Devices {
			for k := range o.Spec.Devices[i].Taints {
				note(&o.Spec.Devices[i].Taints[k])
			}
		}
	case *resourceapi.DeviceTaintRule:
		note(&o.Spec.Taint)
	}
	return func() {
		for _, taint := range unset {
			taint.TimeAdded = nil
		}
	}
}
