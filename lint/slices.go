// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/inventory"
)

// checkSlices reports slices that are not valid, whatever else there is.
func (c *checker) checkSlices() {
	for _, slice := range c.cluster.ResourceSlices {
		s := sliceSpec{c.about("ResourceSlice", slice), slice}
		s.checkIdentity()
		s.checkSizes()
		s.checkNodeSelection()
		s.checkNodeSelectors()
		for i := range slice.Spec.SharedCounters {
			s.checkCounters(fmt.Sprintf("spec.sharedCounters[%d].counters", i), slice.Spec.SharedCounters[i].Counters)
		}
		for i := range slice.Spec.Devices {
			s.checkDevice(fmt.Sprintf("spec.devices[%d]", i), &slice.Spec.Devices[i])
		}
	}
}

// sliceSpec is a slice that is looked at by itself.
type sliceSpec struct {
	subject
	slice *resourceapi.ResourceSlice
}

// identified reports whether a slice belongs to a pool at all. What does not is
// reported as such and kept out of all that is said about pools.
func identified(slice *resourceapi.ResourceSlice) bool {
	return slice.Spec.Driver != "" && slice.Spec.Pool.Name != "" && slice.Spec.Pool.Generation >= 0 && slice.Spec.Pool.ResourceSliceCount > 0
}

func (s sliceSpec) checkIdentity() {
	const rule = "slice-invalid"
	spec := &s.slice.Spec
	if spec.Driver == "" {
		s.report(Error, rule, "spec.driver", "set the name of the driver", "the slice has no driver")
	}
	if spec.Pool.Name == "" {
		s.report(Error, rule, "spec.pool.name", "set the name of the pool", "the slice belongs to no pool")
	}
	if n := spec.Pool.Generation; n < 0 {
		s.report(Error, rule, "spec.pool.generation", "count generations from 0", "generation %d is negative", n)
	}
	if n := spec.Pool.ResourceSliceCount; n < 1 {
		s.report(Error, rule, "spec.pool.resourceSliceCount", "set the number of slices that the pool has", "a pool of %d slices has not even this one", n)
	}
}

// checkSizes reports more devices or counters than the API allows in a slice.
func (s sliceSpec) checkSizes() {
	const rule = "slice-invalid"
	spec := &s.slice.Spec
	most := resourceapi.ResourceSliceMaxDevices
	for i := range spec.Devices {
		if advanced(&spec.Devices[i]) {
			most = resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures
		}
	}
	s.tooMany(rule, "spec.devices", "devices", len(spec.Devices), most)
	s.tooMany(rule, "spec.sharedCounters", "counter sets", len(spec.SharedCounters), resourceapi.ResourceSliceMaxCounterSets)
	for i := range spec.SharedCounters {
		s.tooMany(rule, fmt.Sprintf("spec.sharedCounters[%d].counters", i), "counters",
			len(spec.SharedCounters[i].Counters), resourceapi.ResourceSliceMaxCountersPerCounterSet)
	}
	if len(spec.SharedCounters) > 0 && len(spec.Devices) > 0 {
		s.report(Error, rule, "spec.sharedCounters", "publish the counter sets in a slice of their own", "a slice has either devices or counter sets")
	}
}

// advanced reports whether a device uses what lets a slice have fewer devices.
func advanced(d *resourceapi.Device) bool {
	if len(d.Taints) > 0 || len(d.ConsumesCounters) > 0 {
		return true
	}
	for _, a := range d.Attributes {
		if a.BoolValues != nil || a.IntValues != nil || a.StringValues != nil || a.VersionValues != nil {
			return true
		}
	}
	return false
}

// selection is the fields that say which nodes reach a slice or a device.
type selection struct {
	nodeName  *string
	selector  *v1.NodeSelector
	allNodes  *bool
	perDevice *bool
}

// fields names those that are set.
func (n selection) fields() []string {
	var found []string
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"nodeName", n.nodeName != nil && *n.nodeName != ""},
		{"nodeSelector", n.selector != nil},
		{"allNodes", n.allNodes != nil && *n.allNodes},
		{"perDeviceNodeSelection", n.perDevice != nil && *n.perDevice},
	} {
		if field.set {
			found = append(found, field.name)
		}
	}
	return found
}

// checkNodeSelection reports slices and devices that no node reaches, or that say
// more than once which do: of several only one counts.
func (s sliceSpec) checkNodeSelection() {
	const rule = "slice-node-selection"
	spec := &s.slice.Spec
	perDevice := spec.PerDeviceNodeSelection != nil && *spec.PerDeviceNodeSelection
	switch fields := (selection{spec.NodeName, spec.NodeSelector, spec.AllNodes, spec.PerDeviceNodeSelection}).fields(); {
	case len(fields) == 0:
		s.report(Error, rule, "spec", "set one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection", "no node reaches the devices of the slice")
	case len(fields) > 1:
		s.report(Error, rule, "spec."+fields[1], "keep one of the fields", "the slice has %s, which exclude each other", strings.Join(fields, " and "))
	}
	for i := range spec.Devices {
		d := &spec.Devices[i]
		path := fmt.Sprintf("spec.devices[%d]", i)
		switch fields := (selection{d.NodeName, d.NodeSelector, d.AllNodes, nil}).fields(); {
		case !perDevice && len(fields) > 0:
			s.report(Error, rule, path+"."+fields[0], "remove the field, or set perDeviceNodeSelection of the slice in place of its own selection",
				"the node selection of device %s is not heeded: the slice has no perDeviceNodeSelection", d.Name)
		case perDevice && len(fields) == 0:
			s.report(Error, rule, path, "set one of nodeName, nodeSelector and allNodes", "no node reaches device %s", d.Name)
		case len(fields) > 1:
			s.report(Error, rule, path+"."+fields[1], "keep one of the fields", "device %s has %s, which exclude each other", d.Name, strings.Join(fields, " and "))
		}
	}
}

// checkNodeSelectors reports selectors that cannot be parsed: the pool offers
// nothing.
func (s sliceSpec) checkNodeSelectors() {
	s.checkNodeSelector("spec.nodeSelector", s.slice.Spec.NodeSelector)
	for i := range s.slice.Spec.Devices {
		s.checkNodeSelector(fmt.Sprintf("spec.devices[%d].nodeSelector", i), s.slice.Spec.Devices[i].NodeSelector)
	}
}

func (s sliceSpec) checkNodeSelector(field string, selector *v1.NodeSelector) {
	if selector == nil {
		return
	}
	if _, err := nodeaffinity.NewNodeSelector(selector); err != nil {
		id := inventory.PoolID{Driver: s.slice.Spec.Driver, Pool: s.slice.Spec.Pool.Name}
		problem := &inventory.PoolProblem{Kind: inventory.BadNodeSelector, Name: s.slice.Name, Detail: err.Error()}
		s.report(Error, "invalid-node-selector", field, "correct the selector, or use nodeName",
			"pool %s offers nothing: %s", id, explain.Problem(&inventory.Pool{ID: id}, problem))
	}
}

func (s sliceSpec) checkCounters(path string, counters map[string]resourceapi.Counter) {
	for name, counter := range sorted(counters) {
		s.notNegative(fmt.Sprintf("%s[%s].value", path, name), &counter.Value)
	}
}
