// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
)

// checkAllocations reports what claims hold against the rules, whoever gave it
// out: devices and counters twice, devices that are not published.
func (c *checker) checkAllocations() {
	reported := map[string]bool{} // object and field
	for _, claim := range c.cluster.ResourceClaims {
		if claim.Status.Allocation != nil {
			c.checkAllocation(claim, reported)
		}
	}
	usable := slices.DeleteFunc(slices.Clone(c.cluster.ResourceSlices), func(s *resourceapi.ResourceSlice) bool { return c.slices[s.Name] == nil })
	for _, v := range alloc.CheckCluster(usable, c.cluster.ResourceClaims) {
		if reported[v.Object+" "+v.Field] {
			continue
		}
		if name, found := strings.CutPrefix(v.Object, "claim "); found {
			namespace, name, _ := strings.Cut(name, "/")
			subject{c, Finding{Kind: "ResourceClaim", Namespace: namespace, Name: name}}.report(Error, "overallocated", v.Field,
				"delete one of the claims and its pods; let only one scheduler allocate devices", "%s", v.Problem)
		} else {
			c.overdrawn(v)
		}
	}
}

// overdrawn reports a counter set of which more is held than there is, at the
// slice that publishes the set.
func (c *checker) overdrawn(v alloc.Violation) {
	for _, pool := range c.pools {
		if "pool "+pool.ID.String() != v.Object {
			continue
		}
		for _, slice := range pool.Slices {
			for i, set := range slice.Spec.SharedCounters {
				if rest, found := strings.CutPrefix(v.Field, "spec.sharedCounters["+set.Name+"]"); found {
					c.about("ResourceSlice", slice).report(Error, "overallocated", fmt.Sprintf("spec.sharedCounters[%d]%s", i, rest),
						"delete one of the claims and its pods; let only one scheduler allocate devices",
						"counter set %s of %s: %s, held by %s", set.Name, v.Object, v.Problem, strings.Join(c.drawers(pool, set.Name), ", "))
				}
			}
		}
	}
}

// drawers returns the claims that hold devices which draw from the counter set.
func (c *checker) drawers(pool *inventory.Pool, set string) []string {
	var found []string
	for _, claim := range c.cluster.ResourceClaims {
		for _, hold := range inventory.HoldsOf(claim) {
			d := pool.Device(hold.Device.Device)
			if hold.Device.PoolID() == pool.ID && d != nil && slices.ContainsFunc(d.Spec.ConsumesCounters, func(cc resourceapi.DeviceCounterConsumption) bool { return cc.CounterSet == set }) {
				found = append(found, claim.Namespace+"/"+claim.Name)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func (c *checker) checkAllocation(claim *resourceapi.ResourceClaim, reported map[string]bool) {
	s := c.claimSpec(claim)
	a := claim.Status.Allocation
	for i := range a.Devices.Results {
		r := &a.Devices.Results[i]
		path := fmt.Sprintf("status.allocation.devices.results[%d]", i)
		if !c.published(r) {
			reported["claim "+claim.Namespace+"/"+claim.Name+" "+path+".device"] = true
			s.report(Warning, "allocation-unpublished", path+".device", "look whether the driver still has the device; it stays held as long as the claim is allocated",
				"no ResourceSlice publishes %s/%s/%s, which the claim holds", r.Driver, r.Pool, r.Device)
		}
	}
	if a.NodeSelector != nil {
		if _, err := nodeaffinity.NewNodeSelector(a.NodeSelector); err != nil {
			s.report(Error, "invalid-node-selector", "status.allocation.nodeSelector", "delete the claim and its pods, so that it is allocated anew",
				"no node can use the devices: %v", err)
		}
	}
}

func (c *checker) published(r *resourceapi.DeviceRequestAllocationResult) bool {
	return slices.ContainsFunc(c.pools, func(p *inventory.Pool) bool {
		return p.ID == inventory.PoolID{Driver: r.Driver, Pool: r.Pool} && p.Device(r.Device) != nil
	})
}
