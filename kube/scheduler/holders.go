// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"k8s.io/klog/v2"

	"kerf.dev/kerf/inventory"
)

// holders returns the claims that hold devices, or are about to. What the plugin takes in
// memory has no names: the framework keeps a list of devices.
func (l *lookup) holders(logger klog.Logger) map[inventory.DeviceID][]inventory.Holder {
	claims, err := l.manager.ResourceClaims().List()
	if err != nil {
		logger.Error(err, "Cannot tell who holds devices")
		return nil
	}
	holders := map[inventory.DeviceID][]inventory.Holder{}
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			pending := l.manager.ResourceClaims().GetPendingAllocation(claim.UID)
			if pending == nil {
				continue
			}
			inFlight := *claim
			inFlight.Status.Allocation = pending
			claim = &inFlight
		}
		for _, hold := range inventory.HoldsOf(claim) {
			holders[hold.Device] = append(holders[hold.Device], hold.Holder)
		}
	}
	return holders
}
