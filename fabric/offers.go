// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/inventory"
)

// PoolName is the name of the pool in which the free devices of a fabric are
// published.
func PoolName(fabric string) string { return inventory.FabricPool(fabric) }

// DeviceName is the name under which a device of the fabric is published: a DNS
// label made from the reference, with a hash that tells equal labels apart.
func DeviceName(ref DeviceRef) string {
	last := string(ref)
	if i := strings.LastIndexByte(strings.TrimRight(last, "/"), '/'); i >= 0 {
		last = last[i+1:]
	}
	label := strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		default:
			return '-'
		}
	}, last), "-")
	if len(label) > 40 {
		label = strings.Trim(label[:40], "-")
	}
	return cmp.Or(label, "device") + "-" + digest(string(ref))
}

// AttachmentName is the name of the attachment for a claim's allocated device. A
// new allocation of the same device gets another one.
func AttachmentName(claim types.UID, offer LocalDevice, allocatedAt time.Time) string {
	at := ""
	if !allocatedAt.IsZero() {
		at = strconv.FormatInt(allocatedAt.Unix(), 10)
	}
	return offer.Device + "-" + digest(string(claim), offer.Driver, offer.Pool, offer.Device, at)
}

func digest(parts ...string) string {
	h := fnv.New64a()
	for _, part := range parts {
		// Writing to a hash does not fail.
		_, _ = fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return strconv.FormatUint(h.Sum64(), 36)
}

// Offer is a device that the fabric can attach, to be published in the pool of
// the fabric.
type Offer struct {
	LocalDevice
	Model Model
	// Device is nil for a template, which stands for any device of its model.
	Device *Device
	// Identity is nil for a template, and where the device has none.
	Identity *Identity
	// Kept is the claim that the device is being attached for, empty for one that is
	// free: nobody else is to take it, nor what has its identity on a node.
	Kept types.UID
	// Nodes that the device can go to, sorted. A template can go to those that a
	// free device of its model can go to.
	Nodes []string
}

// Offers returns what is to be published, sorted by name: free devices, and those
// that are on their way to a claim and have an identity. One without stays, as free,
// until the manager is called: the claim that has it was given it by that name. The
// nodes are shared: they are not to be changed.
func (p *Planner) Offers() []Offer {
	var offers []Offer
	near := vicinity{p: p, nodes: map[string][]string{}}
	for i := range p.policy.Models {
		m := &p.policy.Models[i]
		if m.Template {
			offers = append(offers, p.templateOffers(m, near)...)
			continue
		}
		for _, ref := range p.members[m] {
			dev := p.devices[ref]
			if claim := p.keeping(dev); claim != "" || p.offering() && p.offerable(ref) {
				offers = append(offers, p.offer(m, dev, claim, near))
			}
		}
	}
	// A manager that does not show a device for a moment may attach it all the same.
	for _, dev := range p.vanished {
		if m, claim := p.policy.model(dev), p.keeping(dev); m != nil && !m.Template && claim != "" {
			offers = append(offers, p.offer(m, dev, claim, near))
		}
	}
	slices.SortFunc(offers, func(a, b Offer) int { return compareDevices(a.LocalDevice, b.LocalDevice) })
	return offers
}

// offering tells whether there is anything to be offered.
func (p *Planner) offering() bool { return !p.policy.Ending && !p.barred }

func (p *Planner) offer(m *Model, dev *Device, claim types.UID, near vicinity) Offer {
	d := *dev
	return Offer{
		LocalDevice: p.offerName(m, d.Ref), Model: *m, Device: &d,
		Identity: p.policy.published(&d), Kept: claim, Nodes: near.reach(&d),
	}
}

// keeping is the claim that the device is to be published as kept for, empty where
// there is none.
func (p *Planner) keeping(dev *Device) types.UID {
	if p.policy.published(dev) == nil {
		return ""
	}
	if a := p.owner(dev.Ref); a != nil && a.reservable() && phaseInfo[a.phase()].Kept {
		return a.Spec.Claim.UID
	}
	return ""
}

// templateOffers gives a template one name for each of its free devices: the
// first that no attachment has.
func (p *Planner) templateOffers(m *Model, near vicinity) []Offer {
	if !p.offering() {
		return nil
	}
	free, zones, nodes := 0, map[string]bool{}, []string(nil)
	for _, ref := range p.members[m] {
		if !p.offerable(ref) {
			continue
		}
		free++
		if key := zonesKey(p.devices[ref]); !zones[key] {
			zones[key] = true
			nodes = append(nodes, near.reach(p.devices[ref])...)
		}
	}
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	used := map[string]bool{}
	for _, ref := range p.members[m] {
		for a := range p.byDevice[ref] {
			used[a.Spec.Offer.Device] = used[a.Spec.Offer.Device] || !phaseInfo[a.phase()].Offered
		}
	}
	var offers []Offer
	for i := 0; i < len(p.members[m]) && len(offers) < free; i++ {
		name := p.templateName(m, i)
		if !used[name.Device] {
			offers = append(offers, Offer{LocalDevice: name, Model: *m, Nodes: nodes})
		}
	}
	return offers
}

// offerable tells whether a device is free for a claim, or was and is not yet on
// its way. What nothing can guard is not offered, nor is what is withheld.
func (p *Planner) offerable(ref DeviceRef) bool {
	dev := p.devices[ref]
	if m := p.policy.model(dev); !p.policy.Guards.canKeep(m.Template, p.policy.published(dev)) {
		return false
	}
	if p.withholds(dev) {
		return false
	}
	if dev.Machine != "" || dev.Busy || dev.Reserved || !dev.Healthy {
		return false
	}
	for a := range p.byDevice[ref] {
		if !phaseInfo[a.phase()].Offered {
			return false
		}
	}
	return true
}

// vicinity remembers which nodes devices can go to: those of the same zones go to
// the same nodes.
type vicinity struct {
	p     *Planner
	nodes map[string][]string
}

func zonesKey(dev *Device) string { return strings.Join(dev.Zones, "\x00") }

// reach lists the nodes that a device can go to.
func (v vicinity) reach(dev *Device) []string {
	key := zonesKey(dev)
	nodes, known := v.nodes[key]
	if known {
		return nodes
	}
	for node, m := range v.p.nodes {
		if v.p.reaches(dev, m) {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	v.nodes[key] = nodes
	return nodes
}

func (p *Planner) reaches(dev *Device, m MachineRef) bool {
	machine := p.machines[m]
	if machine == nil {
		return false
	}
	return len(dev.Zones) == 0 || slices.ContainsFunc(dev.Zones, func(z string) bool { return slices.Contains(machine.Zones, z) })
}

func (p *Planner) offerName(m *Model, ref DeviceRef) LocalDevice {
	return LocalDevice{m.Driver, p.pool, DeviceName(ref)}
}

func (p *Planner) templateName(m *Model, i int) LocalDevice {
	return LocalDevice{m.Driver, p.pool, m.Name + "-" + strconv.Itoa(i)}
}

// template returns the model that an offer is a template of, nil if it is none.
func (p *Planner) template(name LocalDevice) *Model {
	i := strings.LastIndexByte(name.Device, '-')
	if i < 0 || name.Pool != p.pool {
		return nil
	}
	n, err := strconv.Atoi(name.Device[i+1:])
	if err != nil {
		return nil
	}
	for j := range p.policy.Models {
		m := &p.policy.Models[j]
		if m.Template && p.templateName(m, n) == name && n < len(p.members[m]) {
			return m
		}
	}
	return nil
}

// choose picks a free device for a template on a node, the first by reference;
// nil where there is none.
func (p *Planner) choose(m *Model, node string) *Device {
	machine, ok := p.machineOf(node)
	if !ok {
		return nil
	}
	for _, ref := range p.members[m] {
		dev := p.devices[ref]
		if dev.Machine == "" && !dev.Busy && !dev.Reserved && dev.Healthy && !p.withholds(dev) && p.reaches(dev, machine) && p.owner(ref) == nil {
			return dev
		}
	}
	return nil
}
