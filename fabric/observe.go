// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// ObserveAttachment tells of an attachment that exists. An older status than the
// one that is known is ignored.
func (p *Planner) ObserveAttachment(seen Attachment) {
	a := p.attachments[seen.Name]
	switch {
	case a == nil:
		a = &entry{Attachment: seen}
		p.attachments[seen.Name] = a
		p.enter(a)
	case a.deleted:
		return
	case a.creating && a.Status.Revision <= seen.Status.Revision:
		p.unindex(a)
		a.Attachment, a.creating = seen, false
		p.enter(a)
	case seen.Status.Revision > a.Status.Revision && a.next != "" && seen.Status.Revision == a.Status.Revision+1:
		a.echo = &seen
	case seen.Status.Revision > a.Status.Revision:
		p.install(a, seen.Status)
	}
	a.Deleting = a.Deleting || seen.Deleting
	a.NodeGuarded = a.NodeGuarded || seen.NodeGuarded
	p.queue.touch(a.key())
}

// ForgetAttachment tells that an attachment does not exist.
func (p *Planner) ForgetAttachment(name string) {
	if a := p.attachments[name]; a != nil {
		p.dropAttachment(a)
		delete(p.attachments, name)
	}
}

// dropAttachment takes an attachment out of all indices, and queues what it kept
// from others.
func (p *Planner) dropAttachment(a *entry) {
	if a.deleted {
		return
	}
	p.unindex(a)
	if len(p.byDevice[a.Spec.Device]) == 0 {
		delete(p.vanished, a.Spec.Device)
	}
	a.Status.Phase, a.next = PhaseReleased, ""
	p.slots.occupy(a)
	p.queue.forget(a.key())
	delete(p.wanting, a.key())
	delete(p.waiting, a)
	delete(p.underWay, a.key())
	p.touchDevice(a.Spec.Device)
	if a.Spec.Template {
		p.touchTemplates()
	}
}

// enter makes an attachment known, and has it hold its slot.
func (p *Planner) enter(a *entry) {
	p.index(a)
	p.slots.occupy(a)
}

// install makes a status that was written the one that is known.
func (p *Planner) install(a *entry, status AttachmentStatus) {
	before, target := a.phase(), a.Status.Target
	p.unindex(a)
	a.Status, a.next, a.echo = status, "", nil
	if a.phase() != before {
		a.armed, a.reply, a.nextPoll = false, nil, time.Time{}
		a.unallocatedSince, a.drainedSince, a.unlikeSince = time.Time{}, time.Time{}, time.Time{}
	}
	p.enter(a)
	p.queue.touch(a.key())
	if a.phase() != before || !equalDevices(a.Status.Target, target) {
		p.touchNeighbours(a)
	}
}

// touchNeighbours queues the attachments that have the same device, or that wait for
// this one because their devices could not be told apart.
func (p *Planner) touchNeighbours(a *entry) {
	for other := range p.byNode[a.Spec.Node] {
		if other.waits() && !p.recognisable(other) {
			p.queue.touch(other.key())
		}
	}
	for other := range p.byDevice[a.Spec.Device] {
		if other.waits() {
			p.queue.touch(other.key())
		}
	}
	p.touchOffers(a.Spec.Device)
}

// ObserveGuard tells which guard is in place for an attachment.
func (p *Planner) ObserveGuard(name string, guard GuardStatus) {
	if a := p.attachments[name]; a != nil {
		a.guard = guard
		p.queue.touch(a.key())
	}
}

// ObserveKept tells which devices the fabric's pool shows as kept for which claims,
// all of them: see [Offer].
func (p *Planner) ObserveKept(kept map[LocalDevice]types.UID) {
	for name, claim := range kept {
		if p.kept[name] != claim {
			for a := range p.byClaim[claim] {
				p.queue.touch(a.key())
			}
		}
	}
	p.kept = maps.Clone(kept)
}

// ObserveClaim tells of a claim that exists, allocated or not.
func (p *Planner) ObserveClaim(c Claim) {
	if old := p.claims[c.UID]; old != nil && reflect.DeepEqual(*old, c) {
		return
	}
	p.ForgetClaim(c.UID)
	c.Devices = slices.Clone(c.Devices)
	p.claims[c.UID] = &c
	for _, d := range c.Devices {
		add(p.holders, d.LocalDevice, c.UID)
		if p.heldOn[c.Node] == nil {
			p.heldOn[c.Node] = map[LocalDevice]int{}
		}
		p.heldOn[c.Node][d.LocalDevice]++
		if d.Pool == p.pool {
			add(p.offers, d.LocalDevice, c.UID)
			add(p.claimed, c.Node, c.UID)
		}
	}
	p.touchClaim(&c)
}

// ForgetClaim tells that a claim does not exist.
func (p *Planner) ForgetClaim(uid types.UID) {
	c := p.claims[uid]
	if c == nil {
		return
	}
	delete(p.claims, uid)
	for _, d := range c.Devices {
		remove(p.holders, d.LocalDevice, uid)
		if p.heldOn[c.Node][d.LocalDevice]--; p.heldOn[c.Node][d.LocalDevice] <= 0 {
			delete(p.heldOn[c.Node], d.LocalDevice)
		}
		if len(p.heldOn[c.Node]) == 0 {
			delete(p.heldOn, c.Node)
		}
		remove(p.offers, d.LocalDevice, uid)
		remove(p.claimed, c.Node, uid)
	}
	p.touchClaim(c)
}

// touchClaim queues whatever depends on the devices of a claim.
func (p *Planner) touchClaim(c *Claim) {
	for a := range p.byClaim[c.UID] {
		p.queue.touch(a.key())
	}
	unknown := false
	for _, d := range c.Devices {
		if d.Pool == p.pool {
			p.queue.touch(key{kind: keyOffer, claim: c.UID, offer: d.LocalDevice})
			p.touchDevice(p.names[d.LocalDevice])
			continue
		}
		for a := range p.targets[d.LocalDevice] {
			p.queue.touch(a.key())
		}
		unknown = unknown || p.publishes(d.Driver)
	}
	if !unknown {
		return
	}
	// Attachments whose target is not known look at all that is used on the node.
	if c.Node != "" {
		p.touchNode(c.Node)
		return
	}
	for _, a := range p.attachments {
		p.queue.touch(a.key())
	}
}

// publishes tells whether devices of the fabric appear in a driver's pools.
func (f *facts) publishes(driver string) bool {
	return slices.ContainsFunc(f.policy.Models, func(m Model) bool { return m.Driver == driver })
}

// ObserveNode tells of a node and which machine it is, empty where it is none of
// the fabric's.
func (p *Planner) ObserveNode(n Node) {
	if old, ok := p.nodes[n.Name]; ok && old == n.Machine {
		return
	}
	p.setNode(n.Name, n.Machine, true)
}

// ForgetNode tells that a node does not exist.
func (p *Planner) ForgetNode(name string) {
	if _, ok := p.nodes[name]; ok {
		p.setNode(name, "", false)
	}
}

func (p *Planner) setNode(name string, machine MachineRef, exists bool) {
	old := p.nodes[name]
	p.touchNode(name)
	if p.nodeOf[old] == name {
		delete(p.nodeOf, old)
	}
	delete(p.nodes, name)
	if exists {
		p.nodes[name] = machine
		if machine != "" {
			p.nodeOf[machine] = name
		}
	}
	p.touchNode(name)
	for uid := range p.claimed[name] {
		p.touchClaim(p.claims[uid])
	}
	for _, m := range []MachineRef{old, machine} {
		for ref := range p.devicesAt[m] {
			p.touchDevice(ref)
		}
	}
}

// ObservePool tells of the devices that a driver publishes for a node.
func (p *Planner) ObservePool(pool NodePool) {
	at := place{pool.Node, pool.Driver, pool.Pool}
	if old := p.pools[at]; old != nil && reflect.DeepEqual(*old, pool) {
		return
	}
	p.ForgetPool(pool.Node, pool.Driver, pool.Pool)
	p.pools[at] = &pool
	add(p.placesOf, pool.Node, at)
	for i := range pool.Devices {
		d := &pool.Devices[i]
		seen := sighting{pool.Node, LocalDevice{pool.Driver, pool.Pool, d.Name}}
		identity := normal(d.Identity)
		p.published[seen] = d
		if identity != "" {
			p.identities[identity] = append(p.identities[identity], seen)
		}
	}
	p.touchNode(pool.Node)
}

// ForgetPool tells that a driver publishes no such pool for a node.
func (p *Planner) ForgetPool(node, driver, pool string) {
	at := place{node, driver, pool}
	old := p.pools[at]
	if old == nil {
		return
	}
	delete(p.pools, at)
	remove(p.placesOf, node, at)
	for _, d := range old.Devices {
		seen := sighting{node, LocalDevice{driver, pool, d.Name}}
		delete(p.published, seen)
		identity := normal(d.Identity)
		p.identities[identity] = slices.DeleteFunc(p.identities[identity], func(s sighting) bool { return s == seen })
		if len(p.identities[identity]) == 0 {
			delete(p.identities, identity)
		}
	}
	p.touchNode(node)
}

// touchNode queues the attachments that are for a node, or whose devices are there.
func (p *Planner) touchNode(node string) {
	for a := range p.byNode[node] {
		p.queue.touch(a.key())
	}
	if m, ok := p.machineOf(node); ok {
		for a := range p.byMachine[m] {
			p.queue.touch(a.key())
		}
	}
}

// touchDevice queues a device, and all that may be for it.
func (p *Planner) touchDevice(ref DeviceRef) {
	if ref == "" {
		return
	}
	p.queue.touch(key{kind: keyDevice, name: string(ref)})
	for a := range p.byDevice[ref] {
		p.queue.touch(a.key())
	}
	p.touchOffers(ref)
}

func (p *Planner) touchOffers(ref DeviceRef) {
	dev := p.devices[ref]
	if dev == nil {
		return
	}
	if m := p.policy.model(dev); m != nil {
		name := p.offerName(m, ref)
		for uid := range p.offers[name] {
			p.queue.touch(key{kind: keyOffer, claim: uid, offer: name})
		}
	}
}

// touchTemplates queues the claims that wait for any of many equal devices.
func (p *Planner) touchTemplates() {
	for k := range p.hoping {
		p.queue.touch(k)
	}
}
