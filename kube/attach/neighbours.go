// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/fabric"
)

// neighbours are the other Fabrics, and their attachments. Two may describe the same
// manager: then the younger is refused, and what one has attached is not lost to the
// other.
type neighbours struct {
	fabric      *v1alpha1.Fabric
	service     string // of the fabric's own manager, empty where it is not known
	fabrics     map[string]neighbour
	attachments map[string]neighbourly
}

type neighbour struct {
	created           metav1.Time
	endpoint, service string
}

// neighbourly is an attachment of another Fabric.
type neighbourly struct {
	fabric  string
	foreign fabric.Foreign
}

func newNeighbours(f *v1alpha1.Fabric) *neighbours {
	n := &neighbours{fabric: f, fabrics: map[string]neighbour{}, attachments: map[string]neighbourly{}}
	if s := f.Status.Service; s != nil && s.Endpoint == f.Spec.Redfish.Endpoint {
		n.service = s.UUID
	}
	return n
}

// set takes in what another Fabric says of its manager.
func (n *neighbours) set(planner *fabric.Planner, o *v1alpha1.Fabric) {
	now := neighbour{created: o.CreationTimestamp, endpoint: o.Spec.Redfish.Endpoint}
	if s := o.Status.Service; s != nil {
		now.service = s.UUID
	}
	old, known := n.fabrics[o.Name]
	n.fabrics[o.Name] = now
	if !known || old.endpoint != now.endpoint || old.service != now.service {
		n.tellAll(planner)
	}
}

func (n *neighbours) forget(planner *fabric.Planner, name string) {
	delete(n.fabrics, name)
	n.tellAll(planner)
}

// answered takes in who the fabric's own manager is.
func (n *neighbours) answered(planner *fabric.Planner, service string) {
	if n.service != service {
		n.service = service
		n.tellAll(planner)
	}
}

// attached takes in an attachment of another Fabric.
func (n *neighbours) attached(planner *fabric.Planner, o *v1alpha1.DeviceAttachment) {
	n.attachments[o.Name] = neighbourly{o.Spec.Fabric, fabric.Foreign{Device: fabric.DeviceRef(o.Spec.Device), Claimed: o.Spec.Claim != nil}}
	n.tell(planner, o.Name)
}

func (n *neighbours) detached(planner *fabric.Planner, name string) {
	delete(n.attachments, name)
	planner.ForgetForeign(name)
}

func (n *neighbours) tellAll(planner *fabric.Planner) {
	for name := range n.attachments {
		n.tell(planner, name)
	}
	planner.Bar(n.elder() != "")
}

// tell leaves out attachments of what is known to be another manager: it may have
// other devices by the same names.
func (n *neighbours) tell(planner *fabric.Planner, name string) {
	a := n.attachments[name]
	other := n.fabrics[a.fabric]
	if other.service != "" && n.service != "" && !n.same(other) {
		planner.ForgetForeign(name)
		return
	}
	planner.ObserveForeign(name, a.foreign)
}

// same tells whether another Fabric is known to have the same manager: by its UUID, or
// by its endpoint, where it has none or was not asked yet.
func (n *neighbours) same(other neighbour) bool {
	endpoint := n.fabric.Spec.Redfish.Endpoint
	return n.service != "" && other.service == n.service || endpoint != "" && other.endpoint == endpoint
}

// elder is an older Fabric of the same manager, empty where there is none.
func (n *neighbours) elder() string {
	elder := ""
	for name, other := range n.fabrics {
		if !n.same(other) {
			continue
		}
		at := n.fabric.CreationTimestamp
		older := other.created.Before(&at) || other.created.Equal(&at) && name < n.fabric.Name
		if older && (elder == "" || name < elder) {
			elder = name
		}
	}
	return elder
}

// refusal says why nothing is offered, nil where there is no reason.
func (n *neighbours) refusal() *metav1.Condition {
	elder := n.elder()
	if elder == "" {
		return nil
	}
	c := unready("Invalid", fmt.Sprintf("spec.redfish.endpoint: Fabric %s, which is older, has the same fabric manager (service %q): "+
		"nothing is offered or attached; delete one of the two, and put all models into the other", elder, n.service))
	return &c
}
