// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
)

func named(name string) resourceapi.Device { return resourceapi.Device{Name: name} }

func TestView(t *testing.T) {
	binding := resourceapi.Device{Name: "f0", BindingConditions: []string{"attached"}}
	elsewhere := binding
	elsewhere.NodeName = ptr("n9")
	local := resourceapi.Device{Name: "f1", NodeName: ptr("n1")}
	for name, tc := range map[string]struct {
		slices []*resourceapi.ResourceSlice
		want   map[string][]string // node -> pools
	}{
		"one node": {
			slices: []*resourceapi.ResourceSlice{slice("a", with(named("d0")))},
			want:   map[string][]string{"n1": {"d/p: d0"}, "n2": nil, "n": nil, "n10": nil},
		},
		"a slice for each node in one pool": {
			slices: []*resourceapi.ResourceSlice{
				slice("a", revision(1, 2), with(named("d0"))), slice("b", revision(1, 2), onNode("n2"), with(named("d1"))),
			},
			want: map[string][]string{"n1": {"d/p: d0"}, "n2": {"d/p: d1"}, "n3": nil},
		},
		"all nodes": {
			slices: []*resourceapi.ResourceSlice{slice("a", onAllNodes, with(named("d0")))},
			want:   map[string][]string{"n1": {"d/p: d0"}, "n2": {"d/p: d0"}},
		},
		"per device": {
			slices: []*resourceapi.ResourceSlice{slice("a", perDevice, with(
				resourceapi.Device{Name: "d0", NodeName: ptr("n1")},
				resourceapi.Device{Name: "d1", NodeSelector: onNodes("n1", "n2")},
				resourceapi.Device{Name: "d2", AllNodes: ptr(true)},
				named("d3"),
			))},
			want: map[string][]string{"n1": {"d/p: d0 d1 d2"}, "n2": {"d/p: d1 d2"}, "n3": {"d/p: d2"}},
		},
		"a device's node counts only where the slice says so": {
			slices: []*resourceapi.ResourceSlice{slice("a", with(resourceapi.Device{Name: "d0", NodeName: ptr("n2")}))},
			want:   map[string][]string{"n1": {"d/p: d0"}, "n2": nil},
		},
		"drivers, then pools, then slices, then positions": {
			slices: []*resourceapi.ResourceSlice{
				slice("b", revision(1, 2), with(named("d0"))),
				slice("a", revision(1, 2), with(named("d9"), named("d1"))),
				slice("x", inPool("o"), with(named("d0"))),
				slice("y", func(s *resourceapi.ResourceSlice) { s.Spec.Driver = "c" }, inPool("z"), with(named("d0"))),
				slice("z", func(s *resourceapi.ResourceSlice) { s.Spec.Driver = "d.e" }, with(named("d0"))),
			},
			want: map[string][]string{"n1": {"c/z: d0", "d/o: d0", "d/p: d9 d1 d0", "d.e/p: d0"}},
		},
		"binding conditions come last": {
			slices: []*resourceapi.ResourceSlice{
				slice("a", inPool("a"), onAllNodes, with(binding)), slice("b", inPool("b"), with(named("d0"))), slice("c", inPool("c"), onAllNodes, with(named("d0"), binding)),
			},
			want: map[string][]string{"n1": {"d/b: d0", "d/a: f0", "d/c: d0 f0"}, "n2": {"d/a: f0", "d/c: d0 f0"}},
		},
		"binding conditions in the second slice": {
			slices: []*resourceapi.ResourceSlice{
				slice("a", inPool("a"), revision(1, 2), with(named("d0"), named("d1"))), slice("x", inPool("a"), revision(1, 2), with(binding)),
				slice("b", inPool("b"), with(named("d0"))),
			},
			want: map[string][]string{"n1": {"d/b: d0", "d/a: d0 d1 f0"}},
		},
		"incomplete, and only counters are there": {
			slices: []*resourceapi.ResourceSlice{slice("a", revision(1, 2), withSet("s/c=1"), func(s *resourceapi.ResourceSlice) {
				s.Spec.NodeName, s.Spec.NodeSelector = nil, onNodes("n1", "n2")
			})},
			want: map[string][]string{"n1": {"d/p: Incomplete"}, "n2": {"d/p: Incomplete"}, "n3": nil},
		},
		"complete, and only counters are there": {
			slices: []*resourceapi.ResourceSlice{slice("a", onAllNodes, withSet("s/c=1"))},
			want:   map[string][]string{"n1": nil},
		},
		"incomplete, devices and counters on different nodes": {
			slices: []*resourceapi.ResourceSlice{slice("a", revision(1, 3), withSet("s/c=1")), slice("b", revision(1, 3), onNode("n2"), with(named("d0")))},
			want:   map[string][]string{"n1": {"d/p: Incomplete"}, "n2": {"d/p: d0 Incomplete"}, "n3": nil},
		},
		"binding conditions of a device that the node does not reach": {
			slices: []*resourceapi.ResourceSlice{
				slice("a", inPool("a"), perDevice, with(local, elsewhere)), slice("b", inPool("b"), with(named("d0"))),
			},
			want: map[string][]string{"n1": {"d/b: d0", "d/a: f1"}, "n9": {"d/a: f0"}},
		},
		"binding conditions in a slice that the node does not reach": {
			slices: []*resourceapi.ResourceSlice{
				slice("a", inPool("a"), revision(1, 2), with(named("d0"))), slice("x", inPool("a"), revision(1, 2), onNode("n2"), with(binding)),
				slice("b", inPool("b"), with(named("d0"))),
			},
			want: map[string][]string{"n1": {"d/a: d0", "d/b: d0"}, "n2": {"d/a: f0"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot := inventoryOf(tc.slices...).Snapshot()
			for n, want := range tc.want {
				if diff := cmp.Diff(want, names(snapshot.View(node(n)))); diff != "" {
					t.Errorf("%s (-want +got):\n%s", n, diff)
				}
			}
		})
	}
}

// TestDeviceOfAnySlice: every device knows its slice and its position.
func TestDeviceOfAnySlice(t *testing.T) {
	a, b := slice("a", revision(1, 2), with(named("d0"), named("d1"))), slice("b", revision(1, 2), with(named("d2")))
	pool, _ := inventoryOf(b, a).Snapshot().Pool(PoolID{Driver: "d", Pool: "p"})
	for i, want := range []struct {
		name  string
		slice *resourceapi.ResourceSlice
	}{{"d0", a}, {"d1", a}, {"d2", b}} {
		d := pool.Devices[i]
		if d.ID != (DeviceID{"d", "p", want.name}) || d.Slice != want.slice || d.Index != i || d.Spec.Name != want.name || pool.Device(want.name) != d {
			t.Errorf("device %d is %s of slice %s at %d", i, d.ID, d.Slice.Name, d.Index)
		}
	}
	if pool.Device("d3") != nil {
		t.Error("a device that does not exist was found")
	}
}
