// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// place is a driver's pool on a node.
type place struct{ node, driver, pool string }

func comparePlaces(a, b place) int {
	return cmp.Or(strings.Compare(a.node, b.node), strings.Compare(a.driver, b.driver), strings.Compare(a.pool, b.pool))
}

// target is the attached device as its node publishes it, nil where it is not
// known. What the node says today counts more than what was recorded: a driver
// may have named its devices anew.
func (s *situation) target() *LocalDevice {
	if found := s.p.identified(s.entry); found != nil {
		return found
	}
	if t := s.Status.Target; t != nil && !s.p.isAnother(s.entry, *t) {
		return t
	}
	if !s.here() || s.p.recognisable(s.entry) {
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
	if t := s.Status.Target; t != nil && !slices.Contains(names, *t) && !s.p.isAnother(s.entry, *t) {
		names = append(names, *t)
	}
	return names
}

// targetNew does not forget a name by which a claim has the device.
func (s *situation) targetNew() bool {
	t, recorded := s.target(), s.Status.Target
	return t != nil && !equalDevices(t, recorded) &&
		(recorded == nil || len(s.p.holders[*recorded]) == 0 || s.p.isAnother(s.entry, *recorded))
}

// stolen tells whether the target belongs to a claim that it was not meant for.
func (s *situation) stolen() bool {
	t := s.target()
	if t == nil {
		return false
	}
	for uid := range s.p.holders[*t] {
		if uid != s.Spec.Claim.UID && !s.p.claims[uid].device(*t).AdminAccess {
			return true
		}
	}
	return false
}

// identified finds the device by its identity on the node where it is attached. Of several,
// a card and what it is cut into, it is the one that is what the model promises.
func (f *facts) identified(a *entry) *LocalDevice {
	identity := f.identity(a)
	if identity == "" {
		return nil
	}
	var first *LocalDevice
	node := f.nodeAt(a)
	for _, seen := range f.identities[identity] {
		if seen.node != node || seen.device.Driver != f.driver(a) {
			continue
		}
		if len(f.identities[identity]) == 1 || f.asPromised(a, seen) {
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
	a := s.entry
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
func (f *facts) crowded(a *entry) bool {
	others := 0
	for ref := range f.devicesAt[a.machine()] {
		dev := f.devices[ref]
		if m := f.policy.model(dev); ref == a.Spec.Device || m == nil || m.Driver != f.driver(a) || f.policy.identity(dev) != "" {
			continue
		}
		if !f.accounted(ref) {
			others++
		}
	}
	for _, old := range a.Status.Before {
		if _, there := f.published[sighting{f.nodeAt(a), old}]; there && !f.targetOfAnother(a, old) {
			others--
		}
	}
	return others > 0
}

// accounted tells whether the node publishes the target of the device's
// attachment.
func (f *facts) accounted(ref DeviceRef) bool {
	for other := range f.byDevice[ref] {
		if t := other.Status.Target; t != nil {
			if _, there := f.published[sighting{f.nodeAt(other), *t}]; there {
				return true
			}
		}
	}
	return false
}

// lookalikes are the devices of the node that could be taken for the awaited one, and its
// others: none where the device has an identity.
func (f *facts) lookalikes(a *entry) (alike []LocalDevice, others map[LocalDevice]bool) {
	if f.devices[a.Spec.Device] == nil || f.recognisable(a) {
		return nil, nil
	}
	for at := range f.placesOf[f.nodeAt(a)] {
		if at.driver == f.driver(a) {
			others = map[LocalDevice]bool{}
		}
	}
	for _, d := range f.strangers(a) {
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
func (f *facts) strangers(a *entry) []stranger {
	var found []stranger
	node, driver := f.nodeAt(a), f.driver(a)
	for _, at := range slices.SortedFunc(maps.Keys(f.placesOf[node]), comparePlaces) {
		if at.driver != driver {
			continue
		}
		for _, d := range f.pools[at].Devices {
			local := LocalDevice{at.driver, at.pool, d.Name}
			if f.refs[normal(d.Identity)] != "" || f.targetOfAnother(a, local) {
				continue
			}
			found = append(found, stranger{local, d.ClaimTaint, f.equals(a, &d)})
		}
	}
	return found
}

// equals tells whether a node's device has all that the attachment's model says.
func (f *facts) equals(a *entry, d *NodeDevice) bool {
	m := f.model(a)
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
func (f *facts) tellsApart(a *entry) bool {
	if f.recognisable(a) {
		return true
	}
	for other := range f.byNode[a.Spec.Node] {
		if other != a && f.nameless(other) {
			return false
		}
	}
	return true
}

// nameless tells whether an attachment's device without identity may appear on the
// node any moment: it is under way, or there, given up before the node showed it.
func (f *facts) nameless(a *entry) bool {
	if f.recognisable(a) {
		return false
	}
	if arrives(a.phase()) || arrives(a.next) {
		return true
	}
	dev := f.devices[a.Spec.Device]
	return a.Spec.Claim != nil && a.Status.Target == nil && dev != nil && dev.Machine == a.machine()
}

// recognisable tells whether an attachment's device is known to have an identity.
func (f *facts) recognisable(a *entry) bool { return f.identity(a) != "" }

// arrives tells whether a device in a phase is under way to its node. A phase that
// is being written may never be.
func arrives(phase Phase) bool {
	return phase == PhaseAttaching || phase == PhaseAttachUnknown || phase == PhaseAttached
}

// inUse tells whether a claim uses the attached device, or may use it: what is not
// known to be unused counts as used.
func (s *situation) inUse() bool {
	p, a := s.p, s.entry
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
	if node == "" || p.identified(a) != nil || s.dev != nil && !p.recognisable(a) && len(names) > 0 {
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
func (f *facts) mayHold(a *entry, node string) bool {
	driver := f.driver(a)
	for d := range f.heldOn[node] {
		if d.Pool == f.pool || driver != "" && d.Driver != driver {
			continue
		}
		if !f.targetOfAnother(a, d) && !f.isAnother(a, d) {
			return true
		}
	}
	return false
}

// targetOfAnother tells whether another attachment has the device of that name,
// and has it still: names are used again.
func (f *facts) targetOfAnother(a *entry, name LocalDevice) bool {
	for other := range f.targets[name] {
		dev := f.devices[other.Spec.Device]
		if other == a || dev == nil || dev.Machine != other.machine() {
			continue
		}
		if !f.recognisable(other) || equalDevices(f.identified(other), &name) {
			return true
		}
	}
	return false
}

// isAnother tells whether a device that is published has an identity, which is
// not that of the attachment's device.
func (f *facts) isAnother(a *entry, d LocalDevice) bool {
	seen := f.published[sighting{f.nodeAt(a), d}]
	if seen == nil || normal(seen.Identity) == "" {
		return false
	}
	return f.recognisable(a) && f.identity(a) != normal(seen.Identity)
}
