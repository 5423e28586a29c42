// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import "slices"

// opening is a device without attachment: one that was allocated to a claim, or one that
// is attached to a node's machine for nobody.
type opening struct {
	*moment
	// offer is what the claim was allocated, nil for a device that was found attached.
	offer *ClaimDevice
	// template is the model that the offer is a template of, nil if it is none.
	template *Model
}

// opens makes a predicate of the table of one that looks at what has no attachment.
func opens(holds func(*opening) bool) func(*situation) bool {
	return func(s *situation) bool { return holds(s.opening) }
}

// offered does so for one that is about a claim's allocated device and the inventory.
func offered(holds func(*opening) bool) func(*situation) bool {
	return opens(func(o *opening) bool { return o.offer != nil && o.known() && holds(o) })
}

// find finds what there is to decide about a claim's allocated device: nothing if it has
// its attachment, or has failed.
func (o *opening) find(k key) bool {
	o.claim = o.p.claims[k.claim]
	o.offer = o.claim.device(k.offer)
	if o.offer == nil || o.offer.Failed {
		return false
	}
	for a := range o.p.byClaim[k.claim] {
		if a.Spec.Offer == k.offer && o.claim.allocatedAs(a) {
			return false
		}
	}
	if o.template = o.p.template(k.offer); o.template != nil {
		o.dev = o.p.choose(o.template, o.claim.Node)
	} else {
		o.dev = o.p.devices[o.p.names[k.offer]]
	}
	return true
}

func (o *opening) unknown() bool { return o.template == nil && o.dev == nil }

func (o *opening) nodeGone() bool {
	_, known := o.p.machineOf(o.claim.Node)
	return o.claim.Node != "" && !known
}

// withheld has a claim not wait for a device of a template where all are withheld.
func (o *opening) withheld() bool {
	if o.template == nil {
		return o.p.withholds(o.dev)
	}
	return !slices.ContainsFunc(o.p.members[o.template], func(ref DeviceRef) bool { return !o.p.withholds(o.p.devices[ref]) })
}

// taken does not look at a device that is on its way back: it is waited for.
func (o *opening) taken() bool {
	if o.template != nil {
		return false
	}
	if owner := o.p.owner(o.dev.Ref); owner != nil {
		return owner.wanted() && owner.Spec.Claim != nil && owner.Spec.Claim.UID != o.claim.UID
	}
	m, _ := o.p.machineOf(o.claim.Node)
	return o.dev.Reserved || !o.free() && !o.at(m)
}

func (o *opening) broken() bool { return o.template == nil && !o.dev.Healthy }

func (o *opening) unguardable() bool {
	return o.dev != nil && !o.p.policy.Guards.canKeep(o.template != nil, o.p.policy.published(o.dev))
}

func (o *opening) timedOut() bool {
	return o.offer != nil && !o.claim.AllocatedAt.IsZero() && o.after(o.claim.AllocatedAt.Add(o.p.policy.AttachTimeout))
}

func (o *opening) mayCreate() bool {
	return !o.p.barred && o.claim.Node != "" && o.dev != nil && !o.dev.Busy && o.p.owner(o.dev.Ref) == nil
}

// orphaned leaves alone what it does not know: models without a driver, machines
// that are no nodes.
func (o *opening) orphaned() bool {
	if o.offer != nil || o.p.policy.OrphanGrace < 0 || o.p.policy.Ending || o.dev == nil {
		return false
	}
	since, ok := o.p.orphans[o.dev.Ref]
	return ok && o.after(since.Add(o.p.policy.OrphanGrace))
}

// spec is that of the attachment to be made, and its name.
func (o *opening) spec() (name string, spec AttachmentSpec) {
	spec = AttachmentSpec{Fabric: o.p.policy.Fabric, Device: o.dev.Ref, AllocatedAt: o.now, Identity: o.p.policy.published(o.dev)}
	if o.offer == nil {
		spec.Machine, spec.Node = o.dev.Machine, o.p.nodeOf[o.dev.Machine]
		spec.Offer = o.p.offerName(o.p.policy.model(o.dev), o.dev.Ref)
		return DeviceName(o.dev.Ref) + "-orphan", spec
	}
	spec.Machine, spec.Node = o.p.nodes[o.claim.Node], o.claim.Node
	spec.Claim = &ClaimRef{o.claim.Namespace, o.claim.Name, o.claim.UID}
	spec.Offer, spec.Template = o.offer.LocalDevice, o.template != nil
	spec.Tainted = o.p.policy.Guards.Taint && spec.Identity != nil
	if !o.claim.AllocatedAt.IsZero() {
		spec.AllocatedAt = o.claim.AllocatedAt
	}
	return AttachmentName(o.claim.UID, spec.Offer, o.claim.AllocatedAt), spec
}

// failure is the condition that tells the claim.
func (o *opening) failure(t *Transition) Action {
	return SetCondition{
		Claim: ClaimRef{o.claim.Namespace, o.claim.Name, o.claim.UID}, AllocatedAt: o.claim.AllocatedAt,
		Device: o.offer.LocalDevice, Failed: true, Reason: t.Reason, Message: t.When,
	}
}
