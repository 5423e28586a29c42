// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/inventory"
)

// Violation is a rule of the API that an allocation breaks.
type Violation struct {
	// Object is "claim ns/name" or "pool driver/pool", Field the path of the
	// field at fault within the object.
	Object, Field string
	// Problem says what is wrong.
	Problem string
}

// String names the object, the field and the problem.
func (v Violation) String() string { return v.Object + ": " + v.Field + ": " + v.Problem }

// Check verifies the results for the claims of one pod on one node: it reports
// every rule of the API that they break, given the state before them. No
// violation means that the results may be written as they are.
//
// It is the opposite of a search. It takes the results as a whole, derives from
// the API objects what they have to look like, and shares no code with what
// made them. Allocation timestamps are not looked at. Devices with admin access
// occupy nothing (KEP-5018): they count for no counter and no capacity. The
// containers are those of Options.Containers, nil where none are known.
func Check(view *inventory.View, claims []*resourceapi.ResourceClaim, classes Classes, matcher Matcher, containers []int, results []resourceapi.AllocationResult) []Violation {
	c := &checker{view: view, classes: classes, matcher: matcher}
	if len(claims) != len(results) {
		c.report("pod", "claims", "%d claims have %d results", len(claims), len(results))
		return c.found
	}
	for i, claim := range claims {
		c.claims = append(c.claims, c.resolve(claim, &results[i]))
	}
	for _, claim := range c.claims {
		c.checkRequests(claim)
		c.checkConstraints(claim)
		c.checkNodeSelector(claim)
		c.checkConfig(claim)
	}
	c.checkOccupancy()
	c.checkCounters()
	c.checkNode(containers)
	return c.found
}

// checker collects the violations of one Check.
type checker struct {
	view    *inventory.View
	classes Classes
	matcher Matcher
	claims  []*checkedClaim
	found   []Violation
}

// checkedClaim is a claim and its result, with names resolved.
type checkedClaim struct {
	claim  *resourceapi.ResourceClaim
	object string
	result *resourceapi.AllocationResult
	// chosen has the request, or the alternative that was chosen, for each
	// request of the claim that has results, in the order of the claim.
	chosen []*checkedRequest
	picks  []*checkedPick
}

// checkedRequest is a request, or one alternative of it, in its one shape.
type checkedRequest struct {
	// name is what results call it, parent the name of the whole request.
	name, parent string
	field        string
	class        *resourceapi.DeviceClass
	spec         resourceapi.ExactDeviceRequest
}

func (r *checkedRequest) admin() bool { return r.spec.AdminAccess != nil && *r.spec.AdminAccess }

// checkedPick is one device of a result.
type checkedPick struct {
	claim   *checkedClaim
	field   string
	result  *resourceapi.DeviceRequestAllocationResult
	request *checkedRequest
	pool    *inventory.PoolView
	device  *inventory.Device
}

func (c *checker) report(object, field, format string, args ...any) {
	c.found = append(c.found, Violation{Object: object, Field: field, Problem: fmt.Sprintf(format, args...)})
}

func (c *checker) reportPick(p *checkedPick, field, format string, args ...any) {
	c.report(p.claim.object, p.field+"."+field, format, args...)
}

// resolve looks up the requests and devices that a result names. What cannot be
// looked up is reported and left out of all further checks.
func (c *checker) resolve(claim *resourceapi.ResourceClaim, result *resourceapi.AllocationResult) *checkedClaim {
	cc := &checkedClaim{claim: claim, object: "claim " + claim.Namespace + "/" + claim.Name, result: result}
	requests := c.expand(cc)
	chosen := map[string]*checkedRequest{} // by parent
	for i := range result.Devices.Results {
		r := &result.Devices.Results[i]
		p := &checkedPick{claim: cc, field: fmt.Sprintf("status.allocation.devices.results[%d]", i), result: r}
		p.request = requests[r.Request]
		if p.request == nil {
			c.reportPick(p, "request", "the claim has no request %q", r.Request)
			continue
		}
		if other := chosen[p.request.parent]; other != nil && other != p.request {
			c.reportPick(p, "request", "mixes the alternatives %s and %s", other.name, r.Request)
			continue
		}
		chosen[p.request.parent] = p.request
		if c.locate(p) {
			cc.picks = append(cc.picks, p)
		}
	}
	for i := range claim.Spec.Devices.Requests {
		name := claim.Spec.Devices.Requests[i].Name
		switch {
		case chosen[name] != nil:
			cc.chosen = append(cc.chosen, chosen[name])
		case requests[name] != nil:
			// Not a prioritized list: there is nothing to choose.
			cc.chosen = append(cc.chosen, requests[name])
		default:
			c.report(cc.object, fmt.Sprintf("spec.devices.requests[%d]", i), "no device of any alternative was allocated for request %s", name)
		}
	}
	if n := len(result.Devices.Results); n > resourceapi.AllocationResultsMaxSize {
		c.report(cc.object, "status.allocation.devices.results", "%d devices, more than the %d that a claim may have", n, resourceapi.AllocationResultsMaxSize)
	}
	return cc
}

// locate finds the device of a pick among the usable pools of the view.
func (c *checker) locate(p *checkedPick) bool {
	id := inventory.PoolID{Driver: p.result.Driver, Pool: p.result.Pool}
	for i := range c.view.Pools {
		if pool := &c.view.Pools[i]; pool.Pool.ID == id {
			p.pool = pool
		}
	}
	if p.pool == nil {
		c.reportPick(p, "pool", "node %s reaches no pool %s", c.view.Node.Name, id)
		return false
	}
	if problem := p.pool.Pool.Problem; problem != nil {
		c.reportPick(p, "pool", "pool %s is not usable: %s", id, problem.Kind)
	}
	for _, d := range p.pool.Devices {
		if d.ID.Device == p.result.Device {
			p.device = d
		}
	}
	if p.device == nil || !p.device.Reach.Node(c.view.Node) {
		c.reportPick(p, "device", "node %s reaches no device %s/%s", c.view.Node.Name, id, p.result.Device)
		return false
	}
	return true
}
