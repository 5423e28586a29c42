// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// place is a driver's pool on a node.
type place struct{ node, driver, pool string }

// target is the attached device as its node publishes it, nil where it is not
// known. What the node says today counts more than what was recorded: a driver
// may have named its devices anew.
func (s *situation) target() *LocalDevice {
	if found := s.p.identified(s.a, s.dev); found != nil {
		return found
	}
	if t := s.a.Status.Target; t != nil && !s.p.isAnother(s.a, *t) {
		return t
	}
	if !s.here() || s.identity() != "" {
		return nil
	}
	return s.newcomer()
}

// names are those by which a claim may have the device: the one that the node
// publishes it by, and the recorded one, unless the node says that it is another
// device now.
func (s *situation) names() []LocalDevice {
	var names []LocalDevice
	if t := s.target(); t != nil {
		names = append(names, *t)
	}
	if t := s.a.Status.Target; t != nil && !slices.Contains(names, *t) && !s.p.isAnother(s.a, *t) {
		names = append(names, *t)
	}
	return names
}

// identity is what the device is recognised by, empty where there is nothing.
func (s *situation) identity() string {
	if s.dev == nil {
		return ""
	}
	return s.p.policy.identity(s.dev)
}

// targetNew does not forget a name by which a claim has the device.
func (s *situation) targetNew() bool {
	t, recorded := s.target(), s.a.Status.Target
	return t != nil && !equalDevices(t, recorded) &&
		(recorded == nil || len(s.p.holders[*recorded]) == 0 || s.p.isAnother(s.a, *recorded))
}

// stolen tells whether the target belongs to a claim that it was not meant for.
func (s *situation) stolen() bool {
	t := s.target()
	if t == nil {
		return false
	}
	for uid := range s.p.holders[*t] {
		if uid != s.a.Spec.Claim.UID && !s.p.claims[uid].device(*t).AdminAccess {
			return true
		}
	}
	return false
}

// identified finds the device by its identity on the node where it is attached. Of several,
// a card and what it is cut into, it is the one that is what the model promises.
func (p *Planner) identified(a *entry, dev *Device) *LocalDevice {
	if dev == nil {
		return nil
	}
	identity := p.policy.identity(dev)
	if identity == "" {
		return nil
	}
	var first *LocalDevice
	node := p.nodeAt(a)
	for _, seen := range p.identities[identity] {
		if seen.node != node || seen.device.Driver != a.driver(p) {
			continue
		}
		if len(p.identities[identity]) == 1 || p.asPromised(a, seen) {
			return &seen.device
		}
		if first == nil {
			first = &seen.device
		}
	}
	return first
}

// newcomer finds the device among those of the node without identity: the one
// whose taint names the claim, else, while it is waited for, the only one that was
// not there before and equals the model, if an inventory read after it was seen
// shows no other device that it could be. Where none equals the model it is the only new
// one of all.
func (s *situation) newcomer() *LocalDevice {
	a := s.a
	var tainted, fresh, unequal []LocalDevice
	for _, d := range s.p.strangers(a) {
		switch {
		case a.Spec.Claim != nil && d.taint == a.Spec.Claim.UID:
			tainted = append(tainted, d.LocalDevice)
		case d.taint != "":
		case d.equal && !slices.Contains(a.Status.Before, d.LocalDevice):
			fresh = append(fresh, d.LocalDevice)
		case !d.equal && a.others != nil && !a.others[d.LocalDevice] && !slices.Contains(a.Status.Before, d.LocalDevice):
			unequal = append(unequal, d.LocalDevice)
		}
	}
	if len(fresh) == 0 {
		fresh = unequal
	}
	switch {
	case len(tainted) > 0:
		return &tainted[0]
	case len(fresh) != 1 || a.phase() != PhaseAttached || a.Status.Attempts == 0:
		return nil
	}
	if !equalDevices(a.candidate, &fresh[0]) {
		a.candidate, a.candidateAt = &fresh[0], s.now
	}
	if !s.readSince(a.candidateAt) || s.p.crowded(a) {
		return nil
	}
	return a.candidate
}

// crowded tells whether the machine has more devices without identity, by the
// inventory, than the node's old devices and the targets of other attachments
// account for.
func (p *Planner) crowded(a *entry) bool {
	others := 0
	for ref := range p.devicesAt[a.machine()] {
		dev := p.devices[ref]
		if m := p.policy.model(dev); ref == a.Spec.Device || m == nil || m.Driver != a.driver(p) || p.policy.identity(dev) != "" {
			continue
		}
		if !p.accounted(ref) {
			others++
		}
	}
	for _, old := range a.Status.Before {
		if _, there := p.published[sighting{p.nodeAt(a), old}]; there && !p.targetOfAnother(a, old) {
			others--
		}
	}
	return others > 0
}

// accounted tells whether the node publishes the target of the device's
// attachment.
func (p *Planner) accounted(ref DeviceRef) bool {
	for other := range p.byDevice[ref] {
		if t := other.Status.Target; t != nil {
			if _, there := p.published[sighting{p.nodeAt(other), *t}]; there {
				return true
			}
		}
	}
	return false
}

// lookalikes are the devices of the node that could be taken for the awaited one, and its
// others: none where the device has an identity.
func (p *Planner) lookalikes(a *entry) (alike []LocalDevice, others map[LocalDevice]bool) {
	if dev := p.devices[a.Spec.Device]; dev == nil || p.policy.identity(dev) != "" {
		return nil, nil
	}
	for at := range p.placesOf[p.nodeAt(a)] {
		if at.driver == a.driver(p) {
			others = map[LocalDevice]bool{}
		}
	}
	for _, d := range p.strangers(a) {
		if d.equal {
			alike = append(alike, d.LocalDevice)
		} else {
			others[d.LocalDevice] = true
		}
	}
	return alike, others
}

// stranger is a device on a node that no identity tells apart. It is equal if it has all
// that the attachment's model says.
type stranger struct {
	LocalDevice
	taint types.UID
	equal bool
}

// strangers lists the devices of the attachment's node and driver that are neither
// known by their identity nor the target of another attachment, in order of name.
func (p *Planner) strangers(a *entry) []stranger {
	var found []stranger
	node, driver := p.nodeAt(a), a.driver(p)
	for _, at := range slices.SortedFunc(maps.Keys(p.placesOf[node]), comparePlaces) {
		if at.driver != driver {
			continue
		}
		for _, d := range p.pools[at].Devices {
			local := LocalDevice{at.driver, at.pool, d.Name}
			if p.refs[normal(d.Identity)] != "" || p.targetOfAnother(a, local) {
				continue
			}
			found = append(found, stranger{local, d.ClaimTaint, p.equals(a, &d)})
		}
	}
	return found
}

// equals tells whether a node's device has all that the attachment's model says.
func (p *Planner) equals(a *entry, d *NodeDevice) bool {
	dev := p.devices[a.Spec.Device]
	if dev == nil {
		return true
	}
	m := p.policy.model(dev)
	if m == nil {
		return true
	}
	for name, value := range m.Attributes {
		if got, ok := d.Attributes[name]; ok && got != value {
			return false
		}
	}
	return true
}

// tellsApart tells whether a device that arrives on the node can be told from the
// others under way: of those without identity, only one is.
func (p *Planner) tellsApart(a *entry) bool {
	if p.recognisable(a) {
		return true
	}
	for other := range p.byNode[a.Spec.Node] {
		if other != a && p.nameless(other) {
			return false
		}
	}
	return true
}

// nameless tells whether an attachment's device without identity may appear on the
// node any moment: it is under way, or there, given up before the node showed it.
func (p *Planner) nameless(a *entry) bool {
	if p.recognisable(a) {
		return false
	}
	if arrives(a.phase()) || arrives(a.next) {
		return true
	}
	dev := p.devices[a.Spec.Device]
	return a.Spec.Claim != nil && a.Status.Target == nil && dev != nil && dev.Machine == a.machine()
}

// recognisable tells whether an attachment's device is known to have an identity.
func (p *Planner) recognisable(a *entry) bool {
	dev := p.devices[a.Spec.Device]
	return dev != nil && p.policy.identity(dev) != ""
}

// arrives tells whether a device in a phase is under way to its node. A phase that
// is being written may never be.
func arrives(phase Phase) bool {
	return phase == PhaseAttaching || phase == PhaseAttachUnknown || phase == PhaseAttached
}

// inUse tells whether a claim uses the attached device, or may use it: what is not
// known to be unused counts as used.
func (p *Planner) inUse(s *situation) bool {
	a := s.a
	if s.claimUses() || a.Spec.Claim == nil && p.foreignClaim(a.Spec.Device) {
		return true
	}
	names := s.names()
	for _, name := range names {
		if len(p.holders[name]) > 0 {
			return true
		}
	}
	node := p.nodeAt(a)
	if node == "" || p.identified(a, s.dev) != nil || s.dev != nil && s.identity() == "" && len(names) > 0 {
		return false
	}
	// Who attached a device that was found may use it without a driver.
	if a.Spec.Claim == nil {
		return true
	}
	// A driver that is away may come back with other names.
	return p.mayHold(a, node) || p.mayHold(a, "")
}

// mayHold tells whether a claim on the node has a device of the attachment's
// driver that could be the attached one: nothing says that it is another.
func (p *Planner) mayHold(a *entry, node string) bool {
	driver := a.driver(p)
	for d := range p.heldOn[node] {
		if d.Pool == p.pool || driver != "" && d.Driver != driver {
			continue
		}
		if !p.targetOfAnother(a, d) && !p.isAnother(a, d) {
			return true
		}
	}
	return false
}

// targetOfAnother tells whether another attachment has the device of that name,
// and has it still: names are used again.
func (p *Planner) targetOfAnother(a *entry, name LocalDevice) bool {
	for other := range p.targets[name] {
		dev := p.devices[other.Spec.Device]
		if other == a || dev == nil || dev.Machine != other.machine() {
			continue
		}
		if p.policy.identity(dev) == "" || equalDevices(p.identified(other, dev), &name) {
			return true
		}
	}
	return false
}

// isAnother tells whether a device that is published has an identity, which is
// not that of the attachment's device.
func (p *Planner) isAnother(a *entry, d LocalDevice) bool {
	seen := p.published[sighting{p.nodeAt(a), d}]
	if seen == nil || normal(seen.Identity) == "" {
		return false
	}
	dev := p.devices[a.Spec.Device]
	return dev != nil && p.policy.identity(dev) != "" && p.policy.identity(dev) != normal(seen.Identity)
}
