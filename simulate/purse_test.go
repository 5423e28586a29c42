// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/dump"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/selector"
	"kerf.dev/kerf/simulate"
)

// costly counts evaluations and says what they cost.
type costly struct {
	alloc.Matcher
	cost        uint64
	evaluations *int
}

func (m costly) Match(alloc.Stop, string, *inventory.Device) (bool, uint64, error) {
	*m.evaluations++
	return false, m.cost, nil
}

// nodes has as many nodes of one device each, and a pod that asks for one.
func nodes(n int) (*dump.Dump, *v1.Pod) {
	d := dump.New()
	for i := range n {
		name := fmt.Sprintf("n%d", i)
		d.Nodes = append(d.Nodes, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		d.ResourceSlices = append(d.ResourceSlices, &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourceapi.ResourceSliceSpec{
			Driver: "gpu.example.com", Pool: resourceapi.ResourcePool{Name: name, ResourceSliceCount: 1}, NodeName: &name, Devices: []resourceapi.Device{{Name: "gpu-0"}},
		}})
	}
	cel := func(expression string) resourceapi.DeviceSelector {
		return resourceapi.DeviceSelector{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}
	}
	d.DeviceClasses = []*resourceapi.DeviceClass{{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourceapi.DeviceClassSpec{
		Selectors: []resourceapi.DeviceSelector{cel(`device.driver != ""`)},
	}}}
	d.ResourceClaims = []*resourceapi.ResourceClaim{{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}, Spec: resourceapi.ResourceClaimSpec{
		Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{
			DeviceClassName: "gpu", Selectors: []resourceapi.DeviceSelector{cel(`device.driver == ""`)},
		}}}},
	}}}
	return d, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: v1.PodSpec{
		ResourceClaims: []v1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("c")}},
	}}
}

// TestNodesShareWork: selectors that cost as much as may be are not evaluated on every
// node for as long as one may take, nor on every change that is tried afterwards.
func TestNodesShareWork(t *testing.T) {
	d, pod := nodes(100)
	evaluations := 0
	world := simulate.NewWorld(&d.Objects, simulate.Options{Matcher: costly{selector.New(), resourceapi.CELSelectorExpressionMaxCost, &evaluations}})
	v, err := world.Try(pod)
	if err != nil {
		t.Fatal(err)
	}
	last := v.Nodes[99].Outcome
	if last.GaveUp == nil || !last.GaveUp.Before || evaluations > 10 {
		t.Errorf("%d evaluations, outcome of the last node %+v, want few and that it was not looked at", evaluations, last)
	}
	evaluations = 0
	for range 24 {
		v.FitsOn(v.Nodes[0].View)
	}
	if evaluations > 10 {
		t.Errorf("%d evaluations for changes, want few", evaluations)
	}
}

// TestManyNodes: what a claim needs honestly is looked at on every node of a large
// cluster.
func TestManyNodes(t *testing.T) {
	d, pod := nodes(2500)
	v, err := simulate.NewWorld(&d.Objects, simulate.Options{Matcher: selector.New()}).Try(pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range v.Nodes {
		if n.Outcome.Refusal == nil {
			t.Fatalf("node %s: got %+v, want a refusal", n.Node.Name, n.Outcome)
		}
	}
}
