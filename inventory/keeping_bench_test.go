// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
)

// BenchmarkKeeping: of a fabric's slice one device is kept for a claim, and then not,
// beside nodes that have eight devices each.
func BenchmarkKeeping(b *testing.B) {
	for _, nodes := range []int{100, 2000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			inv := New()
			for i := range nodes {
				inv.SetSlice(localOf(fmt.Sprintf("n%d", i), 8))
			}
			// Many are kept, and one of them comes and goes.
			all, fewer := offers(64, 64), offers(64, 63)
			inv.SetSlice(all)
			inv.Snapshot()
			for b.Loop() {
				inv.SetSlice(fewer)
				inv.Snapshot()
				inv.SetSlice(all)
				inv.Snapshot()
			}
		})
	}
}

// localOf is the slice of a node with devices that have an identity.
func localOf(node string, devices int) *resourceapi.ResourceSlice {
	s := local("gpu.example.com", "uuid", "")
	s.Name, s.Spec.Pool.Name, s.Spec.NodeName, s.Spec.Devices = node, node, &node, nil
	for i := range devices {
		uuid := fmt.Sprintf("gpu-%s-%d", node, i)
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{
			Name:       fmt.Sprintf("gpu-%d", i),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"uuid": {StringValue: &uuid}},
		})
	}
	return s
}

// offers are devices of a fabric whose twins are on nodes, of which some are kept.
func offers(devices, kept int) *resourceapi.ResourceSlice {
	s := offer("fab", 1, "", "")
	s.Spec.Devices = nil
	for i := range devices {
		claim := ""
		if i < kept {
			claim = fmt.Sprintf("uid-%d", i)
		}
		d := offer("fab", 1, fmt.Sprintf("GPU-N%d-0", i), claim).Spec.Devices[0]
		d.Name = fmt.Sprintf("f%d", i)
		s.Spec.Devices = append(s.Spec.Devices, d)
	}
	return s
}
