// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"encoding/json"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/fabric"
)

// setCondition writes a condition of a claim's device, and with the binding
// condition where the device is. A claim that is gone, or allocated anew, is left
// alone.
func (c *carrier) setCondition(ctx context.Context, action fabric.SetCondition) error {
	var written *resourceapi.ResourceClaim
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		claim := &resourceapi.ResourceClaim{}
		key := client.ObjectKey{Namespace: action.Claim.Namespace, Name: action.Claim.Name}
		if err := c.live.Get(ctx, key, claim); err != nil {
			return client.IgnoreNotFound(err)
		}
		changed, err := conditionOn(claim, &action, metav1.Now())
		if err != nil || !changed {
			return err
		}
		written = claim
		return c.client.Status().Update(ctx, claim)
	})
	if err != nil {
		return fmt.Errorf("claim %s/%s, status of device %s: %w", action.Claim.Namespace, action.Claim.Name, action.Device.Device, err)
	}
	if written != nil {
		c.tell.condition(written, &action)
	}
	return nil
}

// conditionOn changes a claim as an action says and tells whether there was
// something to change.
func conditionOn(c *resourceapi.ResourceClaim, action *fabric.SetCondition, now metav1.Time) (bool, error) {
	result := resultFor(c, action)
	if result == nil {
		return false, nil
	}
	status := claim.DeviceStatus(c, result)
	if status == nil {
		c.Status.Devices = append(c.Status.Devices, resourceapi.AllocatedDeviceStatus{
			Driver: result.Driver, Pool: result.Pool, Device: result.Device, ShareID: (*string)(result.ShareID),
		})
		status = &c.Status.Devices[len(c.Status.Devices)-1]
	}
	kind, reason := v1alpha1.ConditionAttached, "Attached"
	if action.Failed {
		kind, reason = v1alpha1.ConditionAttachFailed, string(action.Reason)
	}
	if apimeta.IsStatusConditionTrue(claim.Conditions(c, result), kind) {
		return false, nil
	}
	allocated := c.Status.Allocation.AllocationTimestamp
	if allocated != nil && now.Before(allocated) {
		// The clock of the scheduler is ahead. A condition from before the allocation
		// would not count.
		now = *allocated
	}
	// One of an older allocation has its time.
	apimeta.RemoveStatusCondition(&status.Conditions, kind)
	apimeta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: shortened(messageOf(action)),
		LastTransitionTime: now, ObservedGeneration: c.Generation,
	})
	if action.Target == nil || action.Failed {
		return true, nil
	}
	target := referenceTo(*action.Target)
	data, err := json.Marshal(v1alpha1.Arrival{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: v1alpha1.ArrivalKind},
		Target:   &target,
	})
	status.Data = &runtime.RawExtension{Raw: data}
	return true, err
}

// messageOf says for people what a condition is about. What the planner says is why
// it was to be set, which for a device that has arrived is no news.
func messageOf(action *fabric.SetCondition) string {
	if action.Failed && action.Reason != fabric.ReasonArrived {
		return action.Message
	}
	arrived := "device " + action.Device.Device + " has arrived"
	if d := action.Target; d != nil {
		arrived += " as " + d.Driver + "/" + d.Pool + "/" + d.Device
	}
	if action.Failed {
		arrived += "; the pod is scheduled again to find it"
	}
	return arrived
}

// resultFor is the allocated device that an action is about; nil where the claim is
// another by now, or has another allocation.
func resultFor(c *resourceapi.ResourceClaim, action *fabric.SetCondition) *claim.Result {
	if c.UID != action.Claim.UID || c.Status.Allocation == nil || !claimOf(c).AllocatedAt.Equal(action.AllocatedAt) {
		return nil
	}
	for _, r := range claim.Results(c) {
		if localResult(r) == action.Device {
			return r
		}
	}
	return nil
}
