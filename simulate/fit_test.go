// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/dump"
	"kerf.dev/kerf/selector"
	"kerf.dev/kerf/simulate"
)

// An extended resource that a class serves is not simulated, which is not the same
// as that there is none of it; what a device plugin advertises counts as usual.
func TestExtendedResourcesOfClasses(t *testing.T) {
	d := dump.New()
	d.Nodes = []*v1.Node{
		{ObjectMeta: metav1.ObjectMeta{Name: "devices"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "plugin"}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{"example.com/gpu": resource.MustParse("1")}}},
	}
	d.DeviceClasses = []*resourceapi.DeviceClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourceapi.DeviceClassSpec{ExtendedResourceName: new("example.com/gpu")}},
	}
	world := simulate.NewWorld(d, simulate.Options{Matcher: selector.New()})
	for _, tc := range []struct {
		resource v1.ResourceName
		want     [2]simulate.MisfitKind
		class    string
	}{
		{"example.com/gpu", [2]simulate.MisfitKind{simulate.ClassBacked, simulate.TooLittle}, "gpu"},
		{"deviceclass.resource.kubernetes.io/gpu", [2]simulate.MisfitKind{simulate.ClassBacked, simulate.ClassBacked}, "gpu"},
		{"example.com/nic", [2]simulate.MisfitKind{simulate.TooLittle, simulate.TooLittle}, ""},
	} {
		v, err := world.Try(&v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{
			{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{tc.resource: resource.MustParse("2")}}},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range tc.want {
			if m := v.Nodes[i].Misfits; len(m) != 1 || m[0].Kind != want {
				t.Errorf("%s on node %s: misfits %v, want %s", tc.resource, v.Nodes[i].Node.Name, m, want)
			}
		}
		if m := v.Nodes[0].Misfits[0]; m.Class != tc.class {
			t.Errorf("%s: class %q, want %q", tc.resource, m.Class, tc.class)
		}
	}
}
