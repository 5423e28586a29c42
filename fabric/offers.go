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
)

// PoolName is the name of the pool in which the free devices of a fabric are
// published.
func PoolName(fabric string) string { return "fabric.kerf.dev/" + fabric }

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
	// Identity is empty for a template, and where the device has none.
	Identity string
	// Nodes that the device can go to, sorted. A template can go to those that a
	// free device of its model can go to.
	Nodes []string
}

// Offers returns what can be published as free, sorted by name. A device whose
// attachment was written stays until the manager is called: the claim that has
// it was given it by that name.
func (p *Planner) Offers() []Offer {
	var offers []Offer
	for i := range p.policy.Models {
		m := &p.policy.Models[i]
		if m.Template {
			offers = append(offers, p.templateOffers(m)...)
			continue
		}
		for _, ref := range p.members[m] {
			if p.offerable(ref) {
				dev := *p.devices[ref]
				offers = append(offers, Offer{
					LocalDevice: p.offerName(m, ref), Model: *m, Device: &dev,
					Identity: p.policy.identity(&dev), Nodes: p.reach(&dev),
				})
			}
		}
	}
	slices.SortFunc(offers, func(a, b Offer) int { return compareDevices(a.LocalDevice, b.LocalDevice) })
	return offers
}

// templateOffers gives a template one name for each of its free devices: the
// first that no attachment has.
func (p *Planner) templateOffers(m *Model) []Offer {
	free, nodes := 0, []string(nil)
	for _, ref := range p.members[m] {
		if p.offerable(ref) {
			free++
			nodes = append(nodes, p.reach(p.devices[ref])...)
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
// its way.
func (p *Planner) offerable(ref DeviceRef) bool {
	dev := p.devices[ref]
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

// reach lists the nodes that a device can go to.
func (p *Planner) reach(dev *Device) []string {
	var nodes []string
	for node, m := range p.nodes {
		if p.reaches(dev, m) {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
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
		if dev.Machine == "" && !dev.Busy && !dev.Reserved && dev.Healthy && p.reaches(dev, machine) && p.owner(ref) == nil {
			return dev
		}
	}
	return nil
}
