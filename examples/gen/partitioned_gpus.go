// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
)

const (
	gpuDriver    = "gpu.example.com"
	memorySlices = 8
)

// engines are the units of a card beside its memory slices. A partition takes some of each.
type engines struct {
	multiprocessors, copyEngines, decoders, jpegEngines, ofaEngines int64
}

// profile is a shape of partition that the card can be cut into.
type profile struct {
	name   string
	size   int   // memory slices
	starts []int // memory slices at which a partition of this shape may begin
	memory string
	engines
}

// wholeCard is what an unpartitioned card offers. Partitioning costs it ten multiprocessors.
var wholeCard = engines{multiprocessors: 108, copyEngines: 7, decoders: 5, jpegEngines: 1, ofaEngines: 1}

// profiles are those of the seven-slice 80 GB card: seven compute slices of 14 multiprocessors over eight memory
// slices. The last memory slice has no compute slice of its own, so single slices start at 0 to 6.
var profiles = []profile{
	{"1g.10gb", 1, []int{0, 1, 2, 3, 4, 5, 6}, "9728Mi", engines{14, 1, 0, 0, 0}},
	{"1g.10gb+me", 1, []int{0, 1, 2, 3, 4, 5, 6}, "9728Mi", engines{14, 1, 1, 1, 1}},
	{"1g.20gb", 2, []int{0, 2, 4, 6}, "19968Mi", engines{14, 1, 1, 0, 0}},
	{"2g.20gb", 2, []int{0, 2, 4}, "19968Mi", engines{28, 2, 1, 0, 0}},
	{"3g.40gb", 4, []int{0, 4}, "40192Mi", engines{42, 3, 2, 0, 0}},
	{"4g.40gb", 4, []int{0}, "40192Mi", engines{56, 4, 2, 0, 0}},
	{"7g.80gb", 8, []int{0}, "80640Mi", engines{98, 7, 5, 1, 1}},
}

// card is one physical GPU.
type card struct {
	name     string
	uuid     string
	pcieRoot string
	numaNode int64
}

// partitionedGPUs is two nodes with four seven-slice cards each.
func partitionedGPUs() []object {
	var objects []object
	names := []string{"gpu-node-1", "gpu-node-2"}
	for _, name := range names {
		objects = append(objects, newNode(name, map[string]string{"gpu.example.com/model": "ex100"}))
	}
	for _, name := range names {
		objects = append(objects, poolSlices(gpuDriver, name, partitionedPool(name)...)...)
	}
	return objects
}

// partitionedPool publishes the counter sets of a node's cards in one slice, as the API wants it, and the devices
// of each card in a slice of their own: 26 of the 64 that a slice may hold when devices consume counters.
func partitionedPool(nodeName string) []resourceapi.ResourceSliceSpec {
	var counterSets []resourceapi.CounterSet
	var specs []resourceapi.ResourceSliceSpec
	for i, root := range []string{"pci0000:17", "pci0000:3d", "pci0000:97", "pci0000:bd"} {
		c := card{
			name:     fmt.Sprintf("gpu-%d", i),
			pcieRoot: root,
			numaNode: int64(i / 2),
		}
		c.uuid = "GPU-" + uuid(nodeName+"/"+c.name)
		counterSets = append(counterSets, resourceapi.CounterSet{Name: c.name, Counters: counters(wholeCard.take(0, memorySlices))})
		specs = append(specs, resourceapi.ResourceSliceSpec{NodeName: &nodeName, Devices: c.devices()})
	}
	return append([]resourceapi.ResourceSliceSpec{{NodeName: &nodeName, SharedCounters: counterSets}}, specs...)
}

// devices are the card as a whole and every partition that could be cut from it.
func (c card) devices() []resourceapi.Device {
	whole := c.device(c.name, "80Gi", 0, memorySlices, wholeCard)
	whole.Attributes["type"] = text("gpu")
	whole.Attributes["uuid"] = text(c.uuid)
	devices := []resourceapi.Device{whole}
	for _, p := range profiles {
		for _, start := range p.starts {
			d := c.device(fmt.Sprintf("%s-%s-%d", c.name, label(p.name), start), p.memory, start, p.size, p.engines)
			d.Attributes["type"] = text("partition")
			d.Attributes["profile"] = text(p.name)
			d.Attributes["parentUUID"] = text(c.uuid)
			devices = append(devices, d)
		}
	}
	return devices
}

// device fills in what the card and its partitions have in common.
func (c card) device(name, memory string, start, size int, e engines) resourceapi.Device {
	return resourceapi.Device{
		Name: name,
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"productName": text("Example EX100 80GB"),
			deviceattribute.StandardDeviceAttributePCIeRoot: text(c.pcieRoot),
			deviceattribute.StandardDeviceAttributeNUMANode: number(c.numaNode),
		},
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			"memory":          capacity(memory),
			"multiprocessors": capacity(fmt.Sprint(e.multiprocessors)),
		},
		ConsumesCounters: []resourceapi.DeviceCounterConsumption{
			{CounterSet: c.name, Counters: counters(e.take(start, size))},
		},
	}
}

// take returns the counters of these engines over the memory slices from start. Counters it does not need are left out.
func (e engines) take(start, size int) map[string]int64 {
	taken := map[string]int64{
		"multiprocessors": e.multiprocessors,
		"copy-engines":    e.copyEngines,
		"decoders":        e.decoders,
		"jpeg-engines":    e.jpegEngines,
		"ofa-engines":     e.ofaEngines,
	}
	maps.DeleteFunc(taken, func(_ string, count int64) bool { return count == 0 })
	for i := start; i < start+size; i++ {
		taken[fmt.Sprintf("memory-slice-%d", i)] = 1
	}
	return taken
}

// label turns a profile into a part of a device name, which must be a DNS label.
func label(profile string) string {
	return strings.NewReplacer(".", "-", "+", "-").Replace(profile)
}
