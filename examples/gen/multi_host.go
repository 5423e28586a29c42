// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

const (
	tpuDriver    = "tpu.example.com"
	tpuPool      = "pod-a"
	gridSide     = 4 // hosts per row and per column
	chipsPerHost = 4 // a block of 2x2 chips
)

// shapes are the rectangles of hosts that the interconnect can be cut into, each aligned to its own size.
var shapes = []struct {
	topology      string // in chips
	rows, columns int    // in hosts
}{
	{"2x2", 1, 1},
	{"2x4", 1, 2},
	{"4x4", 2, 2},
	{"4x8", 2, 4},
	{"8x8", 4, 4},
}

// multiHost is one accelerator of 64 chips that spans 16 hosts, and every slice that can be cut from it.
func multiHost() []object {
	var objects []object
	chips := map[string]int64{}
	for host := range gridSide * gridSide {
		name := hostName(host)
		chips[name] = chipsPerHost
		objects = append(objects, newNode(name, map[string]string{
			"tpu.example.com/accelerator": tpuPool,
			"tpu.example.com/position":    fmt.Sprintf("%d-%d", host/gridSide, host%gridSide),
		}))
	}
	allHosts := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "tpu.example.com/accelerator", Operator: corev1.NodeSelectorOpIn, Values: []string{tpuPool}}},
	}}}
	perDevice := true
	return append(objects, poolSlices(tpuDriver, tpuPool,
		resourceapi.ResourceSliceSpec{NodeSelector: allHosts, SharedCounters: []resourceapi.CounterSet{{Name: "chips", Counters: counters(chips)}}},
		resourceapi.ResourceSliceSpec{PerDeviceNodeSelection: &perDevice, Devices: slicesOfHosts()},
	)...)
}

func hostName(host int) string { return fmt.Sprintf("tpu-host-%02d", host) }

func slicesOfHosts() []resourceapi.Device {
	var devices []resourceapi.Device
	for _, shape := range shapes {
		for row := 0; row < gridSide; row += shape.rows {
			for column := 0; column < gridSide; column += shape.columns {
				hosts := rectangle(row, column, shape.rows, shape.columns)
				devices = append(devices, sliceOfHosts(shape.topology, hosts))
			}
		}
	}
	return devices
}

func rectangle(row, column, rows, columns int) []int {
	var hosts []int
	for r := row; r < row+rows; r++ {
		for c := column; c < column+columns; c++ {
			hosts = append(hosts, r*gridSide+c)
		}
	}
	return hosts
}

// sliceOfHosts takes all chips of its hosts and can be used from these hosts alone.
func sliceOfHosts(topology string, hosts []int) resourceapi.Device {
	chips := map[string]int64{}
	var names []string
	for _, host := range hosts {
		names = append(names, hostName(host))
		chips[hostName(host)] = chipsPerHost
	}
	count := int64(len(hosts))
	return resourceapi.Device{
		Name: fmt.Sprintf("%s-at-%02d", topology, hosts[0]),
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"generation": text("ext5"),
			"topology":   text(topology),
			"hosts":      number(count),
		},
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			"chips":  capacity(fmt.Sprint(count * chipsPerHost)),
			"memory": capacity(fmt.Sprintf("%dGi", count*chipsPerHost*16)),
		},
		ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: "chips", Counters: counters(chips)}},
		NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: names}},
		}}},
	}
}
