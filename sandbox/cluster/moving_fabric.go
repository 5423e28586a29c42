// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/fabric"
)

// Fabrics are the fabrics of a cluster and what is attached through them.
type Fabrics struct {
	Fabrics     []v1alpha1.Fabric
	Attachments []v1alpha1.DeviceAttachment
}

// shortIdle is an idle time that is waited for.
const shortIdle = time.Second

// FindFabricMotions reports what the controller of fabrics is about to do, if it runs
// and reaches its managers: attachments that are on their way, claims for which there
// is none yet. All of it takes some time. An unused device that is detached after its
// idle time does not count, unless that is short.
func FindFabricMotions(state *State, fabrics *Fabrics) []Motion {
	m := &motions{state: state}
	idle := map[string]time.Duration{}
	for i := range fabrics.Fabrics {
		f := &fabrics.Fabrics[i]
		idle[f.Name] = idleTime(f)
		if f.DeletionTimestamp != nil {
			m.addTimed("fabrics", f, "is being deleted")
		} else if !reported(f) {
			m.addTimed("fabrics", f, "is not offered yet")
		}
	}
	claims := map[types.UID]*resourceapi.ResourceClaim{}
	for i := range state.ResourceClaims {
		claims[state.ResourceClaims[i].UID] = state.ResourceClaims[i]
	}
	attached := map[types.UID]bool{}
	for i := range fabrics.Attachments {
		a := &fabrics.Attachments[i]
		if a.Spec.Claim != nil {
			attached[a.Spec.Claim.UID] = true
		}
		if moves(a, claims, idle[a.Spec.Fabric]) {
			m.addTimed("deviceattachments", a, "is %s", phaseOf(a))
		}
	}
	for _, claim := range state.ResourceClaims {
		if !attached[claim.UID] && claim.DeletionTimestamp == nil && awaitsFabric(claim, idle) {
			m.addTimed("resourceclaims", claim, "has a device of a fabric and no attachment yet")
		}
	}
	return m.found
}

func idleTime(f *v1alpha1.Fabric) time.Duration {
	switch idle := f.Spec.IdleDetachAfter; {
	case f.Spec.KeepIdle || idle == nil:
		return time.Hour
	default:
		return idle.Duration
	}
}

// reported tells whether the controller has said how it is with the fabric as it is.
func reported(f *v1alpha1.Fabric) bool {
	ready := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.FabricReady)
	return ready != nil && ready.ObservedGeneration == f.Generation &&
		(ready.Status == metav1.ConditionTrue || ready.Reason == "Invalid")
}

func phaseOf(a *v1alpha1.DeviceAttachment) fabric.Phase {
	if a.Status.Phase == "" {
		return fabric.PhaseAllocated
	}
	return fabric.Phase(a.Status.Phase)
}

// moves tells whether an attachment goes on by itself.
func moves(a *v1alpha1.DeviceAttachment, claims map[types.UID]*resourceapi.ResourceClaim, idle time.Duration) bool {
	switch phaseOf(a) {
	case fabric.PhaseSettled, fabric.PhaseHandedOver:
		if a.Spec.Claim == nil || a.Status.Target == nil {
			return false
		}
		holder := claims[a.Spec.Claim.UID]
		return !has(holder, a.Status.Target) || phaseOf(a) == fabric.PhaseHandedOver && len(holder.Status.ReservedFor) > 0
	case fabric.PhaseRetained:
		return a.Status.IdleSince != nil && (a.DeletionTimestamp != nil || idle <= shortIdle)
	default:
		return true
	}
}

// has tells whether a claim, which may be gone, is allocated a device.
func has(claim *resourceapi.ResourceClaim, device *v1alpha1.DeviceReference) bool {
	if claim == nil || claim.Status.Allocation == nil {
		return false
	}
	return slices.ContainsFunc(claim.Status.Allocation.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool {
		return r.Driver == device.Driver && r.Pool == device.Pool && r.Device == device.Device
	})
}

// awaitsFabric tells whether a claim waits for a device of one of the fabrics.
func awaitsFabric[T any](c *resourceapi.ResourceClaim, fabrics map[string]T) bool {
	for _, r := range claim.Results(c) {
		name, found := strings.CutPrefix(r.Pool, fabric.PoolName(""))
		if _, known := fabrics[name]; !found || !known || len(r.BindingConditions) == 0 {
			continue
		}
		conditions := claim.Conditions(c, r)
		if !meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionAttached) && !meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionAttachFailed) {
			return true
		}
	}
	return false
}
