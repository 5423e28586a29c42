// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/inventory"
)

// bindingError says that devices of a claim will not become ready (KEP-5007):
// a binding failure condition is true, or the binding conditions were not met in
// time.
type bindingError struct {
	claim *resourceapi.ResourceClaim
	// timeout is the limit that was exceeded, 0 for a failure.
	timeout time.Duration
	devices []inventory.DeviceID
	// details has a text per device.
	details []string
}

// Error names the claim, the devices and what they are missing.
func (e *bindingError) Error() string {
	details := strings.Join(e.details, "; ")
	if e.timeout == 0 {
		return fmt.Sprintf("binding failed: claim %s: %s", nameOf(e.claim), details)
	}
	return fmt.Sprintf("binding timeout: claim %s: not ready within %s: %s", nameOf(e.claim), e.timeout, details)
}

// bindingState is how far the devices of a claim are.
type bindingState struct {
	// pending and failed devices; none of both means ready.
	pending, failed []deviceState
}

func (s bindingState) ready() bool { return len(s.pending) == 0 && len(s.failed) == 0 }

// deviceState is a device that is not ready.
type deviceState struct {
	id inventory.DeviceID
	// detail says what it is missing, or how it failed.
	detail string
}

// bindingStateOf looks at the devices of an allocated claim that have binding
// conditions.
func bindingStateOf(claim *resourceapi.ResourceClaim) bindingState {
	var state bindingState
	for i := range claim.Status.Allocation.Devices.Results {
		result := &claim.Status.Allocation.Devices.Results[i]
		if len(result.BindingConditions) == 0 {
			continue
		}
		id := inventory.DeviceID{Driver: result.Driver, Pool: result.Pool, Device: result.Device}
		conditions := conditionsOf(claim, result)
		if failure := firstTrue(conditions, result.BindingFailureConditions); failure != nil {
			state.failed = append(state.failed, deviceState{id, fmt.Sprintf("device %s: condition %s is true: %s: %s", id, failure.Type, failure.Reason, failure.Message)})
			continue
		}
		missing := slices.DeleteFunc(slices.Clone(result.BindingConditions), func(condition string) bool {
			return apimeta.IsStatusConditionTrue(conditions, condition)
		})
		if len(missing) > 0 {
			state.pending = append(state.pending, deviceState{id, fmt.Sprintf("device %s: waits for condition %s", id, strings.Join(missing, ", "))})
		}
	}
	return state
}

// conditionsOf returns what the driver says about an allocated device. What it
// said about an earlier allocation of the same device does not count: conditions
// must be younger than the allocation, in the seconds that the API stores.
func conditionsOf(claim *resourceapi.ResourceClaim, result *resourceapi.DeviceRequestAllocationResult) []metav1.Condition {
	i := statusIndex(claim, result)
	if i < 0 {
		return nil
	}
	allocated := claim.Status.Allocation.AllocationTimestamp
	if allocated == nil {
		return claim.Status.Devices[i].Conditions
	}
	return slices.DeleteFunc(slices.Clone(claim.Status.Devices[i].Conditions), func(c metav1.Condition) bool {
		return c.LastTransitionTime.Unix() < allocated.Unix()
	})
}

// statusIndex finds the status of an allocated device, -1 where it has none.
func statusIndex(claim *resourceapi.ResourceClaim, result *resourceapi.DeviceRequestAllocationResult) int {
	return slices.IndexFunc(claim.Status.Devices, func(d resourceapi.AllocatedDeviceStatus) bool {
		return d.Driver == result.Driver && d.Pool == result.Pool && d.Device == result.Device && sameShare(d.ShareID, result)
	})
}

func sameShare(shareID *string, result *resourceapi.DeviceRequestAllocationResult) bool {
	if shareID == nil || result.ShareID == nil {
		return shareID == nil && result.ShareID == nil
	}
	return *shareID == string(*result.ShareID)
}

func firstTrue(conditions []metav1.Condition, types []string) *metav1.Condition {
	for _, t := range types {
		if c := apimeta.FindStatusCondition(conditions, t); c != nil && c.Status == metav1.ConditionTrue {
			return c
		}
	}
	return nil
}

// brokenBinding returns why the devices of an allocated claim will not become
// ready, nil while they are or still may.
func (pl *Plugin) brokenBinding(claim *resourceapi.ResourceClaim, waitingSince time.Time) *bindingError {
	state := bindingStateOf(claim)
	if len(state.failed) > 0 {
		return newBindingError(claim, 0, state.failed)
	}
	if len(state.pending) > 0 && !pl.clock.Now().Before(pl.bindingDeadline(claim, waitingSince)) {
		return newBindingError(claim, pl.args.BindingTimeout.Duration, state.pending)
	}
	return nil
}

func newBindingError(claim *resourceapi.ResourceClaim, timeout time.Duration, devices []deviceState) *bindingError {
	e := &bindingError{claim: claim, timeout: timeout}
	for _, d := range devices {
		e.devices = append(e.devices, d.id)
		e.details = append(e.details, d.detail)
	}
	return e
}

// bindingDeadline returns when the claim's devices have to be ready. It counts
// from the allocation, so it stays the same when the scheduler restarts, or from
// waitingSince if the claim does not tell when it was allocated.
func (pl *Plugin) bindingDeadline(claim *resourceapi.ResourceClaim, waitingSince time.Time) time.Time {
	if allocated := claim.Status.Allocation.AllocationTimestamp; allocated != nil {
		waitingSince = allocated.Time
	}
	return waitingSince.Add(pl.args.BindingTimeout.Duration)
}

// hasBindingConditions reports whether some device of the claim has to become
// ready before the pod can be bound.
func hasBindingConditions(claim *resourceapi.ResourceClaim) bool {
	return claim.Status.Allocation != nil && slices.ContainsFunc(claim.Status.Allocation.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool {
		return len(r.BindingConditions) > 0
	})
}
