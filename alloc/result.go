// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"cmp"
	"crypto/sha1"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/inventory"
)

// answer is what a search found: the alternatives and the devices.
type answer struct {
	board    *board
	asks     []*field
	solution []choice
}

// result turns the solution into allocations.
func (a *answer) result() *Result {
	r := &Result{}
	slices.SortStableFunc(a.solution, func(x, y choice) int {
		return cmp.Or(cmp.Compare(x.field.request, y.field.request), cmp.Compare(x.unit, y.unit))
	})
	for claim := range a.board.problem.claims {
		of := slices.DeleteFunc(slices.Clone(a.solution), func(c choice) bool { return c.field.claim != claim })
		devices := make([]*inventory.Device, 0, len(of))
		for _, c := range of {
			devices = append(devices, a.board.units[c.unit].dev)
		}
		r.Devices = append(r.Devices, devices)
		r.Claims = append(r.Claims, resourceapi.AllocationResult{
			Devices: resourceapi.DeviceAllocationResult{
				Results: a.deviceResults(claim, of),
				Config:  a.configs(claim),
			},
			NodeSelector: nodeSelector(a.board.view.Node.Name, devices),
		})
	}
	return r
}

func (a *answer) deviceResults(claim int, of []choice) []resourceapi.DeviceRequestAllocationResult {
	results := make([]resourceapi.DeviceRequestAllocationResult, 0, len(of))
	for _, c := range of {
		d := a.board.units[c.unit].dev
		r := resourceapi.DeviceRequestAllocationResult{
			Request: c.field.ref.Request, Driver: d.ID.Driver, Pool: d.ID.Pool, Device: d.ID.Device,
			Tolerations:              c.field.tolerations,
			BindingConditions:        d.Spec.BindingConditions,
			BindingFailureConditions: d.Spec.BindingFailureConditions,
			SkipNodeOperations:       d.Slice.Spec.SkipNodeOperations,
		}
		if c.field.admin {
			yes := true
			r.AdminAccess = &yes
		}
		if a.board.units[c.unit].multi {
			id := shareID(a.board.problem.claims[claim], c.field.ref.Request, d.ID)
			r.ShareID = &id
			r.ConsumedCapacity = a.board.consumedCapacity(c.field.ask, d)
		}
		results = append(results, r)
	}
	return results
}

// shareID names a share (KEP-5075): a UUID made of what identifies it, as the
// core has no source of randomness. A request has at most one share of a device. The
// claims of manifests have no UID, and those of a forged dump may have the same.
func shareID(claim *resourceapi.ResourceClaim, request string, device inventory.DeviceID) types.UID {
	sum := sha1.Sum([]byte(string(claim.UID) + "\x00" + claimName(claim) + "\x00" + request + "\x00" + device.String()))
	sum[6] = sum[6]&0x0f | 0x50 // version 5
	sum[8] = sum[8]&0x3f | 0x80 // RFC 9562 variant
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]))
}

func (b *board) consumedCapacity(a *ask, d *inventory.Device) map[resourceapi.QualifiedName]resource.Quantity {
	if len(d.Spec.Capacity) == 0 {
		return nil
	}
	consumed := make(map[resourceapi.QualifiedName]resource.Quantity, len(d.Spec.Capacity))
	for name, c := range d.Spec.Capacity {
		consumed[name], _, _ = b.problem.reading.consumption(a.requested(d.ID.Driver, name), &c)
	}
	return consumed
}

// configs collects the configuration of a claim's devices: first that of the
// classes, once per class, then that of the claim where it is for a request, or
// an alternative, that is in use. No requests named means all.
func (a *answer) configs(claim int) []resourceapi.DeviceAllocationConfiguration {
	var configs []resourceapi.DeviceAllocationConfiguration
	first := map[string]int{}
	asks := a.asksOf(claim)
	for _, f := range asks {
		at, seen := first[f.class.Name]
		if !seen {
			at = len(configs)
			first[f.class.Name] = at
			for _, c := range f.class.Spec.Config {
				configs = append(configs, resourceapi.DeviceAllocationConfiguration{
					Source: resourceapi.AllocationConfigSourceClass, DeviceConfiguration: c.DeviceConfiguration,
				})
			}
		}
		for i := range f.class.Spec.Config {
			configs[at+i].Requests = append(configs[at+i].Requests, f.ref.Request)
		}
	}
	for _, c := range a.board.problem.claims[claim].Spec.Devices.Config {
		if len(c.Requests) == 0 || slices.ContainsFunc(asks, func(f *field) bool { return a.named(f, c.Requests) }) {
			configs = append(configs, resourceapi.DeviceAllocationConfiguration{
				Source: resourceapi.AllocationConfigSourceClaim, Requests: c.Requests, DeviceConfiguration: c.DeviceConfiguration,
			})
		}
	}
	for i := range configs {
		if a.allNamed(asks, configs[i].Requests) {
			configs[i].Requests = nil
		}
	}
	return configs
}

// asksOf are the chosen alternatives of a claim's requests, which are next to each other.
func (a *answer) asksOf(claim int) []*field {
	first, _ := slices.BinarySearchFunc(a.board.problem.requests, claim, func(r *request, claim int) int { return r.claim - claim })
	end, _ := slices.BinarySearchFunc(a.board.problem.requests, claim+1, func(r *request, claim int) int { return r.claim - claim })
	return a.asks[first:end]
}

func (a *answer) allNamed(asks []*field, names []string) bool {
	return !slices.ContainsFunc(asks, func(f *field) bool { return !a.named(f, names) })
}

// named reports whether the names include a request, or the alternative of it that was
// chosen.
func (a *answer) named(f *field, names []string) bool {
	return slices.Contains(names, a.board.problem.requests[f.request].name) || slices.Contains(names, f.ref.Request)
}

// nodeSelector restricts an allocation to the nodes that reach all its devices:
// the one node where any of them is local or bound to it, else what the devices'
// node selectors require together; nil means every node.
func nodeSelector(node string, devices []*inventory.Device) *v1.NodeSelector {
	var term v1.NodeSelectorTerm
	for _, d := range devices {
		if d.Reach.NodeName != "" || d.BindsToNode() {
			return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{node}}},
			}}}
		}
		if d.Reach.Selector != nil {
			// The API allows one term only (ResourceSlice.spec.nodeSelector).
			for _, t := range d.Reach.Selector.NodeSelectorTerms {
				term.MatchFields = merge(term.MatchFields, t.MatchFields)
				term.MatchExpressions = merge(term.MatchExpressions, t.MatchExpressions)
			}
		}
	}
	if len(term.MatchFields) == 0 && len(term.MatchExpressions) == 0 {
		return nil
	}
	return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}}
}

// merge adds the requirements that are not there yet, whatever the order of
// their values.
func merge(to, from []v1.NodeSelectorRequirement) []v1.NodeSelectorRequirement {
	for _, r := range from {
		if !slices.ContainsFunc(to, func(have v1.NodeSelectorRequirement) bool { return sameRequirement(have, r) }) {
			to = append(to, r)
		}
	}
	return to
}

func sameRequirement(a, b v1.NodeSelectorRequirement) bool {
	set := func(values []string) []string {
		return slices.Compact(slices.Sorted(slices.Values(values)))
	}
	return a.Key == b.Key && a.Operator == b.Operator && slices.Equal(set(a.Values), set(b.Values))
}
