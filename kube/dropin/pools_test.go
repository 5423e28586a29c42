// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package dropin_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"kerf.dev/kerf/inventory"
)

// TestPoolsLikeStock publishes slices of several nodes under few names of pools, and
// asks what each node can be given of them: the stock allocator, the drop-in, and package
// inventory. The drop-in gives the same. The inventory gives the same but where it says
// what is wrong with a pool that the stock allocator does not look at closely; where the
// slices that a node reaches are all that there should be, others are no excuse.
func TestPoolsLikeStock(t *testing.T) {
	upstream, own := cel.NewCache(200, cel.Features{}), cel.NewCache(200, cel.Features{})
	tally := map[string]int{}
	for seed := *firstSeed; seed < *firstSeed+*seeds; seed++ {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, 11))}
		g.publishRivals()
		inv := inventory.New()
		inv.SyncSlices(g.slices)
		snapshot := inv.Snapshot()
		theirs, err := structured.NewAllocator(t.Context(), allFeatures, structured.AllocatedState{}, someClasses, g.slices, upstream)
		if err != nil {
			t.Fatal(err)
		}
		drop := allocator(t, own, g.slices...)
		for _, node := range g.nodes {
			view := snapshot.View(node)
			for _, slice := range g.slices {
				for i := range slice.Spec.Devices {
					device := slice.Spec.Devices[i].Attributes["id"].StringValue
					stock := givesOut(t, theirs, node, *device)
					if got := givesOut(t, drop, node, *device); got != stock {
						t.Errorf("seed %d, node %s, device %s: the drop-in says %v, the stock allocator %v", seed, node.Name, *device, got, stock)
					}
					problem := compareOffer(view, g, node, slice, &slice.Spec.Devices[i], stock, tally)
					if problem != "" {
						t.Errorf("seed %d, node %s, device %s: %s", seed, node.Name, *device, problem)
					}
				}
			}
		}
		if t.Failed() {
			t.Fatal(g.published(t))
		}
	}
	t.Log(tally)
	for _, what := range []string{"offered by both", "offered by none", "hidden by a higher generation", "complete among slices of others"} {
		if tally[what] == 0 {
			t.Errorf("no case of: %s", what)
		}
	}
}

// compareOffer says what is wrong with the inventory's answer.
func compareOffer(view *inventory.View, g *generator, node *v1.Node, slice *resourceapi.ResourceSlice, device *resourceapi.Device, stock bool, tally map[string]int) string {
	var pool *inventory.PoolView
	for i := range view.Pools {
		if view.Pools[i].Pool.ID.Pool == slice.Spec.Pool.Name {
			pool = &view.Pools[i]
		}
	}
	ours := pool != nil && pool.Pool.Problem == nil && slices.ContainsFunc(pool.Devices, func(d *inventory.Device) bool { return d.Spec == device })
	complete, rivals := g.complete(node, slice.Spec.Pool.Name)
	if complete && rivals {
		tally["complete among slices of others"]++
	}
	if pool != nil && pool.Pool.Problem != nil && pool.Pool.Problem.Kind == inventory.Superseded {
		tally["hidden by a higher generation"]++
	}
	switch {
	case ours && stock:
		tally["offered by both"]++
	case !ours && !stock:
		tally["offered by none"]++
	case ours:
		return "only the inventory offers it"
	case pool == nil || pool.Pool.Problem == nil:
		return "the inventory does not offer it and does not say why"
	case complete:
		return fmt.Sprintf("the inventory does not offer it because of %s, but the node reaches all that its slices speak of", pool.Pool.Problem.Kind)
	default:
		tally["stricter: "+string(pool.Pool.Problem.Kind)]++
	}
	return ""
}

// complete tells whether the slices that the node reaches are all that these speak of,
// and whether there are others in the pool.
func (g *generator) complete(node *v1.Node, pool string) (complete, rivals bool) {
	var near []*resourceapi.ResourceSlice
	for _, s := range g.slices {
		switch {
		case s.Spec.Pool.Name != pool:
		case !reaches(s, node):
			rivals = true
		case len(near) == 0 || s.Spec.Pool.Generation > near[0].Spec.Pool.Generation:
			near = []*resourceapi.ResourceSlice{s}
		case s.Spec.Pool.Generation == near[0].Spec.Pool.Generation:
			near = append(near, s)
		}
	}
	return len(near) > 0 && !slices.ContainsFunc(near, func(s *resourceapi.ResourceSlice) bool {
		return s.Spec.Pool.ResourceSliceCount != int64(len(near))
	}), rivals
}

func reaches(s *resourceapi.ResourceSlice, node *v1.Node) bool {
	selects := func(name *string, selector *v1.NodeSelector) bool {
		return name != nil && *name == node.Name ||
			selector != nil && selector.NodeSelectorTerms[0].MatchExpressions[0].Values[0] == node.Labels["rack"]
	}
	return s.Spec.AllNodes != nil || selects(s.Spec.NodeName, s.Spec.NodeSelector) ||
		s.Spec.PerDeviceNodeSelection != nil && slices.ContainsFunc(s.Spec.Devices, func(d resourceapi.Device) bool { return selects(d.NodeName, d.NodeSelector) })
}

// givesOut asks for one device by its ID.
func givesOut(t *testing.T, a structured.Allocator, node *v1.Node, id string) bool {
	t.Helper()
	request := one("r")
	request.Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
		Expression: fmt.Sprintf(`device.attributes["gpu.example.com"].id == %q`, id),
	}}}
	results, err := a.Allocate(t.Context(), node, []*resourceapi.ResourceClaim{claimOf(request)})
	if err != nil && !strings.Contains(err.Error(), structured.ErrFailedAllocationOnNode.Error()) {
		t.Fatal(err)
	}
	return len(results) > 0
}

// publishRivals makes nodes, and slices that they publish under the same names: some of
// them belong together, some were published by mistake or in spite.
func (g *generator) publishRivals() {
	for i := range 3 {
		name := fmt.Sprint("node-", i)
		g.nodes = append(g.nodes, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": fmt.Sprint(i / 2), "name": name}}})
	}
	for _, pool := range []string{"a", "b"} {
		local := g.chance(40)
		for range 1 + g.IntN(5) {
			g.publishRival(pool, local)
		}
	}
	g.Shuffle(len(g.slices), func(i, j int) { g.slices[i], g.slices[j] = g.slices[j], g.slices[i] })
}

func (g *generator) publishRival(pool string, local bool) {
	n := len(g.slices)
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("slice-", n)}, Spec: resourceapi.ResourceSliceSpec{
		Driver: "gpu.example.com",
		Pool:   resourceapi.ResourcePool{Name: pool, Generation: int64(1 + g.IntN(4)/3), ResourceSliceCount: int64(1 + g.IntN(3))},
	}}
	if g.chance(5) {
		s.Spec.Pool.Generation = 9
	}
	selection := g.IntN(10)
	if local {
		selection = 0
	}
	switch selection {
	case 7:
		s.Spec.AllNodes = ptr.To(true)
	case 8:
		s.Spec.NodeSelector = g.someNodes()
	case 9:
		s.Spec.PerDeviceNodeSelection = ptr.To(true)
	default:
		s.Spec.NodeName = &pick(g, g.nodes...).Name
	}
	g.slices = append(g.slices, s)
	if g.chance(20) {
		s.Spec.SharedCounters = []resourceapi.CounterSet{{Name: pick(g, "s", "t"), Counters: map[string]resourceapi.Counter{"c": {Value: resource.MustParse("8")}}}}
		return
	}
	for i := range 1 + g.IntN(2) {
		d := resourceapi.Device{
			Name:       pick(g, "gpu-0", fmt.Sprintf("gpu-%d-%d", n, i)),
			Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{"id": {StringValue: ptr.To(fmt.Sprintf("%d-%d", n, i))}},
		}
		if g.chance(15) {
			d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "s", Counters: map[string]resourceapi.Counter{"c": {Value: resource.MustParse("1")}}}}
		}
		if s.Spec.PerDeviceNodeSelection != nil {
			if g.chance(50) {
				d.NodeName = &pick(g, g.nodes...).Name
			} else {
				d.NodeSelector = g.someNodes()
			}
		}
		s.Spec.Devices = append(s.Spec.Devices, d)
	}
}

func (g *generator) someNodes() *v1.NodeSelector {
	return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{
		Key: "rack", Operator: v1.NodeSelectorOpIn, Values: []string{pick(g, "0", "1")},
	}}}}}
}

func (g *generator) published(t *testing.T) string {
	text, err := yaml.Marshal(g.slices)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
