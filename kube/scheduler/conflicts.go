// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	v1 "k8s.io/api/core/v1"

	"kerf.dev/kerf/kube/informer"
)

// reportConflict tells that somebody else gave a device out a second time: the
// log names the claims, the events on them, which users of the namespace read, do
// not.
func (pl *Plugin) reportConflict(conflict informer.Conflict) {
	logger := pl.logger
	logger.Error(nil, "Device is allocated to several claims; is another scheduler allocating devices?", "device", conflict.Device, "claims", conflict.Claims)
	for _, holder := range conflict.Claims {
		claim, err := pl.manager.ResourceClaims().Get(holder.Namespace, holder.Claim)
		if err != nil {
			// It is gone, and with it the conflict.
			continue
		}
		pl.handle.EventRecorder().WithLogger(logger).Eventf(claim, nil, v1.EventTypeWarning, "DeviceAllocatedTwice", "Scheduling",
			"device %s is also allocated to %d other claim(s)", conflict.Device, len(conflict.Claims)-1)
	}
}
