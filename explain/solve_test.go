// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/selector"
)

func ptr[T any](v T) *T { return &v }

// cluster is one node with pools of its own, a claim that wants something and
// claims that have something.
type cluster struct {
	slices []*resourceapi.ResourceSlice
	claim  *resourceapi.ResourceClaim
	taken  map[string]string // device -> namespace/name of the claim that holds it
}

// pool is a pool of one slice; its driver has the name of the pool.
func pool(name string, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
	return &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: name + ".example.com", Pool: resourceapi.ResourcePool{Name: "n1", Generation: 1, ResourceSliceCount: 1},
			NodeName: ptr("n1"), Devices: devices,
		},
	}
}

// device has string attributes, given as name, value, name, value.
func device(name string, attributes ...string) resourceapi.Device {
	d := resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}}
	for i := 0; i < len(attributes); i += 2 {
		d.Attributes[resourceapi.QualifiedName(attributes[i])] = resourceapi.DeviceAttribute{StringValue: &attributes[i+1]}
	}
	return d
}

// request asks for a number of devices of the driver with that name; 0 means All.
func request(name string, n int64) resourceapi.DeviceRequest {
	r := resourceapi.DeviceRequest{Name: name, Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: name, Count: n}}
	if n == 0 {
		r.Exactly.AllocationMode = resourceapi.DeviceAllocationModeAll
	}
	return r
}

func claim(requests ...resourceapi.DeviceRequest) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"},
		Spec:       resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: requests}},
	}
}

func withSelector(r resourceapi.DeviceRequest, expression string) resourceapi.DeviceRequest {
	r.Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
	return r
}

func matching(c *resourceapi.ResourceClaim, attribute string) *resourceapi.ResourceClaim {
	c.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: ptr(resourceapi.FullyQualifiedName(attribute))}}
	return c
}

// class selects the devices of the driver with that name, or any.
func class(name string) *resourceapi.DeviceClass {
	c := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if name == "any" {
		return c
	}
	c.Spec.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
		Expression: fmt.Sprintf("device.driver == '%s.example.com'", name),
	}}}
	return c
}

// refuse solves the problem and returns the refusal with all that is known.
func (c cluster) refuse(t *testing.T) (*alloc.Refusal, explain.Options) {
	t.Helper()
	inv := inventory.New()
	inv.SyncSlices(c.slices)
	for device, holder := range c.taken {
		namespace, name, _ := strings.Cut(holder, "/")
		for _, s := range c.slices {
			for _, d := range s.Spec.Devices {
				if d.Name == device {
					inv.SetHolds(device, []inventory.Hold{{
						Device: inventory.DeviceID{Driver: s.Spec.Driver, Pool: "n1", Device: device},
						Holder: inventory.Holder{Namespace: namespace, Claim: name, UID: types.UID(holder)},
					}})
				}
			}
		}
	}
	snapshot := inv.Snapshot()
	view := snapshot.View(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	problem, err := alloc.Compile([]*resourceapi.ResourceClaim{c.claim}, class, selector.New(), alloc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	solve := func(view *inventory.View) alloc.Outcome {
		out, err := problem.Allocate(view)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	out := solve(view)
	if out.Refusal == nil {
		t.Fatalf("not refused: %+v", out)
	}
	return out.Refusal, explain.Options{
		Holders:  snapshot.Holders,
		Claims:   []*resourceapi.ResourceClaim{c.claim},
		View:     view,
		Remedies: explain.Remedies(out.Refusal, view, func(v *inventory.View) bool { return solve(v).Result != nil }),
	}
}
