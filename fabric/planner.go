// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"cmp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Planner knows what is wanted of a fabric and what was seen of it, and decides
// what to do next. There is one planner for a fabric at a time.
type Planner struct {
	policy Policy
	pool   string
	ready  bool

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

	queue agenda
	slots slots
	// waiting are the attachments that only the limits hold back.
	waiting set[*entry]
	// hoping are the claims that wait for any device of a template.
	hoping map[key]bool
	// wanting are those that wait for an inventory.
	wanting map[key]bool
	reading uint64 // the step that reads the inventory
	readAt  time.Time

	underWay    map[key]uint64
	lastStep    uint64
	evaluations uint64
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

// New returns a planner that knows nothing. What is zero in the policy is
// defaulted.
func New(policy Policy) *Planner {
	return &Planner{
		policy:      policy.WithDefaults(),
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
		queue:       newAgenda(),
		slots:       slots{perMachine: map[MachineRef]int{}},
		waiting:     set[*entry]{},
		hoping:      map[key]bool{},
		wanting:     map[key]bool{},
		underWay:    map[key]uint64{},
	}
}

// Ready says that all attachments, claims, nodes and pools that exist have been
// observed. Before, nothing is planned but to read the inventory: a planner that
// does not know all claims does not know what is unused. Guards that are in place
// are best observed before, too: those that are not are put in place again.
func (p *Planner) Ready() { p.ready = true }

// Effort counts the situations that were looked at, for metrics and tests.
func (p *Planner) Effort() uint64 { return p.evaluations }

// entry is an attachment with what is known of it in this planner's life only.
type entry struct {
	Attachment
	// creating says that the object is being written for the first time; deleted,
	// that it is gone and that this was not observed yet.
	creating, deleted bool
	// armed says that this planner wrote the intent to call the manager and has not
	// done so.
	armed bool
	reply *reply
	// next is the phase of a status that is being written.
	next Phase
	// echo is a status that was observed while the same revision was being written.
	echo *Attachment
	// candidate is a device on the node that may be the target, since when.
	candidate   *LocalDevice
	candidateAt time.Time
	// others are the node's devices that could not be taken for the awaited one and were
	// there when the manager was called, nil where the driver had published nothing, or
	// another planner called the manager.
	others   map[LocalDevice]bool
	guard    GuardStatus
	retry    time.Time
	nextPoll time.Time
	slot     MachineRef
	// unallocatedSince and drainedSince are since when the claim was seen without
	// an allocation, and since when nobody can take the device; unlikeSince is since when
	// the node shows it otherwise than its model promises.
	unallocatedSince, drainedSince, unlikeSince time.Time
}

// reply is the manager's last word on a call.
type reply struct {
	op  Operation
	err error
	at  time.Time
}

func (a *entry) key() key     { return key{kind: keyAttachment, name: a.Name} }
func (a *entry) phase() Phase { return cmp.Or(a.Status.Phase, PhaseAllocated) }

// machine is where the device is, or is to be.
func (a *entry) machine() MachineRef { return cmp.Or(a.Status.Machine, a.Spec.Machine) }

// started tells whether the manager may have been called.
func (a *entry) started() bool {
	return a.phase() != PhaseAllocated && a.phase() != PhaseGuarded || a.Status.Attempts > 0
}

// waits tells whether the manager was not called yet, or is to be called again.
func (a *entry) waits() bool { return a.phase() == PhaseGuarded || a.phase() == PhaseAllocated }

// wanted tells whether the device is on its way to the claim, or with it.
func (a *entry) wanted() bool {
	switch a.phase() {
	case PhaseFailed, PhaseRetained, PhaseDraining, PhaseDetaching, PhaseDetachUnknown, PhaseReleased:
		return false
	default:
		return true
	}
}

func (a *entry) driver(p *Planner) string {
	if dev := p.devices[a.Spec.Device]; dev != nil {
		if m := p.policy.model(dev); m != nil {
			return m.Driver
		}
	}
	return a.Spec.Offer.Driver
}

// older orders attachments by the age of what they are for.
func older(a, b *entry) int {
	return cmp.Or(a.Spec.AllocatedAt.Compare(b.Spec.AllocatedAt), strings.Compare(a.Name, b.Name))
}

// owner is the attachment that may have the device: one for which the manager may
// have been called before one that waits, then the older.
func (p *Planner) owner(ref DeviceRef) *entry {
	var first *entry
	for a := range p.byDevice[ref] {
		if first == nil || a.started() && !first.started() || a.started() == first.started() && older(a, first) < 0 {
			first = a
		}
	}
	return first
}

func (p *Planner) claimOf(a *entry) *Claim {
	if a.Spec.Claim == nil {
		return nil
	}
	return p.claims[a.Spec.Claim.UID]
}

func (p *Planner) machineOf(node string) (MachineRef, bool) {
	m, ok := p.nodes[node]
	return m, ok && m != ""
}

// nodeAt is the node where the attachment's device is, or is to be; empty where
// the machine is no node.
func (p *Planner) nodeAt(a *entry) string {
	if node, ok := p.nodeOf[a.machine()]; ok {
		return node
	}
	if a.machine() == a.Spec.Machine {
		return a.Spec.Node
	}
	return ""
}

// device is the claim's allocated device of that name, nil if it has none.
func (c *Claim) device(name LocalDevice) *ClaimDevice {
	for i := range c.Devices {
		if c.Devices[i].LocalDevice == name {
			return &c.Devices[i]
		}
	}
	return nil
}

func comparePlaces(a, b place) int {
	return cmp.Or(strings.Compare(a.node, b.node), strings.Compare(a.driver, b.driver), strings.Compare(a.pool, b.pool))
}
