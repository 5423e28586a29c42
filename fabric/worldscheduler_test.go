// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// schedule is the world's scheduler and its users: claims come and go, are
// allocated, handed over, or given up.
func (w *world) schedule() {
	if w.manager.faults && w.rng.IntN(10) == 0 {
		w.addClaim()
	}
	if w.manager.faults && w.rng.IntN(150) == 0 {
		w.removeNode(fmt.Sprint("node-", w.rng.IntN(3)))
	}
	if w.rng.IntN(30) == 0 {
		w.repairNodes()
	}
	if names := slices.Sorted(maps.Keys(w.attachments)); len(names) > 0 && w.manager.faults && w.rng.IntN(150) == 0 {
		a := w.attachments[names[w.rng.IntN(len(names))]]
		a.Deleting = true
		w.store(a)
	}
	for _, uid := range slices.Sorted(maps.Keys(w.claims)) {
		c := w.claims[uid]
		switch {
		case w.manager.faults && w.rng.IntN(80) == 0:
			delete(w.claims, uid)
			w.tell(func(p *Planner) { p.ForgetClaim(uid) })
		case w.rng.IntN(3) > 0:
		case c.Reserved:
			// A claim that is in use is never cleared.
		case slices.ContainsFunc(c.Devices, func(d ClaimDevice) bool { return d.Failed }):
			w.clear(c)
		case len(c.Devices) > 0:
			w.handOver(c)
		case len(w.targets[uid]) == w.want[uid] && w.allocateTargets(c):
		case w.policy.HandOver == Reschedule && w.allocateGuarded(c):
		case !w.calm && w.rng.IntN(4) == 0:
			w.allocate(c)
		}
	}
}

// removeNode deletes a node, its drivers' pools, its pods and their claims.
func (w *world) removeNode(node string) {
	if _, ok := w.nodes[node]; !ok {
		return
	}
	delete(w.nodes, node)
	w.tell(func(p *Planner) { p.ForgetNode(node) })
	w.tell(func(p *Planner) { p.ForgetPool(node, simDriver, node) })
	for _, uid := range slices.Sorted(maps.Keys(w.claims)) {
		if w.claims[uid].Node == node && w.claims[uid].Reserved {
			delete(w.claims, uid)
			w.tell(func(p *Planner) { p.ForgetClaim(uid) })
		}
	}
	for name, ref := range w.local {
		// A driver that comes back may name its devices anew, if they can be told
		// apart.
		if dev := w.manager.devices[ref]; w.nodeOf[name] == node && dev != nil && dev.UUID != "" {
			delete(w.local, name)
			delete(w.nodeOf, name)
		}
	}
}

func (w *world) repairNodes() {
	for i := range 3 {
		name, machine := fmt.Sprint("node-", i), w.manager.machines[i].Ref
		if _, ok := w.nodes[name]; !ok {
			w.nodes[name] = machine
			w.tell(func(p *Planner) { p.ObserveNode(Node{name, machine}) })
			pool := w.pool(name)
			w.tell(func(p *Planner) { p.ObservePool(pool) })
		}
	}
}

func (w *world) addClaim() {
	if len(w.claims) >= 6 {
		return
	}
	uid := types.UID(fmt.Sprintf("uid-%d", len(w.want)))
	w.want[uid] = 1 + w.rng.IntN(2)
	w.targets[uid] = map[LocalDevice]LocalDevice{}
	w.claims[uid] = &Claim{UID: uid, Namespace: "default", Name: string(uid)}
	w.claimChanged(w.claims[uid])
}

// clear is one write; what is attached for the claim stays named where it was
// handed over.
func (w *world) clear(c *Claim) {
	c.Node, c.Devices, c.Reserved = "", nil, false
	c.AllocatedAt = c.AllocatedAt.Truncate(0)
	clear(w.targets[c.UID])
	w.claimChanged(c)
}

func (w *world) handOver(c *Claim) {
	for _, d := range c.Devices {
		if d.Pool == PoolName(w.policy.Fabric) && !d.Attached {
			return
		}
	}
	if w.policy.HandOver == Resolve {
		c.Reserved = true
		w.claimChanged(c)
		return
	}
	// The first of two writes; allocateTargets is the second.
	c.Devices = nil
	w.claimChanged(c)
}

func (w *world) allocateTargets(c *Claim) bool {
	targets := slices.SortedFunc(maps.Values(w.targets[c.UID]), compareDevices)
	for i, t := range targets {
		if _, there := w.local[t]; !there || w.held(t) || w.drained(t) || slices.Contains(targets[:i], t) {
			w.clear(c)
			return true
		}
	}
	for _, t := range targets {
		c.Devices = append(c.Devices, ClaimDevice{LocalDevice: t})
	}
	w.allocated(c, w.nodeOf[c.Devices[0].LocalDevice], true)
	return true
}

// allocateGuarded gives a claim the devices that are guarded for it.
func (w *world) allocateGuarded(c *Claim) bool {
	var mine []LocalDevice
	for _, name := range slices.Sorted(maps.Keys(w.guards)) {
		g := w.guards[name]
		claim, t := g.set.Attachment.Spec.Claim, g.set.Device
		if g.Guard != GuardDevice || claim == nil || claim.UID != c.UID || t == nil || w.held(*t) || w.drained(*t) || w.nodeOf[*t] == "" || slices.Contains(mine, *t) {
			continue
		}
		mine = append(mine, *t)
	}
	if len(mine) != w.want[c.UID] || len(mine) == 2 && w.nodeOf[mine[0]] != w.nodeOf[mine[1]] {
		return false
	}
	for _, t := range mine {
		c.Devices = append(c.Devices, ClaimDevice{LocalDevice: t})
	}
	w.allocated(c, w.nodeOf[mine[0]], true)
	return true
}

func (w *world) allocated(c *Claim, node string, reserved bool) {
	c.Node, c.AllocatedAt, c.Reserved = node, w.now, reserved
	w.trace = append(w.trace, fmt.Sprintf("%s allocated %s on %s: %v", w.now.Format("15:04:05"), c.UID, node, c.Devices))
	w.claimChanged(c)
}

// allocate gives a claim devices of one node: what is there and free, and for the
// rest what the fabric offers.
func (w *world) allocate(c *Claim) {
	node := fmt.Sprint("node-", w.rng.IntN(3))
	if _, exists := w.nodes[node]; !exists {
		return
	}
	var found []ClaimDevice
	if w.policy.HandOver != Resolve {
		for _, name := range slices.SortedFunc(maps.Keys(w.local), compareDevices) {
			if w.nodeOf[name] == node && !w.held(name) && !w.guardedFrom(c, name) && !w.keptFrom(c, name) && w.rng.IntN(2) == 0 {
				found = append(found, ClaimDevice{LocalDevice: name})
			}
		}
	}
	fabric := false
	for _, o := range w.offers {
		// Now and then another scheduler allocates what is allocated already.
		twice := w.manager.faults && w.rng.IntN(20) == 0
		if len(found) < w.want[c.UID] && (twice || !w.held(o.LocalDevice) && (o.Kept == "" || o.Kept == c.UID)) && slices.Contains(o.Nodes, node) {
			found = append(found, ClaimDevice{LocalDevice: o.LocalDevice})
			fabric = true
		}
	}
	if len(found) < w.want[c.UID] {
		return
	}
	clear(w.targets[c.UID])
	c.Devices = found[:w.want[c.UID]]
	for _, d := range c.Devices {
		if d.Pool != PoolName(w.policy.Fabric) {
			w.targets[c.UID][d.LocalDevice] = d.LocalDevice
		}
	}
	w.allocated(c, node, !fabric)
	// Some devices never show up.
	if fabric && w.rng.IntN(10) == 0 {
		w.hidden[DeviceRef(fmt.Sprint("/Blocks/", w.rng.IntN(6)))] = true
	}
}

// guardedFrom honours the guards that the scheduler has seen.
func (w *world) guardedFrom(c *Claim, name LocalDevice) bool {
	for _, g := range w.guards {
		claim := g.set.Attachment.Spec.Claim
		own := claim != nil && claim.UID == c.UID
		if (g.Guard == GuardPool || g.Guard == GuardDevice) && !own && w.covers(g, name) {
			return true
		}
	}
	return w.drained(name)
}

// drained tells whether nobody may take the device any more, not even the claim that
// had it before the first of the two writes of its hand-over.
func (w *world) drained(name LocalDevice) bool {
	for _, g := range w.guards {
		if g.Guard == GuardDrain && w.covers(g, name) {
			return true
		}
	}
	return false
}

// covers tells whether the scheduler has seen a guard, and it is on the device.
func (w *world) covers(g *simGuard, name LocalDevice) bool {
	if g.set.Device == nil {
		return g.Acknowledged && g.set.Node == w.nodeOf[name]
	}
	return g.Acknowledged && *g.set.Device == name
}
