// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"errors"
	"fmt"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
)

// defaultIdle is how long an idle device stays attached where a Fabric does not
// say.
const defaultIdle = 5 * time.Minute

// policyOf is what a Fabric says, as the planner reads it.
func policyOf(f *v1alpha1.Fabric) fabric.Policy {
	policy := fabric.Policy{
		Fabric:   f.Name,
		Identity: fabric.IdentitySource(f.Spec.Identity.Source),
		HandOver: fabric.HandOver(f.Spec.HandOver),
		Guards:   guardsOf(f),
		Ending:   f.DeletionTimestamp != nil,

		IdentityAttribute: f.Spec.Identity.Attribute,
		IdentityPrefix:    f.Spec.Identity.TrimPrefix,

		Limits: fabric.Limits{
			Concurrent: int(ptr.Deref(f.Spec.Concurrency.Operations, 1)),
			PerMachine: int(ptr.Deref(f.Spec.Concurrency.PerMachine, 1)),
		},
		IdleDetachAfter: defaultIdle,
		OrphanGrace:     defaultIdle,
	}
	if t := f.Spec.AttachTimeout; t != nil {
		policy.AttachTimeout = t.Duration
	}
	switch idle := f.Spec.IdleDetachAfter; {
	case f.Spec.KeepIdle:
		policy.IdleDetachAfter, policy.OrphanGrace = -1, -1
	case idle != nil:
		// A grace of zero would be the planner's default.
		policy.IdleDetachAfter, policy.OrphanGrace = idle.Duration, max(idle.Duration, time.Nanosecond)
	}
	for i := range f.Spec.Models {
		policy.Models = append(policy.Models, modelOf(&f.Spec.Models[i]))
	}
	return policy
}

func guardsOf(f *v1alpha1.Fabric) fabric.Guards {
	has := func(kind v1alpha1.GuardKind) bool { return slices.Contains(f.Spec.Guards, kind) }
	return fabric.Guards{
		Rules: has(v1alpha1.GuardDeviceTaintRule), Taint: has(v1alpha1.GuardTaint), Reservation: has(v1alpha1.GuardReservation),
	}
}

// checkHandOver refuses the mode that nothing carries out yet.
func checkHandOver(f *v1alpha1.Fabric) error {
	if f.Spec.HandOver == v1alpha1.HandOverResolve && f.DeletionTimestamp == nil {
		return errors.New("spec.handOver: handOver Resolve needs a node gateway, which is not there yet: use Reallocate or Reschedule")
	}
	return nil
}

// checkGuards finds models whose devices no guard of the Fabric can keep.
func checkGuards(f *v1alpha1.Fabric) error {
	guards := guardsOf(f)
	if guards == (fabric.Guards{}) || guards.Rules {
		return nil
	}
	const fix = "add DeviceTaintRule to spec.guards"
	if f.Spec.Identity.Source == v1alpha1.IdentityPCIAddress {
		return fmt.Errorf("spec.guards: %v need an identity that is known before the device is on a node, and spec.identity.source is %s: %s",
			f.Spec.Guards, f.Spec.Identity.Source, fix)
	}
	for i := range f.Spec.Models {
		if m := &f.Spec.Models[i]; m.Template && !guards.Taint {
			return fmt.Errorf("spec.guards: Reservation alone cannot keep devices of a template, and spec.models[%d] (%s) is one: %s, or Taint", i, m.Name, fix)
		}
	}
	return nil
}

func modelOf(m *v1alpha1.DeviceModel) fabric.Model {
	model := fabric.Model{
		Name:         m.Name,
		Manufacturer: m.Match.Manufacturer, Model: m.Match.Model, PartNumber: m.Match.PartNumber,
		Driver: m.Driver, Template: m.Template,
		Capacity: byFullName(m.Driver, m.Capacity, amountOf),
	}
	model.Attributes = byFullName(m.Driver, m.Attributes, func(v v1alpha1.AttributeValue) string { return worded(publishedValue(v)) })
	return model
}

// publishedValue is an attribute as slices have it.
func publishedValue(v v1alpha1.AttributeValue) resourceapi.DeviceAttribute {
	return resourceapi.DeviceAttribute{IntValue: v.Int, BoolValue: v.Bool, StringValue: v.String, VersionValue: v.Version}
}

// text is a value without its type, as identities are compared.
func text(a resourceapi.DeviceAttribute) string {
	switch {
	case a.IntValue != nil:
		return fmt.Sprint(*a.IntValue)
	case a.BoolValue != nil:
		return fmt.Sprint(*a.BoolValue)
	case a.StringValue != nil:
		return *a.StringValue
	case a.VersionValue != nil:
		return *a.VersionValue
	default:
		return ""
	}
}
