// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package dropin

import (
	"errors"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"
)

// classes are the device classes that the claims use.
type classes map[string]*resourceapi.DeviceClass

func (c classes) get(name string) *resourceapi.DeviceClass { return c[name] }

// check finds what keeps the claims from being allocated on any node, the first
// fault in the order of claims and requests, and looks up the classes.
func (a *allocator) check(claims []*resourceapi.ResourceClaim, pools []*pool) (classes, error) {
	found := classes{}
	for _, claim := range claims {
		for i := range claim.Spec.Devices.Requests {
			r := &claim.Spec.Devices.Requests[i]
			if err := a.checkRequest(r, pools, found); err != nil {
				return nil, fmt.Errorf("claim %s, %w", klog.KObj(claim), err)
			}
		}
		for i, c := range claim.Spec.Devices.Constraints {
			if c.MatchAttribute == nil && c.DistinctAttribute == nil {
				return nil, fmt.Errorf("claim %s, constraint #%d: empty constraint (unsupported constraint type?)", klog.KObj(claim), i)
			}
		}
	}
	return found, nil
}

func (a *allocator) checkRequest(r *resourceapi.DeviceRequest, pools []*pool, found classes) error {
	if len(r.FirstAvailable) == 0 {
		if r.Exactly == nil {
			return fmt.Errorf("request %s: neither exactly nor firstAvailable is set (unsupported request type?)", r.Name)
		}
		if r.Exactly.Capacity != nil && !a.features.ConsumableCapacity {
			return fmt.Errorf("request %s: has capacity requests, but the DRAConsumableCapacity feature is disabled", r.Name)
		}
		return a.checkAsk(r.Name, r.Exactly, pools, found)
	}
	if !a.features.PrioritizedList {
		return fmt.Errorf("request %s: has subrequests, but the DRAPrioritizedList feature is disabled", r.Name)
	}
	for i := range r.FirstAvailable {
		if r.FirstAvailable[i].Capacity != nil && !a.features.ConsumableCapacity {
			return fmt.Errorf("subrequest %s: has capacity requests, but the DRAConsumableCapacity feature is disabled", r.FirstAvailable[i].Name)
		}
	}
	for i := range r.FirstAvailable {
		s := &r.FirstAvailable[i]
		err := a.checkAsk(s.Name, &resourceapi.ExactDeviceRequest{
			DeviceClassName: s.DeviceClassName, Selectors: s.Selectors, AllocationMode: s.AllocationMode, DerivedAttributes: s.DerivedAttributes,
		}, pools, found)
		if err != nil {
			return err
		}
	}
	return nil
}

// checkAsk checks a request, or one of its alternatives in the same shape.
func (a *allocator) checkAsk(name string, e *resourceapi.ExactDeviceRequest, pools []*pool, found classes) error {
	if len(e.DerivedAttributes) > 0 && !a.features.DerivedAttributes {
		return fmt.Errorf("request %s: cannot handle request with derived attributes, the feature is disabled", name)
	}
	for i, s := range e.Selectors {
		if s.CEL == nil {
			return fmt.Errorf("request %s, selector #%d: CEL expression empty (unsupported selector type?)", name, i)
		}
	}
	if e.AdminAccess != nil && !a.features.AdminAccess {
		return fmt.Errorf("request %s: admin access is requested, but the feature is disabled", name)
	}
	if err := a.findClass(e.DeviceClassName, found); err != nil {
		return fmt.Errorf("request %s: %w", name, err)
	}
	switch e.AllocationMode {
	case resourceapi.DeviceAllocationModeExactCount:
		return nil
	case resourceapi.DeviceAllocationModeAll:
		return checkAll(name, pools)
	}
	return fmt.Errorf("request %s: unsupported count mode %s", name, e.AllocationMode)
}

func (a *allocator) findClass(name string, found classes) error {
	if name == "" {
		return errors.New("missing device class name (unsupported request type?)")
	}
	if found[name] != nil {
		return nil
	}
	class, err := a.classes.Get(name)
	if err != nil {
		return fmt.Errorf("could not retrieve device class %s: %w", name, err)
	}
	found[name] = class
	return nil
}

// checkAll: nobody knows what all devices are as long as some pool cannot be
// used.
func checkAll(name string, pools []*pool) error {
	for _, p := range pools {
		switch p.flaw {
		case incomplete:
			return fmt.Errorf("request %s: asks for all devices, but resource pool %s is currently being updated", name, p.id)
		case invalid:
			return fmt.Errorf("request %s: asks for all devices, but resource pool %s is currently invalid", name, p.id)
		}
	}
	return nil
}
