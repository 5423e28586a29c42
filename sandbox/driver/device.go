// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"kerf.dev/kerf/fabric/redfish/service"
)

// Attributes of published devices.
const (
	AttributeUUID         = "uuid"
	AttributeSerialNumber = "serialNumber"
	AttributeProductName  = "productName"
	AttributePCIBusID     = "resource.kubernetes.io/pciBusID"
)

// machine is the hardware of one node, whether or not a driver runs there.
type machine struct {
	// own are the devices that were always there, by name.
	own map[string]resourceapi.Device
	// bus are the devices of this driver that the host sees, names their names.
	bus   []service.Device
	names map[string]string // by UUID
	// looks are how devices on the bus are published otherwise, by the name of the block.
	looks map[string]Look
}

// Look is how a driver publishes a device otherwise than the hardware says.
type Look struct {
	// Device has the attributes and the capacity that are other than they would be, and
	// all else that a device can have.
	Device resourceapi.Device
	// Without are the names of attributes and capacity that are not published.
	Without []string
	// Sets are the counter sets that the device brings with it.
	Sets []resourceapi.CounterSet
}

// put changes what is published of a device.
func (l *Look) put(d *resourceapi.Device) {
	as := l.Device.DeepCopy()
	as.Name = d.Name
	attributes, capacity := d.Attributes, d.Capacity
	maps.Copy(attributes, as.Attributes)
	if capacity == nil {
		capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{}
	}
	maps.Copy(capacity, as.Capacity)
	for _, name := range l.Without {
		delete(attributes, resourceapi.QualifiedName(name))
		delete(capacity, resourceapi.QualifiedName(name))
	}
	as.Attributes, as.Capacity = attributes, capacity
	*d = *as
}

func newMachine() *machine {
	return &machine{own: map[string]resourceapi.Device{}, names: map[string]string{}, looks: map[string]Look{}}
}

// see takes in what the host sees. What is gone loses its name, what is new gets
// one.
func (m *machine) see(devices []service.Device) {
	m.bus = devices
	names := map[string]string{}
	taken := map[string]bool{}
	for _, d := range devices {
		if name, known := m.names[d.UUID]; known {
			names[d.UUID], taken[name] = name, true
		}
	}
	for name := range m.own {
		taken[name] = true
	}
	n := 0
	for _, d := range devices {
		if names[d.UUID] != "" {
			continue
		}
		for taken[deviceName(n)] {
			n++
		}
		names[d.UUID], taken[deviceName(n)] = deviceName(n), true
	}
	m.names = names
}

func deviceName(n int) string { return fmt.Sprintf("gpu-%d", n) }

// devices are all that the node has, as they are to be published, by name.
func (m *machine) devices() []resourceapi.Device {
	var all []resourceapi.Device
	for _, d := range m.own {
		all = append(all, *d.DeepCopy())
	}
	for i := range m.bus {
		d := published(m.names[m.bus[i].UUID], &m.bus[i])
		if look, other := m.looks[m.bus[i].Block]; other {
			look.put(&d)
		}
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b resourceapi.Device) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// published is a device on the bus as the driver publishes it.
func published(name string, d *service.Device) resourceapi.Device {
	device := resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}}
	for attribute, value := range map[string]string{
		AttributeUUID: d.UUID, AttributeSerialNumber: d.SerialNumber, AttributeProductName: d.Model, AttributePCIBusID: d.PCIAddress,
	} {
		if value != "" {
			device.Attributes[resourceapi.QualifiedName(attribute)] = resourceapi.DeviceAttribute{StringValue: &value}
		}
	}
	if d.MemoryMiB > 0 {
		memory := resource.NewQuantity(d.MemoryMiB<<20, resource.BinarySI)
		device.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: *memory}}
	}
	return device
}

// Own is a device that a node always had, by the name in Block.
func Own(node string, d service.Device) resourceapi.Device {
	d.UUID = node + "-" + d.Block
	return published(d.Block, &d)
}

// resources are the node's pool. A pool without devices is published, too: the driver
// is there.
func (m *machine) resources(node string) resourceslice.DriverResources {
	var all []resourceslice.Slice
	size := resourceapi.ResourceSliceMaxDevices
	if sets := m.sets(); len(sets) > 0 {
		all = append(all, resourceslice.Slice{SharedCounters: sets})
	}
	devices := m.devices()
	if slices.ContainsFunc(devices, func(d resourceapi.Device) bool { return len(d.ConsumesCounters) > 0 }) {
		size = resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures
	}
	for chunk := range slices.Chunk(devices, size) {
		all = append(all, resourceslice.Slice{Devices: chunk})
	}
	if len(all) == 0 {
		all = []resourceslice.Slice{{}}
	}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{node: {Slices: all}}}
}

// sets are the counter sets that devices on the bus bring with them.
func (m *machine) sets() []resourceapi.CounterSet {
	var all []resourceapi.CounterSet
	for i := range m.bus {
		look := m.looks[m.bus[i].Block]
		all = append(all, look.Sets...)
	}
	return all
}
