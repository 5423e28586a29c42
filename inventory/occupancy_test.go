// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var thePool = PoolID{Driver: "d", Pool: "p"}

// allocated is a claim with these results.
func allocated(name string, results ...resourceapi.DeviceRequestAllocationResult) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{
			Devices: resourceapi.DeviceAllocationResult{Results: results},
		}},
	}
}

func result(device string) resourceapi.DeviceRequestAllocationResult {
	return resourceapi.DeviceRequestAllocationResult{Driver: "d", Pool: "p", Device: device}
}

func sharedResult(device, id, memory string) resourceapi.DeviceRequestAllocationResult {
	r := result(device)
	r.ShareID = ptr(types.UID(id))
	r.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse(memory)}
	return r
}

func TestHoldsOf(t *testing.T) {
	admin := result("d2")
	admin.AdminAccess = ptr(true)
	notAdmin := result("d3")
	notAdmin.AdminAccess = ptr(false)
	got := HoldsOf(allocated("c", result("d0"), sharedResult("d1", "s", "4Gi"), admin, notAdmin))
	holder := Holder{Namespace: "ns", Claim: "c", UID: "c"}
	want := []Hold{
		{Device: DeviceID{"d", "p", "d0"}, Holder: holder},
		{Device: DeviceID{"d", "p", "d1"}, Holder: holder, ShareID: "s", Consumed: map[resourceapi.QualifiedName]Amount{"memory": AmountOf(resource.MustParse("4Gi"))}},
		{Device: DeviceID{"d", "p", "d3"}, Holder: holder},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Amount{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := HoldsOf(&resourceapi.ResourceClaim{}); got != nil {
		t.Errorf("a claim without an allocation holds %v", got)
	}
}

// TestUnion: a device is taken by whatever holds it, in any record shape.
func TestUnion(t *testing.T) {
	inv := inventoryOf(halves()...)
	inFlight := hold("half-a", "Pending") // sorts before the others
	inv.SetHolds("in flight", []Hold{inFlight})
	inv.SetClaim(allocated("b", sharedResult("half-a", "1", "3"), sharedResult("half-a", "2", "4")))
	inv.SetClaim(allocated("a", result("half-a")))
	snapshot := inv.Snapshot()
	pool, use := snapshot.Pool(thePool)
	a, b := Holder{"ns", "a", "a"}, Holder{"ns", "b", "b"}
	want := &Occupancy{
		Dedicated: true, Shares: 2, Consumed: map[resourceapi.QualifiedName]Amount{"memory": amountOfInt(7)},
		Holders: []Holder{inFlight.Holder, a, b, b},
	}
	if diff := cmp.Diff(want, use.Taken[pool.Device("half-a").Index], cmp.AllowUnexported(Amount{})); diff != "" {
		t.Errorf("occupancy (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"card/memory=20"}, free(pool, use)); diff != "" {
		t.Errorf("a device that several hold is paid for once (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want.Holders, snapshot.Holders(DeviceID{"d", "p", "half-a"})); diff != "" {
		t.Errorf("holders (-want +got):\n%s", diff)
	}
	for _, free := range []DeviceID{{"d", "p", "half-b"}, {"d", "p", "unknown"}, {"d", "unknown", "half-a"}} {
		if got := snapshot.Holders(free); got != nil {
			t.Errorf("%s is held by %v", free, got)
		}
	}

	inv.SetHolds("in flight", nil)
	inv.DeleteClaim(allocated("b"))
	inv.DeleteClaim(allocated("unknown"))
	inv.SetClaim(allocated("a", result("half-b"))) // moved
	pool, use = inv.Snapshot().Pool(thePool)
	if use.Taken[pool.Device("half-a").Index] != nil || use.Taken[pool.Device("half-b").Index] == nil {
		t.Errorf("taken %v, want half-b only", use.Taken)
	}
}

// TestAdminAccessHoldsNothing, neither the device nor what it draws.
func TestAdminAccessHoldsNothing(t *testing.T) {
	admin := result("full")
	admin.AdminAccess = ptr(true)
	inv := inventoryOf(halves()...)
	inv.SetClaim(allocated("a", admin))
	pool, use := inv.Snapshot().Pool(thePool)
	if use.Taken[0] != nil || use.Taken[1] != nil || use.Taken[2] != nil {
		t.Errorf("taken %v", use.Taken)
	}
	if diff := cmp.Diff([]string{"card/memory=40"}, free(pool, use)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestDrawsAreKept tells stories of devices that are taken while their pool
// changes. What they drew when they were taken stays drawn.
func TestDrawsAreKept(t *testing.T) {
	counters := slice("counters", revision(1, 2), withSet("card/memory=40"))
	of := func(devices ...resourceapi.Device) *resourceapi.ResourceSlice {
		return slice("devices", revision(1, 2), with(devices...))
	}
	whole, half := drawing("x", "card/memory=40"), drawing("x", "card/memory=10")
	look := func(inv *Inventory) { inv.Snapshot() }
	take := func(inv *Inventory) { inv.SetClaim(allocated("c", result("x"))) }
	release := func(inv *Inventory) { inv.DeleteClaim(allocated("c")) }
	set := func(s *resourceapi.ResourceSlice) func(*Inventory) {
		return func(inv *Inventory) { inv.SetSlice(s) }
	}
	remove := func(name string) func(*Inventory) {
		return func(inv *Inventory) { inv.DeleteSlice(name) }
	}
	for name, tc := range map[string]struct {
		story []func(*Inventory)
		want  string
	}{
		"taken":                       {story: []func(*Inventory){set(of(whole)), take}, want: "card/memory=0"},
		"released":                    {story: []func(*Inventory){set(of(whole)), take, look, release}, want: "card/memory=40"},
		"claims less now":             {story: []func(*Inventory){set(of(whole)), take, look, set(of(half))}, want: "card/memory=0"},
		"claims more now":             {story: []func(*Inventory){set(of(half)), take, look, set(of(whole))}, want: "card/memory=0"},
		"claims less and was free":    {story: []func(*Inventory){set(of(whole)), look, set(of(half)), look, take}, want: "card/memory=30"},
		"taken, then claims less":     {story: []func(*Inventory){set(of(whole)), look, take, set(of(half))}, want: "card/memory=0"},
		"claims less, released":       {story: []func(*Inventory){set(of(whole)), take, look, set(of(half)), look, release}, want: "card/memory=40"},
		"taken again, claims less":    {story: []func(*Inventory){set(of(whole)), take, look, release, look, set(of(half)), look, take}, want: "card/memory=30"},
		"left":                        {story: []func(*Inventory){set(of(half)), take, look, set(of())}, want: "card/memory=30"},
		"taken, then left":            {story: []func(*Inventory){set(of(half)), look, take, set(of())}, want: "card/memory=30"},
		"left, taken afterwards":      {story: []func(*Inventory){set(of(half)), look, set(of()), take}, want: "card/memory=30"},
		"left long before":            {story: []func(*Inventory){set(of(half)), look, set(of()), look, take}, want: "card/memory=40 closed"},
		"left and came back":          {story: []func(*Inventory){set(of(whole)), take, look, set(of()), look, set(of(half))}, want: "card/memory=0"},
		"left and was released":       {story: []func(*Inventory){set(of(whole)), take, look, set(of()), look, release}, want: "card/memory=40"},
		"never seen":                  {story: []func(*Inventory){take, set(of())}, want: "card/memory=40 closed"},
		"never seen, released":        {story: []func(*Inventory){take, set(of()), look, release}, want: "card/memory=40"},
		"never seen, then published":  {story: []func(*Inventory){take, set(of()), look, set(of(half))}, want: "card/memory=30"},
		"the pool left and came back": {story: []func(*Inventory){set(of(half)), take, look, remove("counters"), remove("devices"), look, set(counters), set(of())}, want: "card/memory=30"},
		"seen before its counters": {
			story: []func(*Inventory){remove("counters"), set(of(half)), take, look, set(of()), look, set(counters)}, want: "card/memory=30",
		},
		"the counter shrank": {
			story: []func(*Inventory){set(of(whole)), take, look, set(slice("counters", revision(1, 2), withSet("card/memory=30")))}, want: "card/memory=-10",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inv := inventoryOf(counters)
			for _, step := range tc.story {
				step(inv)
			}
			pool, use := inv.Snapshot().Pool(thePool)
			if diff := cmp.Diff([]string{tc.want}, free(pool, use)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestGone: who holds a device that is not published any more can be told.
func TestGone(t *testing.T) {
	inv := inventoryOf(halves()...)
	inv.SetClaim(allocated("c", result("third")))
	snapshot := inv.Snapshot()
	_, use := snapshot.Pool(thePool)
	if use.Gone["third"] == nil || len(use.Gone) != 1 {
		t.Errorf("gone %v, want third", use.Gone)
	}
	if diff := cmp.Diff([]Holder{{"ns", "c", "c"}}, snapshot.Holders(DeviceID{"d", "p", "third"})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestClosedIsPerPool: an unknown device closes the sets of its own pool.
func TestClosedIsPerPool(t *testing.T) {
	other := halves()
	for _, s := range other {
		s.Name += "-q"
		s.Spec.Pool.Name = "q"
	}
	inv := inventoryOf(append(halves(), other...)...)
	inv.SetClaim(allocated("c", result("unknown")))
	pool, use := inv.Snapshot().Pool(PoolID{Driver: "d", Pool: "q"})
	if diff := cmp.Diff([]string{"card/memory=40"}, free(pool, use)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
