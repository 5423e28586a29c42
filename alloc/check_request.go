// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"
	"reflect"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/inventory"
)

// nodeOperationsFeature is what a node declares in status.declaredFeatures if
// its kubelet honours skipNodeOperations. The name is that of the feature gate,
// see k8s.io/component-helpers/nodedeclaredfeatures.
const nodeOperationsFeature = "DRAOptionalNodeOperations"

// expand returns the requests of a claim, for prioritized lists each of their
// alternatives, by the name that results use. They are defaulted like the API
// server does it.
func (c *checker) expand(cc *checkedClaim) map[string]*checkedRequest {
	requests := map[string]*checkedRequest{}
	for i := range cc.claim.Spec.Devices.Requests {
		r := &cc.claim.Spec.Devices.Requests[i]
		field := fmt.Sprintf("spec.devices.requests[%d]", i)
		if r.Exactly != nil {
			requests[r.Name] = &checkedRequest{name: r.Name, parent: r.Name, field: field + ".exactly", spec: *r.Exactly}
		}
		for j := range r.FirstAvailable {
			s := &r.FirstAvailable[j]
			name := r.Name + "/" + s.Name
			requests[name] = &checkedRequest{
				name:   name,
				parent: r.Name,
				field:  fmt.Sprintf("%s.firstAvailable[%d]", field, j),
				spec: resourceapi.ExactDeviceRequest{
					DeviceClassName:   s.DeviceClassName,
					Selectors:         s.Selectors,
					AllocationMode:    s.AllocationMode,
					Count:             s.Count,
					Tolerations:       s.Tolerations,
					Capacity:          s.Capacity,
					DerivedAttributes: s.DerivedAttributes,
				},
			}
		}
	}
	for _, r := range requests {
		r.class = c.classes(r.spec.DeviceClassName)
		if r.spec.AllocationMode == "" {
			r.spec.AllocationMode = resourceapi.DeviceAllocationModeExactCount
		}
		if r.spec.AllocationMode == resourceapi.DeviceAllocationModeExactCount && r.spec.Count == 0 {
			r.spec.Count = 1
		}
	}
	return requests
}

// checkRequests verifies that each request got what it asks for.
func (c *checker) checkRequests(cc *checkedClaim) {
	for _, r := range cc.chosen {
		if r.class == nil {
			c.report(cc.object, r.field+".deviceClassName", "there is no device class %q", r.spec.DeviceClassName)
		}
		var got []*inventory.Device
		for _, p := range cc.picks {
			if p.request != r {
				continue
			}
			if slices.Contains(got, p.device) {
				c.reportPick(p, "device", "%s was allocated twice for request %s", p.device.ID, r.name)
			}
			got = append(got, p.device)
			c.checkPick(p)
		}
		switch r.spec.AllocationMode {
		case resourceapi.DeviceAllocationModeExactCount:
			if int64(len(got)) != r.spec.Count {
				c.report(cc.object, r.field+".count", "%d devices were allocated, not %d", len(got), r.spec.Count)
			}
		case resourceapi.DeviceAllocationModeAll:
			c.checkAll(cc, r, got)
		default:
			c.report(cc.object, r.field+".allocationMode", "there is no mode %q", r.spec.AllocationMode)
		}
	}
}

// checkAll verifies that a request for all devices got every device that
// matches, and at least one. What matches does not depend on what is free.
func (c *checker) checkAll(cc *checkedClaim, r *checkedRequest, got []*inventory.Device) {
	field := r.field + ".allocationMode"
	if len(got) == 0 {
		c.report(cc.object, field, "all devices are asked for and none was allocated")
	}
	for i := range c.view.Pools {
		pool := &c.view.Pools[i]
		if problem := pool.Pool.Problem; problem != nil && c.mayMatch(r, pool.Pool) {
			c.report(cc.object, field, "all devices are asked for while pool %s is not usable: %s", pool.Pool.ID, problem.Kind)
		}
		for _, d := range pool.Devices {
			if pool.Pool.Problem == nil && !slices.Contains(got, d) && c.mismatch(r, d) == "" && capacityProblem(r, d) == "" {
				c.report(cc.object, field, "all devices are asked for and %s was not allocated", d.ID)
			}
		}
	}
}

// mayMatch reports whether a pool that is not usable may have devices that a
// request for all devices must get. Those that it publishes so far say that it
// has none if they do not match while devices of other drivers do.
func (c *checker) mayMatch(r *checkedRequest, p *inventory.Pool) bool {
	matches := func(d *inventory.Device) bool { return c.mismatch(r, d) == "" }
	if len(p.Devices) == 0 || slices.ContainsFunc(p.Devices, matches) {
		return true
	}
	others := false
	for i := range c.view.Pools {
		pool := &c.view.Pools[i]
		if pool.Pool.Problem == nil && slices.ContainsFunc(pool.Devices, matches) {
			if pool.Pool.ID.Driver == p.ID.Driver {
				return true
			}
			others = true
		}
	}
	return !others
}

// checkPick verifies a device against its request, and what the result copies
// from both.
func (c *checker) checkPick(p *checkedPick) {
	if problem := c.mismatch(p.request, p.device); problem != "" {
		c.reportPick(p, "device", "%s %s", p.device.ID, problem)
	}
	for _, taint := range p.device.Taints {
		if !tolerated(p.request, &taint.DeviceTaint) && !meantFor(p, &taint.DeviceTaint) {
			c.reportPick(p, "device", "%s has the taint %s=%s:%s, which the request does not tolerate", p.device.ID, taint.Key, taint.Value, taint.Effect)
		}
	}
	if skipped := p.device.Slice.Spec.SkipNodeOperations; len(skipped) > 0 && !slices.Contains(c.view.Node.Status.DeclaredFeatures, nodeOperationsFeature) {
		c.reportPick(p, "skipNodeOperations", "%s skips node operations, which node %s does not support", p.device.ID, c.view.Node.Name)
	}
	if problem := capacityProblem(p.request, p.device); problem != "" {
		c.reportPick(p, "device", "%s %s", p.device.ID, problem)
	}
	c.checkConsumed(p)
	c.checkCopies(p)
}

func (c *checker) checkCopies(p *checkedPick) {
	for _, copied := range []struct {
		field     string
		got, want any
		none      bool
	}{
		{"tolerations", p.result.Tolerations, p.request.spec.Tolerations, len(p.result.Tolerations)+len(p.request.spec.Tolerations) == 0},
		{"bindingConditions", p.result.BindingConditions, p.device.Spec.BindingConditions, len(p.result.BindingConditions)+len(p.device.Spec.BindingConditions) == 0},
		{"bindingFailureConditions", p.result.BindingFailureConditions, p.device.Spec.BindingFailureConditions, len(p.result.BindingFailureConditions)+len(p.device.Spec.BindingFailureConditions) == 0},
		{"skipNodeOperations", p.result.SkipNodeOperations, p.device.Slice.Spec.SkipNodeOperations, len(p.result.SkipNodeOperations)+len(p.device.Slice.Spec.SkipNodeOperations) == 0},
	} {
		if !copied.none && !reflect.DeepEqual(copied.got, copied.want) {
			c.reportPick(p, copied.field, "is %v, not %v as in the slice or request", copied.got, copied.want)
		}
	}
	if got := p.result.AdminAccess != nil && *p.result.AdminAccess; got != p.request.admin() {
		c.reportPick(p, "adminAccess", "is %t, the request says %t", got, p.request.admin())
	}
}

// mismatch says why the selectors of the class or the request do not match a
// device. A selector that fails does not match.
func (c *checker) mismatch(r *checkedRequest, d *inventory.Device) string {
	selectors := slices.Clone(r.spec.Selectors)
	if r.class != nil {
		selectors = append(selectors, r.class.Spec.Selectors...)
	}
	for _, s := range selectors {
		if s.CEL == nil {
			return "cannot be matched against a selector without CEL expression"
		}
		ok, _, err := c.matcher.Match(nil, s.CEL.Expression, d)
		if err != nil {
			return fmt.Sprintf("does not match %q: %v", s.CEL.Expression, err)
		}
		if !ok {
			return fmt.Sprintf("does not match %q", s.CEL.Expression)
		}
	}
	return ""
}

// meantFor reports whether a taint that keeps an arriving device from others is
// no reason against the claim: the device carries its UID.
func meantFor(p *checkedPick, taint *resourceapi.DeviceTaint) bool {
	own := slices.ContainsFunc(p.device.Taints, func(t inventory.Taint) bool {
		return t.Key == inventory.ClaimTaint && t.Value == string(p.claim.claim.UID)
	})
	return own && (taint.Key == inventory.ArrivingTaint || taint.Key == inventory.ClaimTaint && taint.Value == string(p.claim.claim.UID))
}

// tolerated follows DeviceToleration: each field that is set must agree with
// the taint, the operator says what the value must be. Effects other than those
// that keep pods away need no toleration.
func tolerated(r *checkedRequest, taint *resourceapi.DeviceTaint) bool {
	if taint.Effect != resourceapi.DeviceTaintEffectNoSchedule && taint.Effect != resourceapi.DeviceTaintEffectNoExecute {
		return true
	}
	return slices.ContainsFunc(r.spec.Tolerations, func(t resourceapi.DeviceToleration) bool {
		equal := t.Operator == "" || t.Operator == resourceapi.DeviceTolerationOpEqual
		return (t.Key == "" || t.Key == taint.Key) &&
			(t.Effect == "" || t.Effect == taint.Effect) &&
			(t.Operator == resourceapi.DeviceTolerationOpExists || equal && t.Value == taint.Value)
	})
}
