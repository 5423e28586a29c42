// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"context"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// Joinable returns why no further pod may use an allocated claim, nil if it may. A
// DeviceTaintRule counts before the slices that it concerns have changed.
func (t *Taints) Joinable(c *resourceapi.ResourceClaim, snapshot *inventory.Snapshot) (*podclaim.JoinError, error) {
	var failure error
	byRules := func(id inventory.DeviceID) []inventory.Taint {
		taints, err := t.taintsByRules(id)
		if failure == nil {
			failure = err
		}
		return taints
	}
	tainted := claim.Untolerated(c, snapshot.LastKnown(c.Status.Allocation), byRules)
	if failure != nil || len(tainted) == 0 {
		return nil, failure
	}
	return &podclaim.JoinError{Claim: c, Devices: tainted}, nil
}

// taintsByRules are those that DeviceTaintRules give a device.
func (t *Taints) taintsByRules(id inventory.DeviceID) ([]inventory.Taint, error) {
	if t.Rules == nil {
		return nil, nil
	}
	rules, err := t.Rules.of(id.Driver)
	var taints []inventory.Taint
	for _, rule := range rules {
		if inventory.Selects(rule, id) {
			taints = append(taints, inventory.Taint{DeviceTaint: rule.Spec.Taint, Rule: rule.Name})
		}
	}
	return taints, err
}

// taintedMeanwhile looks at taints once more after the pod has waited for its devices.
func (t *Taints) taintedMeanwhile(ctx context.Context, claims []*podclaim.Claim) error {
	snapshot, err := t.Feed.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("look at taints again: %w", err)
	}
	for _, pc := range claims {
		if pc.Claim.Status.Allocation == nil {
			continue
		}
		if tainted, err := t.Joinable(pc.Claim, snapshot); tainted != nil || err != nil {
			return either(tainted, err)
		}
	}
	return nil
}

// either makes one error of two, without a nil of another type.
func either(tainted *podclaim.JoinError, err error) error {
	if err != nil || tainted == nil {
		return err
	}
	return tainted
}

// TaintsChanged reports whether a slice says something else now about taints of a device
// that one of the claims has. What is not in it may be in another that comes or goes.
func TaintsChanged(before, after *resourceapi.ResourceSlice, allocated []*podclaim.Claim) bool {
	return slices.ContainsFunc(allocated, func(pc *podclaim.Claim) bool {
		return slices.ContainsFunc(podclaim.DevicesIn(pc.Claim.Status.Allocation), func(id inventory.DeviceID) bool {
			was, is := publishedAs(before, id), publishedAs(after, id)
			if was == nil || is == nil {
				return was != is
			}
			return !sameSet(keepingAway(was), keepingAway(is))
		})
	})
}

func publishedAs(slice *resourceapi.ResourceSlice, id inventory.DeviceID) *resourceapi.Device {
	if slice == nil || slice.Spec.Driver != id.Driver || slice.Spec.Pool.Name != id.Pool {
		return nil
	}
	i := slices.IndexFunc(slice.Spec.Devices, func(d resourceapi.Device) bool { return d.Name == id.Device })
	if i < 0 {
		return nil
	}
	return &slice.Spec.Devices[i]
}

// keepingAway are the taints of a device that keep somebody away, whenever they came.
func keepingAway(d *resourceapi.Device) []resourceapi.DeviceTaint {
	var taints []resourceapi.DeviceTaint
	for i := range d.Taints {
		if t := d.Taints[i]; inventory.KeepsAway(&t) {
			t.TimeAdded = nil
			taints = append(taints, t)
		}
	}
	return taints
}

func sameSet(a, b []resourceapi.DeviceTaint) bool {
	within := func(a, b []resourceapi.DeviceTaint) bool {
		return !slices.ContainsFunc(a, func(t resourceapi.DeviceTaint) bool { return !slices.Contains(b, t) })
	}
	return within(a, b) && within(b, a)
}
