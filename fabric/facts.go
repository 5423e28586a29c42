// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// facts are what was observed, with indices. Questions that they answer change nothing.
// They stay one type because each answer needs several kinds: which device of a node is
// an attachment's, say, takes the manager's inventory, what nodes publish, what claims
// hold and the other attachments.
type facts struct {
	policy Policy
	pool   string

	attachments map[string]*entry
	byClaim     map[types.UID]set[*entry]
	byDevice    map[DeviceRef]set[*entry]
	byNode      map[string]set[*entry]
	byMachine   map[MachineRef]set[*entry] // where the device is, or is to be
	targets     map[LocalDevice]set[*entry]

	claims  map[types.UID]*Claim
	offers  map[LocalDevice]set[types.UID] // allocated devices of the fabric
	claimed map[string]set[types.UID]      // claims with such devices, by node
	holders map[LocalDevice]set[types.UID]
	heldOn  map[string]map[LocalDevice]int

	nodes      map[string]MachineRef
	nodeOf     map[MachineRef]string
	pools      map[place]*NodePool
	placesOf   map[string]set[place]
	identities map[string][]sighting
	published  map[sighting]*NodeDevice

	devices     map[DeviceRef]*Device
	vanished    map[DeviceRef]*Device // with attachments: as they were seen last
	devicesAt   map[MachineRef]set[DeviceRef]
	machines    map[MachineRef]*Machine
	names       map[LocalDevice]DeviceRef
	members     map[*Model][]DeviceRef // devices of templates, sorted
	refs        map[string]DeviceRef   // by identity
	orphans     map[DeviceRef]time.Time
	foreign     map[string]Foreign // attachments of other fabrics, by name
	foreignOf   map[DeviceRef]set[string]
	barred      bool
	withheld    map[string]set[DeviceRef] // by model
	kept        map[LocalDevice]types.UID // as the fabric's pool says
	inventoryAt time.Time                 // when its reading began, zero if there is none
}

type set[T comparable] map[T]struct{}

// add and remove keep maps of sets free of empty sets.
func add[K, T comparable](m map[K]set[T], k K, v T) {
	if m[k] == nil {
		m[k] = set[T]{}
	}
	m[k][v] = struct{}{}
}

func remove[K, T comparable](m map[K]set[T], k K, v T) {
	delete(m[k], v)
	if len(m[k]) == 0 {
		delete(m, k)
	}
}

// sighting is a device on a node. Nodes may publish devices of the same name: a pool
// that two of them call theirs is a mistake, or malice.
type sighting struct {
	node   string
	device LocalDevice
}

func newFacts(policy Policy) facts {
	return facts{
		policy:      policy,
		pool:        PoolName(policy.Fabric),
		attachments: map[string]*entry{},
		byClaim:     map[types.UID]set[*entry]{},
		byDevice:    map[DeviceRef]set[*entry]{},
		byNode:      map[string]set[*entry]{},
		byMachine:   map[MachineRef]set[*entry]{},
		targets:     map[LocalDevice]set[*entry]{},
		claims:      map[types.UID]*Claim{},
		offers:      map[LocalDevice]set[types.UID]{},
		claimed:     map[string]set[types.UID]{},
		holders:     map[LocalDevice]set[types.UID]{},
		heldOn:      map[string]map[LocalDevice]int{},
		nodes:       map[string]MachineRef{},
		nodeOf:      map[MachineRef]string{},
		pools:       map[place]*NodePool{},
		placesOf:    map[string]set[place]{},
		identities:  map[string][]sighting{},
		published:   map[sighting]*NodeDevice{},
		devices:     map[DeviceRef]*Device{},
		vanished:    map[DeviceRef]*Device{},
		devicesAt:   map[MachineRef]set[DeviceRef]{},
		machines:    map[MachineRef]*Machine{},
		names:       map[LocalDevice]DeviceRef{},
		members:     map[*Model][]DeviceRef{},
		refs:        map[string]DeviceRef{},
		orphans:     map[DeviceRef]time.Time{},
		foreign:     map[string]Foreign{},
		foreignOf:   map[DeviceRef]set[string]{},
		withheld:    map[string]set[DeviceRef]{},
		kept:        map[LocalDevice]types.UID{},
	}
}

func (f *facts) index(a *entry) {
	if a.Spec.Claim != nil {
		add(f.byClaim, a.Spec.Claim.UID, a)
	}
	add(f.byDevice, a.Spec.Device, a)
	add(f.byNode, a.Spec.Node, a)
	add(f.byMachine, a.machine(), a)
	if t := a.Status.Target; t != nil {
		add(f.targets, *t, a)
	}
}

func (f *facts) unindex(a *entry) {
	if a.Spec.Claim != nil {
		remove(f.byClaim, a.Spec.Claim.UID, a)
	}
	remove(f.byDevice, a.Spec.Device, a)
	remove(f.byNode, a.Spec.Node, a)
	remove(f.byMachine, a.machine(), a)
	if t := a.Status.Target; t != nil {
		remove(f.targets, *t, a)
	}
}

// model is that of an attachment's device, nil where there is none.
func (f *facts) model(a *entry) *Model { return f.policy.model(f.devices[a.Spec.Device]) }

// driver publishes an attachment's device on its node.
func (f *facts) driver(a *entry) string {
	if m := f.model(a); m != nil {
		return m.Driver
	}
	return a.Spec.Offer.Driver
}

// identity is what an attachment's device is recognised by, empty where there is nothing.
func (f *facts) identity(a *entry) string { return f.policy.identity(f.devices[a.Spec.Device]) }

// owner is the attachment that may have the device: one for which the manager may
// have been called before one that waits, then the older.
func (f *facts) owner(ref DeviceRef) *entry {
	var first *entry
	for a := range f.byDevice[ref] {
		if first == nil || a.started() && !first.started() || a.started() == first.started() && older(a, first) < 0 {
			first = a
		}
	}
	return first
}

func (f *facts) claimOf(a *entry) *Claim {
	if a.Spec.Claim == nil {
		return nil
	}
	return f.claims[a.Spec.Claim.UID]
}

func (f *facts) machineOf(node string) (MachineRef, bool) {
	m, ok := f.nodes[node]
	return m, ok && m != ""
}

// nodeAt is the node where the attachment's device is, or is to be; empty where
// the machine is no node.
func (f *facts) nodeAt(a *entry) string {
	if node, ok := f.nodeOf[a.machine()]; ok {
		return node
	}
	if a.machine() == a.Spec.Machine {
		return a.Spec.Node
	}
	return ""
}
