// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// HandOver says how a pod ends up on the device that was attached for it.
type HandOver string

const (
	// Reallocate has the scheduler swap the claim's allocation for the arrived
	// device; the pod binds in the same attempt.
	Reallocate HandOver = "Reallocate"
	// Resolve leaves the allocation as it is; the node's gateway takes the arrived
	// device for it when the pod is prepared.
	Resolve HandOver = "Resolve"
	// Reschedule fails the claim once the device has arrived, so that the next
	// attempt to schedule the pod finds it among the node's own devices.
	Reschedule HandOver = "Reschedule"
)

// IdentitySource says which property of a device, as the fabric manager knows
// it, is its identity.
type IdentitySource string

const (
	IdentityUUID         IdentitySource = "UUID"
	IdentitySerialNumber IdentitySource = "SerialNumber"
	// IdentityPCIAddress is an address on the node, which exists only once the
	// device is there: such devices are found as templates are.
	IdentityPCIAddress IdentitySource = "PCIAddress"
)

// Guards are the ways to keep an arriving device from everybody else. Of several,
// all that can keep a device must be acknowledged before the manager is called;
// what none can keep is not attached. None at all: nothing is waited for.
type Guards struct {
	// Rules are DeviceTaintRules for what a driver publishes on a node.
	Rules bool
	// Taint is one that the node puts on the device before it publishes it. It needs
	// to recognise the device.
	Taint bool
	// Reservation is made by who reads the fabric's pool, where the device stays
	// published with its identity. A template is not published with one.
	Reservation bool
}

// canKeep tells whether one of the guards can keep such a device, or there are none.
func (g Guards) canKeep(template bool, identity *Identity) bool {
	return g == Guards{} || g.Rules || identity != nil && (g.Taint || g.Reservation && !template)
}

// Identity is a device's attribute by which it is recognised on a node.
type Identity struct {
	// Attribute is as in slices: without domain it is the driver's.
	Attribute string
	// Value is what the driver publishes, except for case.
	Value string
}

// Policy is what the administrator of a fabric decided.
type Policy struct {
	// Fabric is the fabric's name.
	Fabric string
	// Models say which devices of the fabric are offered, and as what. The first
	// that matches counts; other devices are left alone.
	Models []Model
	// Identity is how a device is recognised on a node.
	Identity IdentitySource
	// IdentityAttribute is the attribute of the node's device that has the identity,
	// after IdentityPrefix.
	IdentityAttribute, IdentityPrefix string
	HandOver                          HandOver
	Guards                            Guards
	Limits                            Limits
	// Ending says that the fabric is to go: nothing is offered any more, and what is
	// unused is detached at once.
	Ending bool

	// AttachTimeout is the time from the allocation of a claim to the arrival of
	// its device on the node.
	AttachTimeout time.Duration
	// HandOverTimeout is how long an arrived device is kept for a claim that is
	// not allocated.
	HandOverTimeout time.Duration
	// IdleDetachAfter is how long an unused device stays attached: zero is not at
	// all, negative is for ever.
	IdleDetachAfter time.Duration
	// OrphanGrace is how long an attached device may be without claim and
	// attachment before it is taken for one that was forgotten; negative is for
	// ever.
	OrphanGrace time.Duration
	// DrainGrace is how long a device is watched after everybody stopped to hand
	// it out, and before it is detached: the time an allocation that was under way
	// needs to be seen.
	DrainGrace time.Duration
	// SettleTime is how long after a call with an unknown outcome the inventory
	// must have been read before it proves that the call did nothing.
	SettleTime time.Duration
	// PollInterval is the time between two looks at the manager while something is
	// expected to change there, InventoryInterval that between two inventories
	// otherwise.
	PollInterval      time.Duration
	InventoryInterval time.Duration
	// SeenAfter is how long a guard's rule must have been there to count as seen by
	// schedulers that do not tell. DrainSeenAfter is that of a device that is to be
	// detached where the scheduler does tell, but may not be running.
	SeenAfter, DrainSeenAfter time.Duration
	// UnlikeAfter is how long a driver must have published a device otherwise than its
	// model promises: it may say the rest of it a moment later.
	UnlikeAfter time.Duration
	// RetryDelay is the time to wait after an error.
	RetryDelay time.Duration
	// Attempts is how often an attach is tried when it turns out that a try with
	// an unknown outcome did nothing.
	Attempts int
}

// WithDefaults fills in what is zero, except IdleDetachAfter: durations that suit managers which take a
// minute for an operation.
func (p Policy) WithDefaults() Policy {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&p.AttachTimeout, 10 * time.Minute},
		{&p.HandOverTimeout, 2 * time.Minute},
		{&p.OrphanGrace, 10 * time.Minute},
		{&p.DrainGrace, 10 * time.Second},
		{&p.SettleTime, 30 * time.Second},
		{&p.PollInterval, 2 * time.Second},
		{&p.InventoryInterval, 30 * time.Second},
		{&p.RetryDelay, 5 * time.Second},
		{&p.SeenAfter, 3 * time.Second},
		{&p.DrainSeenAfter, time.Minute},
		{&p.UnlikeAfter, 3 * time.Second},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	p.Limits.Concurrent = max(p.Limits.Concurrent, 1)
	p.Limits.PerMachine = max(p.Limits.PerMachine, 1)
	if p.Attempts == 0 {
		p.Attempts = 3
	}
	if p.HandOver == "" {
		p.HandOver = Reallocate
	}
	if p.Identity == "" {
		p.Identity = IdentityUUID
	}
	if p.IdentityAttribute == "" {
		p.IdentityAttribute = "uuid"
	}
	return p
}

// Model says what the devices of a fabric that match are to a cluster.
type Model struct {
	// Name identifies the model in the names of templates.
	Name string
	// Manufacturer, Model and PartNumber must be equal to the device's, regardless
	// of case, where they are not empty.
	Manufacturer, Model, PartNumber string
	// Driver publishes these devices, on the fabric and on nodes.
	Driver string
	// Attributes are what the driver will say of the device, by qualified name: values as
	// text that is the same for two values only if they are equal and of one type.
	Attributes map[string]string
	// Capacity is what the driver will say of the device's capacity, by qualified name.
	Capacity map[string]resource.Quantity
	// Template offers a count of equal devices instead of this and that device.
	Template bool
}

func (m *Model) matches(d *Device) bool {
	return d != nil && fits(m.Manufacturer, d.Manufacturer) && fits(m.Model, d.Model) && fits(m.PartNumber, d.PartNumber)
}

func fits(pattern, value string) bool { return pattern == "" || strings.EqualFold(pattern, value) }

// model returns the model of a device, nil where the policy has none for it.
func (p *Policy) model(d *Device) *Model {
	for i := range p.Models {
		if p.Models[i].matches(d) {
			return &p.Models[i]
		}
	}
	return nil
}

// identity returns what a device is recognised by on a node, empty where there
// is nothing.
func (p *Policy) identity(d *Device) string { return normal(p.property(d)) }

// property is the identity as the manager writes it.
func (p *Policy) property(d *Device) string {
	switch {
	case d == nil:
		return ""
	case p.Identity == IdentityUUID:
		return strings.TrimSpace(d.UUID)
	case p.Identity == IdentitySerialNumber:
		return strings.TrimSpace(d.SerialNumber)
	default:
		return ""
	}
}

// maxIdentity is the longest value that an attribute can have.
const maxIdentity = resourceapi.DeviceAttributeMaxValueLength

// published is the identity as slices have it, nil where the device has none, or one
// that no slice can have.
func (p *Policy) published(d *Device) *Identity {
	property := p.property(d)
	if property == "" || len(p.IdentityPrefix+property) > maxIdentity {
		return nil
	}
	return &Identity{p.IdentityAttribute, p.IdentityPrefix + property}
}

// normal makes identities comparable: drivers and managers do not agree on case.
func normal(identity string) string { return strings.ToLower(strings.TrimSpace(identity)) }
