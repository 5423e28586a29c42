// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
)

const nicDriver = "nic.example.com"

// board is a server with eight GPUs behind four PCIe switches. Every switch is a PCIe root of its own and serves
// two GPUs and as many NICs as the board's generation has for it.
type board struct {
	nodeName      string
	nicsPerSwitch int
}

// gpuNICAligned is one server of the present generation, with a NIC per GPU, and one of the generation before it,
// where two GPUs share a NIC.
func gpuNICAligned() []object {
	boards := []board{{"server-new", 2}, {"server-old", 1}}
	var objects []object
	for _, b := range boards {
		objects = append(objects, newNode(b.nodeName, nil))
	}
	for _, b := range boards {
		gpus, nics := b.devices()
		objects = append(objects, poolSlices(gpuDriver, b.nodeName, resourceapi.ResourceSliceSpec{NodeName: &b.nodeName, Devices: gpus})...)
		objects = append(objects, poolSlices(nicDriver, b.nodeName, resourceapi.ResourceSliceSpec{NodeName: &b.nodeName, Devices: nics})...)
	}
	return objects
}

func (b board) devices() (gpus, nics []resourceapi.Device) {
	const gpusPerSwitch = 2
	for i, bus := range []int{0x17, 0x3d, 0x97, 0xbd} {
		numaNode := int64(i / 2)
		for slot := range gpusPerSwitch {
			gpus = append(gpus, b.gpu(len(gpus), bus, slot, numaNode))
		}
		for slot := range b.nicsPerSwitch {
			nics = append(nics, b.nic(len(nics), bus, gpusPerSwitch+slot, numaNode))
		}
	}
	return gpus, nics
}

func (b board) gpu(index, bus, slot int, numaNode int64) resourceapi.Device {
	name := fmt.Sprintf("gpu-%d", index)
	attributes := pciPlace(bus, slot, numaNode)
	attributes["model"] = text("ex100")
	attributes["productName"] = text("Example EX100 80GB")
	attributes["uuid"] = text("GPU-" + uuid(b.nodeName+"/"+name))
	attributes["driverVersion"] = version("580.95.5")
	return resourceapi.Device{
		Name:       name,
		Attributes: attributes,
		Capacity:   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": capacity("80Gi")},
	}
}

func (b board) nic(index, bus, slot int, numaNode int64) resourceapi.Device {
	attributes := pciPlace(bus, slot, numaNode)
	attributes["ifName"] = text(fmt.Sprintf("rdma%d", index))
	attributes["rdma"] = flagged(true)
	return resourceapi.Device{
		Name:       fmt.Sprintf("nic-%d", index),
		Attributes: attributes,
		Capacity:   map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"bandwidth": capacity("400G")},
	}
}

// pciPlace tells where on the board a device sits, in the attributes that all drivers share.
func pciPlace(bus, slot int, numaNode int64) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	return map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		deviceattribute.StandardDeviceAttributePCIeRoot: text(fmt.Sprintf("pci0000:%02x", bus)),
		deviceattribute.StandardDeviceAttributePCIBusID: text(fmt.Sprintf("0000:%02x:%02x.0", bus+1, slot)),
		deviceattribute.StandardDeviceAttributeNUMANode: number(numaNode),
	}
}
