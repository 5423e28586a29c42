// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
)

// Options are what is known beyond a refusal, and what of it may be told. All
// fields are optional; more of them make for more precise texts.
type Options struct {
	// Holders returns the claims that hold a device.
	Holders func(inventory.DeviceID) []inventory.Holder
	// Claimant returns the claim with that UID, for which a fabric reserves devices.
	Claimant func(types.UID) (inventory.Holder, bool)
	// Visible reports whether the reader may see the names of claims in a
	// namespace; nil means that they may see all. Other claims are counted.
	Visible func(namespace string) bool
	// Claims are those that were refused. They serve to name what was asked.
	Claims []*resourceapi.ResourceClaim
	// Called returns what the reader knows a request as, empty where that is its
	// name.
	Called func(alloc.RequestRef) string
	// View is the node that refused them. It serves to look at devices that
	// are not part of the refusal and at what is left of counters.
	View *inventory.View
	// Budget reports whether the pod itself limits what its containers and devices
	// request together of a resource (Pod.spec.resources).
	Budget func(v1.ResourceName) bool
	// Remedies are the changes that would help, see [Remedies].
	Remedies []Remedy
}

// whose says who has too little of a resource for devices: the node, or the pod
// by its own request for all containers.
func (o *Options) whose(name v1.ResourceName) string {
	if o.Budget != nil && o.Budget(name) {
		return "the pod-level request"
	}
	return "the node"
}

// claim returns the claim of that namespace/name, nil where it is not known.
func (o *Options) claim(name string) *resourceapi.ResourceClaim {
	for _, c := range o.Claims {
		if c.Namespace+"/"+c.Name == name {
			return c
		}
	}
	return nil
}

// asked returns what a request, or the alternative of one, asks for; ok is false
// where the claim is not known.
func (o *Options) asked(of, request string) (r resourceapi.DeviceSubRequest, ok bool) {
	c := o.claim(of)
	if c == nil {
		return r, false
	}
	ask, ok := claim.AskOf(&c.Spec.Devices, request)
	if ok {
		r = *ask.DeviceSubRequest
	}
	return r, ok
}

// pool returns the node's part of a pool, nil where it is not known.
func (o *Options) pool(id inventory.PoolID) *inventory.PoolView { return poolIn(o.View, id) }

func poolIn(view *inventory.View, id inventory.PoolID) *inventory.PoolView {
	if view == nil {
		return nil
	}
	for i := range view.Pools {
		if view.Pools[i].Pool.ID == id {
			return &view.Pools[i]
		}
	}
	return nil
}

// device returns a device of the node, nil where it is not known.
func (o *Options) device(id inventory.DeviceID) *inventory.Device {
	if pv := o.pool(id.PoolID()); pv != nil {
		return pv.Pool.Device(id.Device)
	}
	return nil
}
