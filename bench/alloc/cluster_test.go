// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
)

const (
	gpuDriver = "gpu.example.com"
	nicDriver = "nic.example.com"
	pcieRoot  = resourceapi.QualifiedName("resource.kubernetes.io/pcieRoot")
	numaNode  = resourceapi.QualifiedName("numaNode")
)

func nodeName(n int) string { return fmt.Sprintf("node-%04d", n) }

func node(n int) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(n)}}
}

type attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute

type capacities = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity

func text(v string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{StringValue: &v} }

func number(v int) resourceapi.DeviceAttribute {
	return resourceapi.DeviceAttribute{IntValue: new(int64(v))}
}

// slice is a slice of a node's pool of some driver, one of so many.
func slice(name, driver string, n int, parts int64, devices ...resourceapi.Device) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: driver, NodeName: new(nodeName(n)), Devices: devices,
			Pool: resourceapi.ResourcePool{Name: nodeName(n), Generation: 1, ResourceSliceCount: parts},
		},
	}
	if *stored {
		s.ResourceVersion = "1"
	}
	return s
}

// gpus are the devices of a server, with what drivers publish about them.
func gpus(count int, change func(i int, d *resourceapi.Device)) []resourceapi.Device {
	var devices []resourceapi.Device
	for i := range count {
		d := resourceapi.Device{
			Name: fmt.Sprintf("gpu-%02d", i),
			Attributes: attributes{
				"type": text("gpu"), "productName": text("A100"), "uuid": text(fmt.Sprintf("GPU-%032d", i)),
				"index": number(i), numaNode: number(i * 2 / count), pcieRoot: text(fmt.Sprintf("pci0000:%02d", i)),
			},
			Capacity: capacities{"memory": {Value: resource.MustParse("80Gi")}},
		}
		if change != nil {
			change(i, &d)
		}
		devices = append(devices, d)
	}
	return devices
}

// nics has one NIC on each of the PCIe roots.
func nics(roots ...int) []resourceapi.Device {
	var devices []resourceapi.Device
	for i, root := range roots {
		devices = append(devices, resourceapi.Device{
			Name:       fmt.Sprintf("nic-%02d", i),
			Attributes: attributes{"type": text("nic"), "index": number(i), pcieRoot: text(fmt.Sprintf("pci0000:%02d", root))},
		})
	}
	return devices
}

// server is the slice of a node with so many GPUs.
func server(count int) []*resourceapi.ResourceSlice {
	return []*resourceapi.ResourceSlice{slice("gpus", gpuDriver, 0, 1, gpus(count, nil)...)}
}

// servers are the slices of many nodes with eight GPUs each.
func servers(count int) []*resourceapi.ResourceSlice {
	var all []*resourceapi.ResourceSlice
	for n := range count {
		all = append(all, slice("gpus-"+nodeName(n), gpuDriver, n, 1, gpus(8, nil)...))
	}
	return all
}

// profile is a partition of the seven-slice card with 80 GB: memory slices,
// compute slices, and where it may start (NVIDIA MIG User Guide).
type profile struct {
	name            string
	memory, compute int
	starts          []int
}

var profiles = []profile{
	{"1g.10gb", 1, 1, []int{0, 1, 2, 3, 4, 5, 6}},
	{"1g.20gb", 2, 1, []int{0, 2, 4, 6}},
	{"2g.20gb", 2, 2, []int{0, 2, 4}},
	{"3g.40gb", 4, 3, []int{0, 4}},
	{"4g.40gb", 4, 4, []int{0}},
	{"7g.80gb", 8, 7, []int{0}},
}

// counters are those that a partition takes, or that a card has.
func (p profile) counters(start int) map[string]resourceapi.Counter {
	c := map[string]resourceapi.Counter{"multiprocessors": {Value: *resource.NewQuantity(int64(p.compute*14), resource.DecimalSI)}}
	for k := range p.memory {
		c[fmt.Sprintf("memory-slice-%d", start+k)] = resourceapi.Counter{Value: resource.MustParse("1")}
	}
	return c
}

// partitions are the slices of a node with so many seven-slice cards.
func partitions(cards int) []*resourceapi.ResourceSlice {
	counters, devices := slice("counters", gpuDriver, 0, 2), slice("devices", gpuDriver, 0, 2)
	counters.Spec.SharedCounters, devices.Spec.Devices = cut(cards)
	return []*resourceapi.ResourceSlice{counters, devices}
}

// cut has the counter sets of so many seven-slice cards, and all their partitions.
func cut(cards int) (sets []resourceapi.CounterSet, devices []resourceapi.Device) {
	for card := range cards {
		set := fmt.Sprintf("card-%d", card)
		sets = append(sets, resourceapi.CounterSet{Name: set, Counters: profiles[len(profiles)-1].counters(0)})
		for _, p := range profiles {
			for _, start := range p.starts {
				devices = append(devices, resourceapi.Device{
					Name:       fmt.Sprintf("%s-%dm%dc-%d", set, p.memory, p.compute, start),
					Attributes: attributes{"type": text("mig"), "profile": text(p.name), "parent": text(set)},
					Capacity: capacities{
						"memory": {Value: *resource.NewQuantity(int64(p.memory)*10<<30, resource.BinarySI)},
					},
					ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: set, Counters: p.counters(start)}},
				})
			}
		}
	}
	return sets, devices
}

// deviceClasses is a lister.
type deviceClasses map[string]*resourceapi.DeviceClass

var classes = deviceClasses{
	"gpu": class("gpu", `device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].type == "gpu"`),
	"mig": class("mig", `device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].type == "mig"`),
	"nic": class("nic", `device.driver == "nic.example.com"`),
}

func class(name, expression string) *resourceapi.DeviceClass {
	return &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{selecting(expression)}},
	}
}

func (c deviceClasses) Get(name string) (*resourceapi.DeviceClass, error) {
	if class := c[name]; class != nil {
		return class, nil
	}
	return nil, fmt.Errorf("device class %s not found", name)
}

func (c deviceClasses) List() ([]*resourceapi.DeviceClass, error) {
	var all []*resourceapi.DeviceClass
	for _, class := range c {
		all = append(all, class)
	}
	return all, nil
}

func selecting(expression string) resourceapi.DeviceSelector {
	return resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}
}

// taken is the state in which the first GPUs of node 0 are allocated.
func taken(count int) structured.AllocatedState {
	state := structured.AllocatedState{AllocatedDevices: sets.New[structured.DeviceID]()}
	for i := range count {
		state.AllocatedDevices.Insert(structured.MakeDeviceID(gpuDriver, nodeName(0), fmt.Sprintf("gpu-%02d", i)))
	}
	return state
}

func claim(name string, requests ...resourceapi.DeviceRequest) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec:       resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: requests}},
	}
}

// claims is a single claim in a list.
func claims(requests ...resourceapi.DeviceRequest) []*resourceapi.ResourceClaim {
	return []*resourceapi.ResourceClaim{claim("c", requests...)}
}

func constrained(all []*resourceapi.ResourceClaim, constraints ...resourceapi.DeviceConstraint) []*resourceapi.ResourceClaim {
	all[0].Spec.Devices.Constraints = constraints
	return all
}

func request(name, class string, count int64, selectors ...string) resourceapi.DeviceRequest {
	e := &resourceapi.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count}
	for _, s := range selectors {
		e.Selectors = append(e.Selectors, selecting(s))
	}
	return resourceapi.DeviceRequest{Name: name, Exactly: e}
}

func partition(count int64, profile string) resourceapi.DeviceRequest {
	return request("p-"+profile[:2], "mig", count, fmt.Sprintf(`device.attributes["gpu.example.com"].profile == %q`, profile))
}
