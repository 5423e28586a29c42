// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
)

// Tainted is a device that a claim has, and the taints for which no further pod may use
// it.
type Tainted struct {
	Device inventory.DeviceID
	Taints []inventory.Taint
}

// Untolerated lists what keeps pods from joining an allocated claim: taints of its
// devices with the effect NoSchedule or NoExecute which their requests do not tolerate
// (KEP-5055). Pods that run with the claim are none of its business. Devices are those
// of the allocation, nil where one is not known; about has further taints of a device,
// nil if there are none.
func Untolerated(claim *resourceapi.ResourceClaim, devices []*inventory.Device, about func(inventory.DeviceID) []inventory.Taint) []Tainted {
	if claim.Status.Allocation == nil {
		return nil
	}
	var found []Tainted
	for i := range claim.Status.Allocation.Devices.Results {
		result := &claim.Status.Allocation.Devices.Results[i]
		id := inventory.IDOf(result)
		var all []inventory.Taint
		if about != nil {
			all = slices.Clip(about(id))
		}
		if devices[i] != nil {
			all = merged(all, devices[i].Taints)
		}
		keep := slices.DeleteFunc(slices.Clone(all), func(t inventory.Taint) bool {
			return !inventory.KeepsAway(&t.DeviceTaint) || alloc.Tolerates(result.Tolerations, &t.DeviceTaint) || meantFor(claim.UID, &t)
		})
		if len(keep) > 0 {
			found = append(found, Tainted{id, keep})
		}
	}
	return found
}

// merged adds the taints that are not among all yet.
func merged(all, more []inventory.Taint) []inventory.Taint {
	for _, t := range more {
		if !slices.ContainsFunc(all, func(o inventory.Taint) bool {
			return o.Key == t.Key && o.Value == t.Value && o.Effect == t.Effect
		}) {
			all = append(all, t)
		}
	}
	return all
}

// meantFor tells whether a taint of a device that the claim has is not against it: a
// device that is kept for the claim, or one among which another's arrives. What somebody
// has is not what arrives.
func meantFor(claim types.UID, t *inventory.Taint) bool {
	return t.Key == inventory.ArrivingTaint || t.Key == inventory.ClaimTaint && t.Value == string(claim)
}
