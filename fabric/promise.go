// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"kerf.dev/kerf/inventory"
)

// Withheld is a device that has arrived and was not what its model promises. It is not
// offered for that model any more, for it would be refused again.
type Withheld struct {
	Model  string
	Device DeviceRef
	// Difference says in what, for people.
	Difference string
}

// MaxWithheld is how many devices of a model are withheld one by one. Where there are so
// many it is the model that is wrong, and no device of it is offered.
const MaxWithheld = 256

// ObserveWithheld tells of a device that the fabric's status says is withheld. That holds
// for the planner's life: what changes it is another policy. It tells whether that is new.
func (p *Planner) ObserveWithheld(model string, device DeviceRef) bool {
	if _, known := p.withheld[model][device]; known {
		return false
	}
	add(p.withheld, model, device)
	p.touchTemplates()
	if len(p.withheld[model]) < MaxWithheld {
		p.touchDevice(device)
		return true
	}
	for m, refs := range p.members {
		for _, ref := range refs {
			if m.Name == model {
				p.touchDevice(ref)
			}
		}
	}
	return true
}

// withholds tells whether a device is not offered for its model.
func (f *facts) withholds(dev *Device) bool {
	m := f.policy.model(dev)
	if m == nil {
		return false
	}
	_, known := f.withheld[m.Name][dev.Ref]
	return known || len(f.withheld[m.Name]) >= MaxWithheld
}

// difference says in what a device that a node publishes is not what the model promises,
// empty where it is, or one of them is not known. What the driver says beyond that does not matter.
func (p *Policy) difference(m *Model, d *NodeDevice) string {
	if m == nil || d == nil {
		return ""
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(m.Attributes)) {
		// The identity is published as the device has it, whatever the model says.
		if name == p.IdentityAttribute || name == m.Driver+"/"+p.IdentityAttribute {
			continue
		}
		got, there := d.Attributes[name]
		if want := m.Attributes[name]; got != want {
			all = append(all, unequal("attribute "+name, want, got, there))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Capacity)) {
		want := m.Capacity[name]
		got, there := d.Capacity[name]
		if !there || inventory.AmountOf(got) != inventory.AmountOf(want) {
			all = append(all, unequal("capacity "+name, want.String(), got.String(), there))
		}
	}
	if d.Flaw != "" {
		all = append(all, d.Flaw)
	}
	return strings.Join(all, "; ")
}

func unequal(what, want, got string, there bool) string {
	if !there {
		return fmt.Sprintf("%s: the model promises %s, the driver publishes none", what, want)
	}
	return fmt.Sprintf("%s: the model promises %s, the driver publishes %s", what, want, got)
}

// asPromised tells whether a device on a node is what the attachment's model promises.
func (f *facts) asPromised(a *entry, seen sighting) bool {
	return f.policy.difference(f.model(a), f.published[seen]) == ""
}

// arrival is the awaited device as its node shows it.
type arrival struct {
	// target is nil where the node does not show it.
	target *LocalDevice
	// difference says in what it is not what its model promises, empty where it is.
	difference string
}

// arrival looks once: looking for a device without identity goes through all of the node.
func (s *situation) arrival() *arrival {
	if s.seen == nil {
		s.seen = &arrival{target: s.target()}
		if t := s.seen.target; t != nil {
			s.seen.difference = s.p.policy.difference(s.p.model(s.entry), s.p.published[sighting{s.p.nodeAt(s.entry), *t}])
		}
	}
	return s.seen
}

// hasArrived tells whether the node shows the device as its model promises it.
func (s *situation) hasArrived() bool {
	return s.arrival().target != nil && s.arrival().difference == ""
}

// unlike waits a little: the driver may not have said all of the device yet.
func (s *situation) unlike() bool {
	return s.arrival().difference != "" && s.after(s.unlikeSince.Add(s.p.policy.UnlikeAfter))
}

func (s *situation) unlikeUntold() bool { return s.unlike() && !s.p.withholds(s.dev) }
func (s *situation) unlikeTold() bool   { return s.unlike() && s.p.withholds(s.dev) }

// withheld tells whether the device of an attachment is not to be attached for its model.
func (s *situation) withheld() bool { return s.known() && s.p.withholds(s.dev) }

// withhold makes what the fabric's status is to say.
func (s *situation) withhold() Action {
	return Withhold{Attachment: s.Name, Withheld: Withheld{s.p.policy.model(s.dev).Name, s.dev.Ref, s.unlikeText()}}
}

// unlikeText says for people what has arrived instead of what the model promises.
func (s *situation) unlikeText() string {
	t := s.arrival().target
	return fmt.Sprintf("arrived on node %s as %s/%s/%s: %s", s.p.nodeAt(s.entry), t.Driver, t.Pool, t.Device, s.arrival().difference)
}

// setUnlike keeps the name of a device that nothing else tells: it has to be drained.
func setUnlike(s *situation, st *AttachmentStatus) {
	st.Message = s.unlikeText()
	if !s.p.recognisable(s.entry) {
		st.Target = s.arrival().target
	}
}

// refusesTarget tells whether the device is at the machine and goes back as it is not what
// its model promises.
func (s *situation) refusesTarget() bool {
	return s.phase() == PhaseFailed && s.Status.Reason == ReasonUnlike && s.here()
}

func (s *situation) refusedUnguarded() bool { return s.refusesTarget() && s.unguarded() }
