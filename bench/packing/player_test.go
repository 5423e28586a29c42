// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
)

func clusterOf(t *testing.T, nodes int) *cluster {
	t.Helper()
	c, err := newCluster(nodes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mixNamed(t *testing.T, name string) *mix {
	t.Helper()
	i := slices.IndexFunc(mixes, func(m mix) bool { return m.name == name })
	if i < 0 {
		t.Fatalf("there is no mix %q", name)
	}
	return &mixes[i]
}

// TestSeeds: the same seed gives the same answers, another seed does not.
func TestSeeds(t *testing.T) {
	c := clusterOf(t, 2)
	m := *mixNamed(t, "balanced")
	m.load = 1.5 // so that something is refused
	play := func(seed uint64) []bool {
		stream := m.stream(c.card, c.cards, 300, seed)
		accepted, err := newPlayer(c, alloc.BestFit).play(stream)
		if err != nil {
			t.Fatal(err)
		}
		return accepted
	}
	first := play(1)
	if !slices.Contains(first, false) || !slices.Contains(first, true) {
		t.Fatal("the stream says nothing: all is accepted, or nothing")
	}
	if !slices.Equal(first, play(1)) {
		t.Error("the same seed, and other claims are accepted")
	}
	if slices.Equal(first, play(2)) {
		t.Error("another seed, and the same claims are accepted")
	}
}

// TestListedIsStock: listed order gives what the stock allocator gives on the
// first node that fits, so the stock allocator needs no column in the table.
func TestListedIsStock(t *testing.T) {
	c := clusterOf(t, 2)
	for _, name := range []string{"mostly small", "by memory", "several devices"} {
		m := *mixNamed(t, name)
		m.load = 1.5 // so that it does not take long until something is refused
		stream := m.stream(c.card, c.cards, 120, 1)
		p, cache := newPlayer(c, alloc.Listed), cel.NewCache(100, cel.Features{})
		refused := 0
		p.watch = func(state *inventory.Snapshot, k kind, node int, out alloc.Outcome) {
			wantNode, want := c.stock(t, cache, state, k)
			var got []string
			if node >= 0 {
				got = devicesOf(&out.Result.Claims[0])
			} else {
				refused++
			}
			if node != wantNode || !slices.Equal(got, want) {
				t.Fatalf("%s: %v gets %v of node %d, with the stock allocator %v of node %d", name, k, got, node, want, wantNode)
			}
		}
		if _, err := p.play(stream); err != nil {
			t.Fatal(err)
		}
		if refused == 0 || refused == len(stream) {
			t.Errorf("%s: %d of %d refused, which says nothing", name, refused, len(stream))
		}
	}
}

// stock is what the stock allocator gives in a state: the first node that fits,
// -1 if none does, and the devices.
func (c *cluster) stock(t *testing.T, cache *cel.Cache, state *inventory.Snapshot, k kind) (int, []string) {
	t.Helper()
	taken := structured.AllocatedState{AllocatedDevices: sets.New[structured.DeviceID]()}
	for pool, use := range state.Pools {
		for i, d := range pool.Devices {
			if use.Taken[i] != nil {
				taken.AllocatedDevices.Insert(structured.MakeDeviceID(d.ID.Driver, d.ID.Pool, d.ID.Device))
			}
		}
	}
	allocator, err := structured.NewAllocator(t.Context(), structured.Features{PartitionableDevices: true}, taken, c, c.slices, cache)
	if err != nil {
		t.Fatal(err)
	}
	for n, node := range c.nodes {
		results, err := allocator.Allocate(t.Context(), node, []*resourceapi.ResourceClaim{k.claim()})
		if err != nil {
			t.Fatal(err)
		}
		if len(results) > 0 {
			return n, devicesOf(&results[0])
		}
	}
	return -1, nil
}

func devicesOf(a *resourceapi.AllocationResult) []string {
	var names []string
	for _, r := range a.Devices.Results {
		names = append(names, r.Device)
	}
	return names
}
