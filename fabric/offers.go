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
func (f *facts) Offers() []Offer {
	var offers []Offer
	near := vicinity{f: f, nodes: map[string][]string{}}
	for i := range f.policy.Models {
		m := &f.policy.Models[i]
		if m.Template {
			offers = append(offers, f.templateOffers(m, near)...)
			continue
		}
		for _, ref := range f.members[m] {
			dev := f.devices[ref]
			if claim := f.keeping(dev); claim != "" || f.offering() && f.offerable(ref) {
				offers = append(offers, f.offer(m, dev, claim, near))
			}
		}
	}
	// A manager that does not show a device for a moment may attach it all the same.
	for _, dev := range f.vanished {
		if m, claim := f.policy.model(dev), f.keeping(dev); m != nil && !m.Template && claim != "" {
			offers = append(offers, f.offer(m, dev, claim, near))
		}
	}
	slices.SortFunc(offers, func(a, b Offer) int { return compareDevices(a.LocalDevice, b.LocalDevice) })
	return offers
}

// offering tells whether there is anything to be offered.
func (f *facts) offering() bool { return !f.policy.Ending && !f.barred }

func (f *facts) offer(m *Model, dev *Device, claim types.UID, near vicinity) Offer {
	d := *dev
	return Offer{
		LocalDevice: f.offerName(m, d.Ref), Model: *m, Device: &d,
		Identity: f.policy.published(&d), Kept: claim, Nodes: near.reach(&d),
	}
}

// keeping is the claim that the device is to be published as kept for, empty where
// there is none.
func (f *facts) keeping(dev *Device) types.UID {
	if f.policy.published(dev) == nil {
		return ""
	}
	if a := f.owner(dev.Ref); a != nil && a.reservable() && phaseInfo[a.phase()].Kept {
		return a.Spec.Claim.UID
	}
	return ""
}

// templateOffers gives a template one name for each of its free devices: the
// first that no attachment has.
func (f *facts) templateOffers(m *Model, near vicinity) []Offer {
	if !f.offering() {
		return nil
	}
	free, zones, nodes := 0, map[string]bool{}, []string(nil)
	for _, ref := range f.members[m] {
		if !f.offerable(ref) {
			continue
		}
		free++
		if key := zonesKey(f.devices[ref]); !zones[key] {
			zones[key] = true
			nodes = append(nodes, near.reach(f.devices[ref])...)
		}
	}
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	used := map[string]bool{}
	for _, ref := range f.members[m] {
		for a := range f.byDevice[ref] {
			used[a.Spec.Offer.Device] = used[a.Spec.Offer.Device] || !phaseInfo[a.phase()].Offered
		}
	}
	var offers []Offer
	for i := 0; i < len(f.members[m]) && len(offers) < free; i++ {
		name := f.templateName(m, i)
		if !used[name.Device] {
			offers = append(offers, Offer{LocalDevice: name, Model: *m, Nodes: nodes})
		}
	}
	return offers
}

// offerable tells whether a device is free for a claim, or was and is not yet on
// its way. What nothing can guard is not offered.
func (f *facts) offerable(ref DeviceRef) bool {
	dev := f.devices[ref]
	m := f.policy.model(dev)
	if !f.available(dev) || !f.policy.Guards.canKeep(m.Template, f.policy.published(dev)) {
		return false
	}
	for a := range f.byDevice[ref] {
		if !phaseInfo[a.phase()].Offered {
			return false
		}
	}
	return true
}

// available tells whether nothing but an attachment keeps a device from a claim.
func (f *facts) available(dev *Device) bool {
	return dev.Machine == "" && !dev.Busy && !dev.Reserved && dev.Healthy && !f.withholds(dev)
}

// DeviceCounts are numbers of devices that match a model, by what a claim can have of them.
type DeviceCounts struct{ Total, Free, Attached, Unavailable int }

// Devices counts the devices of the inventory that match a model.
func (f *facts) Devices() DeviceCounts {
	var n DeviceCounts
	for _, dev := range f.devices {
		switch {
		case f.policy.model(dev) == nil:
			continue
		case dev.Machine != "":
			n.Attached++
		case f.available(dev):
			n.Free++
		default:
			n.Unavailable++
		}
		n.Total++
	}
	return n
}

// vicinity remembers which nodes devices can go to: those of the same zones go to
// the same nodes.
type vicinity struct {
	f     *facts
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
	for node, m := range v.f.nodes {
		if v.f.reaches(dev, m) {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	v.nodes[key] = nodes
	return nodes
}

func (f *facts) reaches(dev *Device, m MachineRef) bool {
	machine := f.machines[m]
	if machine == nil {
		return false
	}
	return len(dev.Zones) == 0 || slices.ContainsFunc(dev.Zones, func(z string) bool { return slices.Contains(machine.Zones, z) })
}

func (f *facts) offerName(m *Model, ref DeviceRef) LocalDevice {
	return LocalDevice{m.Driver, f.pool, DeviceName(ref)}
}

func (f *facts) templateName(m *Model, i int) LocalDevice {
	return LocalDevice{m.Driver, f.pool, m.Name + "-" + strconv.Itoa(i)}
}

// template returns the model that an offer is a template of, nil if it is none.
func (f *facts) template(name LocalDevice) *Model {
	i := strings.LastIndexByte(name.Device, '-')
	if i < 0 || name.Pool != f.pool {
		return nil
	}
	n, err := strconv.Atoi(name.Device[i+1:])
	if err != nil {
		return nil
	}
	for j := range f.policy.Models {
		m := &f.policy.Models[j]
		if m.Template && f.templateName(m, n) == name && n < len(f.members[m]) {
			return m
		}
	}
	return nil
}

// choose picks a free device for a template on a node, the first by reference;
// nil where there is none.
func (f *facts) choose(m *Model, node string) *Device {
	machine, ok := f.machineOf(node)
	if !ok {
		return nil
	}
	for _, ref := range f.members[m] {
		dev := f.devices[ref]
		if f.available(dev) && f.reaches(dev, machine) && f.owner(ref) == nil {
			return dev
		}
	}
	return nil
}
