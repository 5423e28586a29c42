// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"cmp"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Holder is the ResourceClaim that holds a device.
type Holder struct {
	Namespace, Claim string
	UID              types.UID
}

// String returns namespace/name, as kubectl users write it.
func (h Holder) String() string { return h.Namespace + "/" + h.Claim }

// Hold is one allocation result that occupies a device.
type Hold struct {
	Device DeviceID
	Holder Holder
	// Node is the only node on which the allocation can be used, empty where there are
	// several or it is not known.
	Node string
	// ShareID is set where the hold is a share of a device that allows
	// multiple allocations; Consumed is then what it takes of the capacity, under the
	// names that the device had when it was allocated.
	ShareID  types.UID
	Consumed map[resourceapi.QualifiedName]Amount
}

// HoldsOf returns what an allocated claim occupies. Results with admin access
// occupy nothing (KEP-5018) and are left out.
func HoldsOf(claim *resourceapi.ResourceClaim) []Hold {
	if claim.Status.Allocation == nil {
		return nil
	}
	holder := Holder{Namespace: claim.Namespace, Claim: claim.Name, UID: claim.UID}
	node := onlyNode(claim.Status.Allocation.NodeSelector)
	var holds []Hold
	for i := range claim.Status.Allocation.Devices.Results {
		r := &claim.Status.Allocation.Devices.Results[i]
		if r.AdminAccess != nil && *r.AdminAccess {
			continue
		}
		h := Hold{Device: IDOf(r), Holder: holder, Node: node}
		if r.ShareID != nil {
			h.ShareID = *r.ShareID
			h.Consumed = make(map[resourceapi.QualifiedName]Amount, len(r.ConsumedCapacity))
			for name, q := range r.ConsumedCapacity {
				h.Consumed[name] = AmountOf(q)
			}
		}
		holds = append(holds, h)
	}
	return holds
}

// Occupancy is everything that holds one device, of whatever record shape.
type Occupancy struct {
	// Dedicated is set where some hold takes the whole device.
	Dedicated bool
	// Shares counts the other holds, Consumed sums up their capacity, by its local name:
	// the spelling may have changed between one share and the next.
	Shares   int
	Consumed map[resourceapi.QualifiedName]Amount
	// Holders, sorted by namespace and name.
	Holders []Holder
}

func (o *Occupancy) add(h Hold) {
	if h.ShareID == "" {
		o.Dedicated = true
	} else {
		o.Shares++
	}
	for name, amount := range h.Consumed {
		if amount.Sign() < 0 {
			continue // a share does not make a device larger
		}
		if o.Consumed == nil {
			o.Consumed = map[resourceapi.QualifiedName]Amount{}
		}
		local := LocalName(h.Device.Driver, name)
		o.Consumed[local] = o.Consumed[local].Add(amount)
	}
	o.Holders = append(o.Holders, h.Holder)
}

// ConsumedOf returns how much of a capacity is consumed, whichever way its name is spelt.
func (o *Occupancy) ConsumedOf(driver string, capacity resourceapi.QualifiedName) Amount {
	return o.Consumed[LocalName(driver, capacity)]
}

// PoolUse is what is taken of one pool.
type PoolUse struct {
	// Taken says for each of Pool.Devices what holds it, nil where free.
	Taken []*Occupancy
	// Gone are taken devices that the pool does not publish any more.
	Gone map[string]*Occupancy
	// Free is what is left of each of Pool.Counters. It is negative where a
	// driver lowered a counter below what is taken.
	Free []Amount
	// Closed counter sets (index as in Pool.Sets) have a taken device whose
	// share of them is not known; nothing may be taken from them.
	Closed []bool
}

// draw is a Draw by name: positions change when the pool does.
type draw struct {
	set, counter string
}

// ledger is the mutable record of the holds on one pool's devices.
type ledger struct {
	// holds by device name, then by owner.
	holds map[string]map[string][]Hold
	// drawn remembers, for each taken device, the most it ever consumed of
	// each counter while taken. Slices may change; devices in use do not. It is
	// by the node that publishes the device, as far as slices for one node do,
	// then by device: what one node says of a device says nothing about that of
	// another.
	drawn map[string]map[string]map[draw]Amount
	// publishers are the nodes with an entry in drawn, by device. Taken devices
	// without are unknown.
	publishers map[string][]string
	unknown    map[string]bool
}

func newLedger() *ledger {
	return &ledger{
		holds: map[string]map[string][]Hold{}, drawn: map[string]map[string]map[draw]Amount{},
		publishers: map[string][]string{}, unknown: map[string]bool{},
	}
}

func (l *ledger) set(device, owner string, holds []Hold) {
	owners := l.holds[device]
	if owners == nil {
		owners = map[string][]Hold{}
		l.holds[device] = owners
		l.unknown[device] = true
	}
	owners[owner] = holds
}

func (l *ledger) clear(device, owner string) {
	delete(l.holds[device], owner)
	if len(l.holds[device]) > 0 {
		return
	}
	delete(l.holds, device)
	delete(l.unknown, device)
	for _, node := range l.publishers[device] {
		delete(l.drawn[node], device)
	}
	delete(l.publishers, device)
}

func (l *ledger) occupancy(device string) *Occupancy {
	o := &Occupancy{}
	owners := l.holds[device]
	for _, owner := range slices.Sorted(maps.Keys(owners)) {
		for _, h := range owners[owner] {
			o.add(h)
		}
	}
	slices.SortStableFunc(o.Holders, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Claim, b.Claim), cmp.Compare(a.UID, b.UID))
	})
	return o
}

// remember notes what the taken devices consume according to the pool.
func (l *ledger) remember(p *Pool) {
	l.rememberOnly(p, slices.Collect(l.heldOf(p)))
}

// rememberOnly does so for some devices. It goes by names, not by Device.Draws: those
// lack what a pool that is not complete cannot resolve yet.
func (l *ledger) rememberOnly(p *Pool, devices []string) {
	for _, device := range devices {
		d := p.Device(device)
		if d == nil || l.holds[device] == nil {
			continue
		}
		drawn := l.drawnBy(publisherOf(d.Slice), device)
		for i := range d.Spec.ConsumesCounters {
			set := &d.Spec.ConsumesCounters[i]
			for name, counter := range set.Counters {
				raise(drawn, draw{set.CounterSet, name}, AmountOf(counter.Value))
			}
		}
	}
}

// drawnBy returns what is remembered of the device as the node publishes it, which it
// is from now on.
func (l *ledger) drawnBy(node, device string) map[draw]Amount {
	if l.drawn[node] == nil {
		l.drawn[node] = map[string]map[draw]Amount{}
	}
	drawn := l.drawn[node][device]
	if drawn == nil {
		drawn = map[draw]Amount{}
		l.drawn[node][device] = drawn
		l.publishers[device] = append(l.publishers[device], node)
		delete(l.unknown, device)
	}
	return drawn
}

func raise(drawn map[draw]Amount, key draw, amount Amount) {
	if amount.Cmp(drawn[key]) > 0 {
		drawn[key] = amount
	}
}
