// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"kerf.dev/kerf/inventory"
)

// exchanges knows the claims whose allocation is being exchanged for devices that
// have arrived. Between the two writes that this takes the API knows of no
// allocation: what the claim is to have is promised here.
type exchanges struct {
	// turn is held by whoever looks for free devices and then takes them: an
	// exchange, or Reserve.
	turn sync.Mutex

	// held learns of what is promised.
	held *reservations

	mutex    sync.Mutex
	underWay map[types.UID][]inventory.DeviceID
	// last has what was exchanged for what, for others that wait for the claim.
	last map[types.UID]exchange
}

// exchange is what was exchanged for what, and the version of the claim with the
// result.
type exchange struct {
	from, to *resourceapi.AllocationResult
	version  string
}

func newExchanges(held *reservations) *exchanges {
	return &exchanges{held: held, underWay: map[types.UID][]inventory.DeviceID{}, last: map[types.UID]exchange{}}
}

// begin is false if somebody else exchanges the claim's devices, or did so since
// this version of it.
func (e *exchanges) begin(claim *resourceapi.ResourceClaim) bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if _, found := e.underWay[claim.UID]; found || e.isOlder(claim) {
		return false
	}
	e.underWay[claim.UID] = nil
	return true
}

// promise keeps devices for the claim until end.
func (e *exchanges) promise(claim types.UID, allocation *resourceapi.AllocationResult) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.underWay[claim] = devicesIn(allocation)
	e.held.hold(holder{claim: claim}, e.underWay[claim])
}

// done notes that the exchange was carried out.
func (e *exchanges) done(claim types.UID, x exchange) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.last[claim] = x
}

// end ends what begin has begun.
func (e *exchanges) end(claim types.UID) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	delete(e.underWay, claim)
	e.held.release(holder{claim: claim})
}

// of reports whether the devices of the claim are being exchanged.
func (e *exchanges) of(claim types.UID) bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	_, found := e.underWay[claim]
	return found
}

// outdated reports whether the claim is seen as it was before an exchange, or in
// the middle of it.
func (e *exchanges) outdated(claim *resourceapi.ResourceClaim) bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if _, found := e.underWay[claim.UID]; found {
		return true
	}
	return e.isOlder(claim)
}

// isOlder must be called with the lock held.
func (e *exchanges) isOlder(claim *resourceapi.ResourceClaim) bool {
	x, found := e.last[claim.UID]
	if !found {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(claim.ResourceVersion, x.version)
	return err == nil && order < 0
}

// made reports whether one allocation of the claim was exchanged for the other.
func (e *exchanges) made(claim types.UID, from, to *resourceapi.AllocationResult) bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	x, found := e.last[claim]
	return found && sameAllocation(x.from, from) && sameAllocation(x.to, to)
}

// promised lists the devices that claims are about to get.
func (e *exchanges) promised() []inventory.DeviceID {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	var all []inventory.DeviceID
	for _, devices := range e.underWay {
		all = append(all, devices...)
	}
	return all
}

// anyOf returns a device that a claim would take although it was promised to
// another, empty if there is none.
func (e *exchanges) anyOf(claims []*podClaim) string {
	promised := e.promised()
	for _, pc := range claims {
		if pc.pending == nil || len(promised) == 0 {
			continue
		}
		for _, id := range devicesIn(pc.pending) {
			if slices.Contains(promised, id) {
				return id.String()
			}
		}
	}
	return ""
}

func (e *exchanges) forget(claim types.UID) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	delete(e.last, claim)
}
