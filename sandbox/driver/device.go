// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"cmp"
	"fmt"
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
}

func newMachine() *machine {
	return &machine{own: map[string]resourceapi.Device{}, names: map[string]string{}}
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
		all = append(all, published(m.names[m.bus[i].UUID], &m.bus[i]))
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
	for devices := range slices.Chunk(m.devices(), resourceapi.ResourceSliceMaxDevices) {
		all = append(all, resourceslice.Slice{Devices: devices})
	}
	if len(all) == 0 {
		all = []resourceslice.Slice{{}}
	}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{node: {Slices: all}}}
}
