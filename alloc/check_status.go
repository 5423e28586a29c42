// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// checkNodeSelector verifies that the allocation may be used exactly where all
// of its devices can be reached: on this node alone where a device is local to
// a node or binds to it, else where all node selectors of the devices agree.
func (c *checker) checkNodeSelector(cc *checkedClaim) {
	const field = "status.allocation.nodeSelector"
	var fields, labels []v1.NodeSelectorRequirement
	for _, p := range cc.picks {
		reach := &p.device.Reach
		if reach.NodeName != "" || p.device.BindsToNode() {
			fields = []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{c.view.Node.Name}}}
			labels = nil
			break
		}
		if reach.Selector == nil {
			continue
		}
		if n := len(reach.Selector.NodeSelectorTerms); n != 1 {
			c.report(cc.object, field, "the node selector of %s has %d terms; only one can be combined with others", p.device.ID, n)
			return
		}
		fields = append(fields, reach.Selector.NodeSelectorTerms[0].MatchFields...)
		labels = append(labels, reach.Selector.NodeSelectorTerms[0].MatchExpressions...)
	}
	got := cc.result.NodeSelector
	switch {
	case len(fields)+len(labels) == 0:
		if got != nil {
			c.report(cc.object, field, "is set to %v, although every node reaches the devices", got)
		}
	case got == nil:
		c.report(cc.object, field, "is not set, although not every node reaches the devices")
	case len(got.NodeSelectorTerms) != 1:
		c.report(cc.object, field+".nodeSelectorTerms", "has %d terms, not one", len(got.NodeSelectorTerms))
	default:
		term := &got.NodeSelectorTerms[0]
		c.checkRequirements(cc, field+".nodeSelectorTerms[0].matchFields", term.MatchFields, fields)
		c.checkRequirements(cc, field+".nodeSelectorTerms[0].matchExpressions", term.MatchExpressions, labels)
	}
}

func (c *checker) checkRequirements(cc *checkedClaim, field string, got, want []v1.NodeSelectorRequirement) {
	for _, r := range want {
		if !hasRequirement(got, r) {
			c.report(cc.object, field, "lacks the requirement %v", r)
		}
	}
	for _, r := range got {
		if !hasRequirement(want, r) {
			c.report(cc.object, field, "has the requirement %v, which no device has", r)
		}
	}
}

// hasRequirement compares values as sets, for the API gives their order no
// meaning.
func hasRequirement(list []v1.NodeSelectorRequirement, r v1.NodeSelectorRequirement) bool {
	return slices.ContainsFunc(list, func(o v1.NodeSelectorRequirement) bool {
		within := func(a, b []string) bool {
			return !slices.ContainsFunc(a, func(value string) bool { return !slices.Contains(b, value) })
		}
		return o.Key == r.Key && o.Operator == r.Operator && within(o.Values, r.Values) && within(r.Values, o.Values)
	})
}

// checkConfig verifies the configuration that drivers get: that of the classes
// first, each class once for all requests that use it, then that of the claim,
// as far as it is for requests, or alternatives, that were chosen.
func (c *checker) checkConfig(cc *checkedClaim) {
	const field = "status.allocation.devices.config"
	got, want := cc.result.Devices.Config, append(cc.classConfig(), cc.claimConfig()...)
	if len(got) != len(want) {
		c.report(cc.object, field, "has %d entries, not %d", len(got), len(want))
		return
	}
	for i := range want {
		at := fmt.Sprintf("%s[%d]", field, i)
		if got[i].Source != want[i].Source {
			c.report(cc.object, at+".source", "is %s, not %s", got[i].Source, want[i].Source)
		}
		if !slices.Equal(got[i].Requests, want[i].Requests) {
			c.report(cc.object, at+".requests", "is %q, not %q", got[i].Requests, want[i].Requests)
		}
		if !reflect.DeepEqual(got[i].DeviceConfiguration, want[i].DeviceConfiguration) {
			c.report(cc.object, at, "is not the configuration of the %s", want[i].Source)
		}
	}
}

func (cc *checkedClaim) classConfig() []resourceapi.DeviceAllocationConfiguration {
	users := map[string][]string{} // requests by class
	for _, r := range cc.chosen {
		if r.class != nil {
			users[r.class.Name] = append(users[r.class.Name], r.name)
		}
	}
	var config []resourceapi.DeviceAllocationConfiguration
	for _, r := range cc.chosen {
		if r.class == nil || users[r.class.Name][0] != r.name {
			continue
		}
		for _, entry := range r.class.Spec.Config {
			config = append(config, resourceapi.DeviceAllocationConfiguration{
				Source:              resourceapi.AllocationConfigSourceClass,
				Requests:            cc.scope(users[r.class.Name]),
				DeviceConfiguration: entry.DeviceConfiguration,
			})
		}
	}
	return config
}

func (cc *checkedClaim) claimConfig() []resourceapi.DeviceAllocationConfiguration {
	var config []resourceapi.DeviceAllocationConfiguration
	for _, entry := range cc.claim.Spec.Devices.Config {
		inUse := func(r *checkedRequest) bool { return r.within(entry.Requests) }
		if len(entry.Requests) > 0 && !slices.ContainsFunc(cc.chosen, inUse) {
			continue
		}
		config = append(config, resourceapi.DeviceAllocationConfiguration{
			Source:              resourceapi.AllocationConfigSourceClaim,
			Requests:            cc.scope(entry.Requests),
			DeviceConfiguration: entry.DeviceConfiguration,
		})
	}
	return config
}

// scope returns the names, or none where they cover all that was chosen: no
// names stand for all requests.
func (cc *checkedClaim) scope(names []string) []string {
	for _, r := range cc.chosen {
		if !r.within(names) {
			return names
		}
	}
	return nil
}

// within reports whether a list of request names, as constraints and
// configuration have them, includes the request. An empty list includes all; the
// name of a prioritized list includes all alternatives.
func (r *checkedRequest) within(names []string) bool {
	return len(names) == 0 || slices.Contains(names, r.name) || slices.Contains(names, r.parent)
}
