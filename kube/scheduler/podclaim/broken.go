// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package podclaim

import (
	"fmt"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/clock"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/inventory"
)

// BindingError says that devices of a claim will not become ready (KEP-5007):
// a binding failure condition is true, or the binding conditions were not met in
// time.
type BindingError struct {
	Claim *resourceapi.ResourceClaim
	// Timeout is the limit that was exceeded, 0 for a failure.
	Timeout time.Duration
	Devices []inventory.DeviceID
	// details has a text per device.
	details []string
}

// Error names the claim, the devices and what they are missing.
func (e *BindingError) Error() string {
	details := strings.Join(e.details, "; ")
	if e.Timeout == 0 {
		return fmt.Sprintf("binding failed: claim %s: %s", NameOf(e.Claim), details)
	}
	return fmt.Sprintf("binding timeout: claim %s: not ready within %s: %s", NameOf(e.Claim), e.Timeout, details)
}

// Add notes a device, and what it is missing or how it failed.
func (e *BindingError) Add(device inventory.DeviceID, detail string) {
	e.Devices, e.details = append(e.Devices, device), append(e.details, detail)
}

// Bindings knows for how long devices may take to become ready.
type Bindings struct {
	Clock   clock.PassiveClock
	Timeout time.Duration
}

// BrokenBinding returns why the devices of an allocated claim will not become
// ready, nil while they are or still may.
func (b *Bindings) BrokenBinding(c *resourceapi.ResourceClaim, waitingSince time.Time) *BindingError {
	state := claim.BindingOf(c)
	if len(state.Failed) > 0 {
		return failedBinding(c, state.Failed)
	}
	if len(state.Pending) > 0 && !b.Clock.Now().Before(b.BindingDeadline(c, waitingSince)) {
		e := &BindingError{Claim: c, Timeout: b.Timeout}
		for _, d := range state.Pending {
			e.Add(d.Device, waitsFor(d))
		}
		return e
	}
	return nil
}

// BindingDeadline returns when the claim's devices have to be ready. It counts
// from the allocation, so it stays the same when the scheduler restarts, or from
// waitingSince if the claim does not tell when it was allocated.
func (b *Bindings) BindingDeadline(claim *resourceapi.ResourceClaim, waitingSince time.Time) time.Time {
	if allocated := claim.Status.Allocation.AllocationTimestamp; allocated != nil {
		waitingSince = allocated.Time
	}
	return waitingSince.Add(b.Timeout)
}

func failedBinding(c *resourceapi.ResourceClaim, failures []claim.Failure) *BindingError {
	e := &BindingError{Claim: c}
	for _, f := range failures {
		e.Add(f.Device, fmt.Sprintf("device %s: condition %s is true: %s: %s", f.Device, f.Condition.Type, f.Condition.Reason, f.Condition.Message))
	}
	return e
}

func waitsFor(d claim.Unready) string {
	return fmt.Sprintf("device %s: waits for condition %s", d.Device, strings.Join(d.Missing, ", "))
}

// A pod that names an allocated claim joins the pods that use it, unless a device of the
// claim has a taint which keeps further pods away (KEP-5055). It waits then until the
// taint is gone, or until nobody else uses the claim: that is given up and allocated
// anew. Joined before, it would be evicted as soon as it runs, where the taint says so.

// JoinError says that a pod may not use an allocated claim.
type JoinError struct {
	Claim   *resourceapi.ResourceClaim
	Devices []claim.Tainted
}

// Error names the claim, its devices and their taints.
func (e *JoinError) Error() string {
	return explain.NotJoinable(e.Claim, e.Devices, explain.Options{})
}
