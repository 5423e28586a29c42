// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/inventory"
)

// Failures remembers which devices failed to become ready for a claim, so that
// the next attempt prefers others. It is forgotten when the claim's pod gets
// bound, when the claim is gone, and when the scheduler restarts.
type Failures struct {
	mutex   sync.Mutex
	byClaim map[types.UID][]inventory.DeviceID
}

func newFailures() *Failures {
	return &Failures{byClaim: map[types.UID][]inventory.DeviceID{}}
}

// Add notes that the devices failed the claim and reports whether any of them is
// new.
func (f *Failures) Add(claim types.UID, devices []inventory.DeviceID) bool {
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

// Of returns the devices that failed the claim.
func (f *Failures) Of(claim types.UID) []inventory.DeviceID {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return slices.Clone(f.byClaim[claim])
}

// Forget drops what is remembered of a claim.
func (f *Failures) Forget(claim types.UID) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	delete(f.byClaim, claim)
}
