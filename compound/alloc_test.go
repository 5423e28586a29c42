// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package compound_test

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/compound"
	"kerf.dev/kerf/inventory"
)

// market gives out what a result publishes.
type market struct {
	testing.TB
	*compound.Result
	inv    *inventory.Inventory
	claims map[types.UID]*resourceapi.ResourceClaim
	made   int
}

func newMarket(t testing.TB, r *compound.Result) *market {
	m := &market{TB: t, Result: r, inv: inventory.New(), claims: map[types.UID]*resourceapi.ResourceClaim{}}
	for _, s := range r.Slices {
		m.inv.SetSlice(s)
	}
	for pool := range m.inv.Snapshot().Pools {
		if pool.Problem != nil {
			t.Fatalf("pool %s: %+v", pool.ID, pool.Problem)
		}
	}
	return m
}

// take allocates a device that an expression selects, and returns its claim, nil if none is
// free.
func (m *market) take(expression string) *resourceapi.ResourceClaim {
	m.Helper()
	m.made++
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("claim-", m.made), UID: types.UID(fmt.Sprint(m.made))}}
	claim.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{
		DeviceClassName: "all", AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
		Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}},
	}}}
	classes := func(string) *resourceapi.DeviceClass { return &resourceapi.DeviceClass{} }
	problem, err := alloc.Compile([]*resourceapi.ResourceClaim{claim}, classes, matcher, alloc.Options{})
	if err != nil {
		m.Fatal(err)
	}
	outcome, err := problem.Allocate(m.inv.Snapshot().View(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}))
	if err != nil || outcome.GaveUp != nil {
		m.Fatalf("%s: error %v, gave up %v", expression, err, outcome.GaveUp)
	}
	if outcome.Result == nil {
		return nil
	}
	claim.Status.Allocation = &outcome.Result.Claims[0]
	m.inv.SetClaim(claim)
	m.claims[claim.UID] = claim
	return claim
}

func (m *market) giveUp(claim *resourceapi.ResourceClaim) {
	m.inv.DeleteClaim(claim)
	delete(m.claims, claim.UID)
}

// held are the atoms that claims have. It fails if one is held twice.
func (m *market) held() map[inventory.DeviceID]string {
	m.Helper()
	held := map[inventory.DeviceID]string{}
	var all []*resourceapi.ResourceClaim
	for _, claim := range m.claims {
		all = append(all, claim)
		id := inventory.IDOf(&claim.Status.Allocation.Devices.Results[0])
		atoms := []inventory.DeviceID{id} // one that is left to its driver
		if of := m.AtomsOf(id); of != nil {
			atoms = nil
			for _, some := range of {
				for _, a := range some {
					atoms = append(atoms, a.DeviceID)
				}
			}
		}
		for _, atom := range atoms {
			if other := held[atom]; other != "" {
				m.Errorf("%s is given out as a part of %s and of %s", atom, other, id)
			}
			held[atom] = id.Device
		}
	}
	for _, v := range alloc.CheckCluster(m.Slices, all) {
		m.Errorf("the cluster: %v", v)
	}
	return held
}

const ruleIs = `device.attributes["compound.kerf.dev"].rule == `

// TestGpu1Alone gives out gpu0 with nic0: gpu1 is left, alone.
func TestGpu1Alone(t *testing.T) {
	m := newMarket(t, decide(t, triplets, server(2)...))
	pair := m.take(ruleIs + `"pair" && "uuid-gpu0" == device.attributes["gpu.example.com"].uuid`)
	if pair == nil {
		t.Fatal("gpu0 and nic0 are not given out")
	}
	for _, rule := range []string{"triplet", "pair"} {
		if got := m.take(ruleIs + `"` + rule + `"`); got != nil {
			t.Errorf("a %s is given out beside it: %v", rule, got.Status.Allocation.Devices.Results)
		}
	}
	if got := m.take(ruleIs + `"gpu" && device.attributes["gpu.example.com"].uuid == "uuid-gpu0"`); got != nil {
		t.Error("gpu0 is given out twice")
	}
	if m.take(ruleIs+`"gpu"`) == nil {
		t.Error("gpu1 is not given out alone")
	}
	if held := m.held(); len(held) != 3 {
		t.Errorf("held are %v, want gpu0, gpu1 and nic0", held)
	}
	m.giveUp(pair)
	if m.take(ruleIs+`"pair"`) == nil {
		t.Error("gpu0 and nic0 are not given out again")
	}
}

// TestNoAtomTwice gives out and takes back in any order.
func TestNoAtomTwice(t *testing.T) {
	inputs := map[string]*compound.Result{
		"triplets":   decide(t, triplets, server(8)...),
		"partitions": decide(t, partitions, cards("card-a", "card-b")...),
	}
	rules := map[string][]string{"triplets": {"gpu", "pair", "triplet"}, "partitions": {"part", "pair", "two"}}
	rapid.Check(t, func(rt *rapid.T) {
		of := rapid.SampledFrom([]string{"partitions", "triplets"}).Draw(rt, "world")
		m := newMarket(t, inputs[of])
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			if len(m.claims) > 0 && rapid.IntRange(0, 2).Draw(rt, "what") == 0 {
				var ids []types.UID
				for id := range m.claims {
					ids = append(ids, id)
				}
				slices.Sort(ids)
				m.giveUp(m.claims[rapid.SampledFrom(ids).Draw(rt, "claim")])
				continue
			}
			m.take(ruleIs + fmt.Sprintf("%q", rapid.SampledFrom(rules[of]).Draw(rt, "rule")))
			if m.held(); t.Failed() {
				rt.FailNow()
			}
		}
	})
}
