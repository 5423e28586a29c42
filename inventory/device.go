// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// DeviceID names a device in the cluster.
type DeviceID struct {
	Driver, Pool, Device string
}

// IDOf is the device that a claim was allocated.
func IDOf(r *resourceapi.DeviceRequestAllocationResult) DeviceID {
	return DeviceID{Driver: r.Driver, Pool: r.Pool, Device: r.Device}
}

// String returns driver/pool/device.
func (id DeviceID) String() string { return id.Driver + "/" + id.Pool + "/" + id.Device }

// PoolID returns the pool the device belongs to.
func (id DeviceID) PoolID() PoolID { return PoolID{Driver: id.Driver, Pool: id.Pool} }

// Device is one published device, with everything that follows from its slice
// and pool resolved. It is read-only.
type Device struct {
	ID DeviceID
	// Spec is the device as published, without taints that rules added, and with what
	// is published under both spellings of its name under one, see [OneSpelling].
	Spec *resourceapi.Device
	// Slice is the ResourceSlice that publishes the device.
	Slice *resourceapi.ResourceSlice
	// Index is the position in the listed order of the pool.
	Index int
	// Taints are the published taints, then those of DeviceTaintRules, then those
	// that keep the device for the claim that a fabric attached it for.
	Taints []Taint
	// Draws is what the device takes out of its pool's counters, in the
	// order of Pool.Counters (device.consumesCounters, KEP-4815).
	Draws []Draw
	// Groups are the compatibility groups per counter set that the device
	// draws from, in the order of Pool.Sets.
	Groups []SetGroups
	// Reach says which nodes can use the device.
	Reach Reach

	content Content
}

// MultiAlloc reports whether several requests may share the device
// (device.allowMultipleAllocations, KEP-5075).
func (d *Device) MultiAlloc() bool {
	return d.Spec.AllowMultipleAllocations != nil && *d.Spec.AllowMultipleAllocations
}

// BindsToNode reports whether an allocation of the device is tied to the node
// it was made for (device.bindsToNode, KEP-5007).
func (d *Device) BindsToNode() bool {
	return d.Spec.BindsToNode != nil && *d.Spec.BindsToNode
}

// Taint is a device taint and where it comes from.
type Taint struct {
	resourceapi.DeviceTaint
	// Rule is the name of the DeviceTaintRule that sets the taint.
	Rule string
	// Offer is the device of a fabric's pool that says so, where the taint keeps the
	// device with the same identity on a node. Without a Rule and an Offer, the
	// device's own slice publishes the taint.
	Offer DeviceID
}

// Draw is the amount that a device takes out of one counter of its pool.
type Draw struct {
	Counter int // index in Pool.Counters
	Amount  Amount
}

// SetGroups are the compatibility groups that a device declares for one counter
// set (consumesCounters[].compatibilityGroups). None declared is a group of its
// own: such devices share a set only with each other.
type SetGroups struct {
	Set    int // index in Pool.Sets
	Groups []string
}

// Reach is the node selection of a device: of its slice, or its own where the
// slice says perDeviceNodeSelection. At most one field is set; none means that
// no node reaches the device.
type Reach struct {
	NodeName string
	AllNodes bool
	Selector *v1.NodeSelector

	compiled *nodeaffinity.NodeSelector
}

// Node reports whether the node reaches the device.
func (r *Reach) Node(node *v1.Node) bool {
	switch {
	case r.NodeName != "":
		return r.NodeName == node.Name
	case r.AllNodes:
		return true
	case r.compiled != nil:
		return r.compiled.Match(node)
	}
	return false
}

// newReach resolves the node selection fields of a slice or device. It fails
// where the selector cannot be parsed.
func newReach(nodeName *string, allNodes *bool, selector *v1.NodeSelector) (Reach, error) {
	switch {
	case nodeName != nil && *nodeName != "":
		return Reach{NodeName: *nodeName}, nil
	case allNodes != nil && *allNodes:
		return Reach{AllNodes: true}, nil
	case selector != nil:
		compiled, err := nodeaffinity.NewNodeSelector(selector)
		if err != nil {
			return Reach{}, err
		}
		return Reach{Selector: selector, compiled: compiled}, nil
	}
	return Reach{}, nil
}
