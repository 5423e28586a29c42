// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/inventory"
)

// failures remembers which devices failed to become ready for a claim, so that
// the next attempt prefers others. It is forgotten when the claim's pod gets
// bound, when the claim is gone, and when the scheduler restarts.
type failures struct {
	mutex   sync.Mutex
	byClaim map[types.UID][]inventory.DeviceID
}

func newFailures() *failures {
	return &failures{byClaim: map[types.UID][]inventory.DeviceID{}}
}

// add notes that the devices failed the claim and reports whether any of them is
// new.
func (f *failures) add(claim types.UID, devices []inventory.DeviceID) bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	fresh := false
	for _, id := range devices {
		if !slices.Contains(f.byClaim[claim], id) {
			f.byClaim[claim] = append(f.byClaim[claim], id)
			fresh = true
		}
	}
	return fresh
}

// of returns the devices that failed the claim.
func (f *failures) of(claim types.UID) []inventory.DeviceID {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return slices.Clone(f.byClaim[claim])
}

func (f *failures) forget(claim types.UID) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	delete(f.byClaim, claim)
}
