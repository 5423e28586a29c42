// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// Exchanges knows the claims whose allocation is being exchanged for devices that
// have arrived. Between the two writes that this takes the API knows of no
// allocation: what the claim is to have is promised here.
type Exchanges struct {
	// Turn is held by whoever looks for free devices and then takes them: an
	// exchange, or Reserve.
	Turn sync.Mutex

	// held learns of what is promised.
	held *Reservations

	mutex    sync.Mutex
	underWay map[types.UID][]inventory.DeviceID
	// last has what was exchanged for what, for others that wait for the claim.
	last map[types.UID]Exchange
}

// Exchange is what was exchanged for what, and the version of the claim with the
// result.
type Exchange struct {
	From, To *resourceapi.AllocationResult
	Version  string
}

func newExchanges(held *Reservations) *Exchanges {
	return &Exchanges{held: held, underWay: map[types.UID][]inventory.DeviceID{}, last: map[types.UID]Exchange{}}
}

// Begin is false if somebody else exchanges the claim's devices, or did so since
// this version of it.
func (e *Exchanges) Begin(claim *resourceapi.ResourceClaim) bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if _, found := e.underWay[claim.UID]; found || e.isOlder(claim) {
		return false
	}
	e.underWay[claim.UID] = nil
	return true
}

// Promise keeps devices for the claim until end.
func (e *Exchanges) Promise(claim types.UID, allocation *resourceapi.AllocationResult) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.underWay[claim] = podclaim.DevicesIn(allocation)
	e.held.hold(Holder{Claim: claim}, e.underWay[claim])
}

// Done notes that the exchange was carried out.
func (e *Exchanges) Done(claim types.UID, x Exchange) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.last[claim] = x
}

// End ends what begin has begun.
func (e *Exchanges) End(claim types.UID) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	delete(e.underWay, claim)
	e.held.Release(Holder{Claim: claim})
}

// Of reports whether the devices of the claim are being exchanged.
func (e *Exchanges) Of(claim types.UID) bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	_, found := e.underWay[claim]
	return found
}

// Outdated reports whether the claim is seen as it was before an exchange, or in
// the middle of it.
func (e *Exchanges) Outdated(claim *resourceapi.ResourceClaim) bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if _, found := e.underWay[claim.UID]; found {
		return true
	}
	return e.isOlder(claim)
}

// isOlder must be called with the lock held.
func (e *Exchanges) isOlder(claim *resourceapi.ResourceClaim) bool {
	x, found := e.last[claim.UID]
	if !found {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(claim.ResourceVersion, x.Version)
	return err == nil && order < 0
}

// Made reports whether one allocation of the claim was exchanged for the other.
func (e *Exchanges) Made(claim types.UID, from, to *resourceapi.AllocationResult) bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	x, found := e.last[claim]
	return found && podclaim.SameAllocation(x.From, from) && podclaim.SameAllocation(x.To, to)
}

// Promised lists the devices that claims are about to get.
func (e *Exchanges) Promised() []inventory.DeviceID {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	var all []inventory.DeviceID
	for _, devices := range e.underWay {
		all = append(all, devices...)
	}
	return all
}

// AnyOf returns a device that a claim would take although it was promised to
// another, empty if there is none.
func (e *Exchanges) AnyOf(claims []*podclaim.Claim) string {
	promised := e.Promised()
	for _, pc := range claims {
		if pc.Pending == nil || len(promised) == 0 {
			continue
		}
		for _, id := range podclaim.DevicesIn(pc.Pending) {
			if slices.Contains(promised, id) {
				return id.String()
			}
		}
	}
	return ""
}

func (e *Exchanges) forget(claim types.UID) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	delete(e.last, claim)
}
