// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package dropin_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"

	"kerf.dev/kerf/kube/dropin"
)

// allocator makes one for slices on which nothing is taken.
func allocator(t *testing.T, cache *cel.Cache, slices ...*resourceapi.ResourceSlice) structured.Allocator {
	t.Helper()
	a, err := dropin.NewAllocator(t.Context(), allFeatures, structured.AllocatedState{}, someClasses, slices, cache)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func expect(t *testing.T, a structured.Allocator, node *v1.Node, want string, requests ...resourceapi.DeviceRequest) {
	t.Helper()
	results, err := a.Allocate(t.Context(), node, []*resourceapi.ResourceClaim{claimOf(requests...)})
	if got := summary(results); err != nil || got != want {
		t.Errorf("on %s: %q, error %v, want %q", node.Name, got, err, want)
	}
}

// stored makes slices look as if they came from an informer.
func stored(s *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	s.ResourceVersion = "1"
	return s
}

// TestConfiguration: configuration of classes once per class, then that of the
// claim for what was chosen; what is for all requests names none.
func TestConfiguration(t *testing.T) {
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "any"}, Spec: resourceapi.DeviceClassSpec{
		Config: []resourceapi.DeviceClassConfiguration{{DeviceConfiguration: configuration("class")}},
	}}
	claim := claimOf(one("r"), first("q", one("big", count(9)), one("small")))
	claim.Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{
		{DeviceConfiguration: configuration("all")},
		{Requests: []string{"q/big"}, DeviceConfiguration: configuration("not chosen")},
		{Requests: []string{"q/small"}, DeviceConfiguration: configuration("chosen")},
		{Requests: []string{"r", "q"}, DeviceConfiguration: configuration("both")},
	}
	a, err := dropin.NewAllocator(t.Context(), allFeatures, structured.AllocatedState{}, classes{class},
		[]*resourceapi.ResourceSlice{local("s", "a", dev("x"), dev("y"))}, cel.NewCache(10, cel.Features{}))
	if err != nil {
		t.Fatal(err)
	}
	results, err := a.Allocate(t.Context(), nodeN, []*resourceapi.ResourceClaim{claim})
	if err != nil || len(results) != 1 {
		t.Fatalf("results %v, error %v", results, err)
	}
	want := []resourceapi.DeviceAllocationConfiguration{
		{Source: resourceapi.AllocationConfigSourceClass, DeviceConfiguration: configuration("class")},
		{Source: resourceapi.AllocationConfigSourceClaim, DeviceConfiguration: configuration("all")},
		{Source: resourceapi.AllocationConfigSourceClaim, Requests: []string{"q/small"}, DeviceConfiguration: configuration("chosen")},
		{Source: resourceapi.AllocationConfigSourceClaim, DeviceConfiguration: configuration("both")},
	}
	if diff := cmp.Diff(want, results[0].Devices.Config); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestNodeSelector: none for devices of all nodes, what the slices require
// together, or the node as soon as one device is tied to it.
func TestNodeSelector(t *testing.T) {
	requirement := func(key string, values ...string) v1.NodeSelectorRequirement {
		return v1.NodeSelectorRequirement{Key: key, Operator: v1.NodeSelectorOpIn, Values: values}
	}
	reach := func(name string, change func(*resourceapi.ResourceSliceSpec)) *resourceapi.ResourceSlice {
		s := local("s-"+name, name, dev("x", numa(1)))
		s.Spec.NodeName = nil
		change(&s.Spec)
		return s
	}
	all := reach("all", func(s *resourceapi.ResourceSliceSpec) { s.AllNodes = ptr.To(true) })
	selecting := func(name string, requirements ...v1.NodeSelectorRequirement) *resourceapi.ResourceSlice {
		return reach(name, func(s *resourceapi.ResourceSliceSpec) {
			s.NodeSelector = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: requirements}}}
		})
	}
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"zone": "z1", "rack": "r1"}}}
	onNode := &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{requirement("metadata.name", "n")}}}}
	bound := with(selecting("bound", requirement("zone", "z1")), func(s *resourceapi.ResourceSlice) { s.Spec.Devices[0].BindsToNode = ptr.To(true) })
	for name, tc := range map[string]struct {
		slices []*resourceapi.ResourceSlice
		want   *v1.NodeSelector
	}{
		"all nodes": {[]*resourceapi.ResourceSlice{all}, nil},
		"together": {
			[]*resourceapi.ResourceSlice{
				all, selecting("b", requirement("zone", "z1", "z2")), selecting("c", requirement("zone", "z2", "z1"), requirement("rack", "r1")),
			},
			&v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{requirement("zone", "z1", "z2"), requirement("rack", "r1")},
			}}},
		},
		"local":        {[]*resourceapi.ResourceSlice{all, local("s", "b", dev("x"))}, onNode},
		"bound to it":  {[]*resourceapi.ResourceSlice{all, bound}, onNode},
		"out of reach": {[]*resourceapi.ResourceSlice{all, selecting("b", requirement("zone", "z2"))}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			a := allocator(t, cel.NewCache(1, cel.Features{}), tc.slices...)
			results, err := a.Allocate(t.Context(), node, []*resourceapi.ResourceClaim{claimOf(one("r", allOf))})
			if err != nil || len(results) != 1 {
				t.Fatalf("results %v, error %v", results, err)
			}
			if diff := cmp.Diff(tc.want, results[0].NodeSelector); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestCancel: the error is that of the context, or what it was cancelled with.
func TestCancel(t *testing.T) {
	stop := errors.New("the pod is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	a := allocator(t, nil, local("s", "a", dev("x")))
	_, err := a.Allocate(ctx, nodeN, []*resourceapi.ResourceClaim{claimOf(one("r"))})
	if !errors.Is(err, stop) || !strings.Contains(err.Error(), "filter operation aborted") {
		t.Errorf("error %v, want one that wraps %v", err, stop)
	}
	expect(t, a, nodeN, "r=a/x", one("r"))
}

// TestWithoutCache: a cache of expressions is not needed.
func TestWithoutCache(t *testing.T) {
	a := allocator(t, nil, local("s", "a", dev("x"), dev("y", numa(1))))
	expect(t, a, nodeN, "r=a/y", one("r", where(`has(device.attributes["gpu.example.com"].numa)`)))
}

// TestRepublished: what is remembered of an informer's slices is forgotten with
// them, and only then.
func TestRepublished(t *testing.T) {
	cache := cel.NewCache(10, cel.Features{})
	selector := where(`device.attributes["gpu.example.com"].?numa.orValue(0) == 1`)
	a := stored(local("s1", "a", dev("x", numa(1))))
	b := stored(local("s2", "b", dev("x", numa(1))))
	for range 2 {
		expect(t, allocator(t, cache, a, b), nodeN, "r=a/x", one("r", selector))
	}
	changed := stored(local("s1", "a", dev("x", numa(0))))
	expect(t, allocator(t, cache, changed, b), nodeN, "r=b/x", one("r", selector))
	expect(t, allocator(t, cache, a, b), nodeN, "r=a/x", one("r", selector))
	expect(t, allocator(t, cache, b), nodeN, "r=b/x", one("r", selector))
	expect(t, allocator(t, cache), nodeN, "", one("r", selector))
}

// TestChangedInPlace: slices that are not from an informer belong to the caller,
// who may change them once the allocator is no longer in use.
func TestChangedInPlace(t *testing.T) {
	cache := cel.NewCache(10, cel.Features{})
	s := local("s", "a", dev("x", numa(1)))
	selector := where(`device.attributes["gpu.example.com"].numa == 1`)
	expect(t, allocator(t, cache, s), nodeN, "r=a/x", one("r", selector))
	s.Spec.Devices[0].Attributes["numa"] = resourceapi.DeviceAttribute{IntValue: ptr.To[int64](2)}
	expect(t, allocator(t, cache, s), nodeN, "", one("r", selector))
	s.Spec.NodeName = ptr.To("m")
	expect(t, allocator(t, cache, s), nodeN, "", one("r"))
}

// TestConcurrently uses one allocator, and several with one cache, for many nodes
// at once.
func TestConcurrently(t *testing.T) {
	const nodes = 30
	cache := cel.NewCache(10, cel.Features{})
	var slices []*resourceapi.ResourceSlice
	for n := range nodes {
		s := stored(local(fmt.Sprintf("s%d", n), fmt.Sprintf("p%02d", n), dev("x"), dev("y", numa(1))))
		s.Spec.NodeName = ptr.To(fmt.Sprint("n", n))
		slices = append(slices, s)
	}
	everywhere := stored(local("s", "z", dev("x", numa(1))))
	everywhere.Spec.NodeName, everywhere.Spec.AllNodes = nil, ptr.To(true)
	slices = append(slices, everywhere)
	one := one("r", count(2), where(`device.attributes["gpu.example.com"].?numa.orValue(0) == 1`))
	var group sync.WaitGroup
	for range 3 {
		a := allocator(t, cache, slices...)
		for n := range nodes {
			group.Go(func() {
				expect(t, a, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", n)}}, fmt.Sprintf("r=p%02d/y r=z/x", n), one)
			})
		}
	}
	group.Wait()
}
