// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured/schedulerapi"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/inventory"
)

// manager is a SharedDRAManager that only knows slices and taken devices.
type manager struct {
	fwk.SharedDRAManager
	fwk.ResourceClaimTracker
	slices []*resourceapi.ResourceSlice
	state  *schedulerapi.AllocatedState
	// failures is the number of times that gathering fails.
	failures int
}

func (m *manager) ResourceClaims() fwk.ResourceClaimTracker { return m }
func (m *manager) ResourceSlices() fwk.ResourceSliceLister  { return m }

func (m *manager) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) {
	return m.slices, nil
}

func (m *manager) GatherAllocatedState() (*schedulerapi.AllocatedState, error) {
	if m.failures > 0 {
		m.failures--
		return nil, errors.New("conflicting concurrent modification")
	}
	return m.state, nil
}

// take returns a state with whole devices taken.
func take(devices ...string) *schedulerapi.AllocatedState {
	state := &schedulerapi.AllocatedState{
		AllocatedDevices:         sets.New[schedulerapi.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[schedulerapi.SharedDeviceID](),
		AggregatedCapacity:       schedulerapi.NewConsumedCapacityCollection(),
	}
	for _, device := range devices {
		state.AllocatedDevices.Insert(schedulerapi.MakeDeviceID("d", "p", device))
	}
	return state
}

// share adds a share to a state.
func share(state *schedulerapi.AllocatedState, device, shareID, memory string) {
	id, uid := schedulerapi.MakeDeviceID("d", "p", device), types.UID(shareID)
	state.AllocatedSharedDeviceIDs.Insert(schedulerapi.MakeSharedDeviceID(id, &uid))
	state.AggregatedCapacity.Insert(schedulerapi.NewDeviceConsumedCapacity(id,
		map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse(memory)}))
}

func pool(devices ...string) *resourceapi.ResourceSlice {
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "slice"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: "d", Pool: resourceapi.ResourcePool{Name: "p", ResourceSliceCount: 1}, NodeName: new("n1"),
		},
	}
	for _, device := range devices {
		slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: device})
	}
	return slice
}

// occupancies returns what is taken of the pool's devices on node n1.
func occupancies(t *testing.T, f *Feed) map[string]inventory.Occupancy {
	t.Helper()
	snapshot, err := f.Snapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	result := map[string]inventory.Occupancy{}
	for _, pv := range snapshot.View(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}).Pools {
		for _, d := range pv.Devices {
			if o := pv.Use.Taken[d.Index]; o != nil {
				result[d.ID.Device] = *o
			}
		}
	}
	return result
}

// newFeed returns a feed for tests without conflicts.
func newFeed(m *manager) *Feed {
	return NewFeed(m, NewConflicts(), nothingPromised, func(Conflict) {})
}

func TestFeedFollowsChanges(t *testing.T) {
	m := &manager{slices: []*resourceapi.ResourceSlice{pool("a", "b", "c")}}
	f := newFeed(m)
	whole := inventory.Occupancy{Dedicated: true, Holders: make([]inventory.Holder, 1)}
	amount := func(s string) map[resourceapi.QualifiedName]inventory.Amount {
		return map[resourceapi.QualifiedName]inventory.Amount{"memory": inventory.AmountOf(resource.MustParse(s))}
	}
	one := take("b")
	share(one, "c", "1", "4")
	two := take("b")
	share(two, "c", "1", "4")
	share(two, "c", "2", "6")

	for _, step := range []struct {
		name  string
		state *schedulerapi.AllocatedState
		want  map[string]inventory.Occupancy
	}{
		{"nothing", take(), map[string]inventory.Occupancy{}},
		{"two devices", take("a", "b"), map[string]inventory.Occupancy{"a": whole, "b": whole}},
		{"one released, one share", one, map[string]inventory.Occupancy{
			"b": whole, "c": {Shares: 1, Consumed: amount("4"), Holders: make([]inventory.Holder, 1)}}},
		{"two shares", two, map[string]inventory.Occupancy{
			"b": whole, "c": {Shares: 2, Consumed: amount("10"), Holders: make([]inventory.Holder, 2)}}},
		{"the same again", two, map[string]inventory.Occupancy{
			"b": whole, "c": {Shares: 2, Consumed: amount("10"), Holders: make([]inventory.Holder, 2)}}},
		{"nothing again", take(), map[string]inventory.Occupancy{}},
	} {
		m.state = step.state
		if diff := cmp.Diff(step.want, occupancies(t, f), cmp.AllowUnexported(inventory.Amount{})); diff != "" {
			t.Errorf("%s: unexpected occupancies (-want +got):\n%s", step.name, diff)
		}
	}
}

// TestFeedNothingToShare: the manager forgets a sum of nothing while claims still have
// shares of nothing. Who looks what would be if they were gone comes to no harm.
func TestFeedNothingToShare(t *testing.T) {
	state := take()
	share(state, "a", "1", "0")
	share(state, "a", "2", "0")
	share(state, "a", "3", "0")
	id := schedulerapi.MakeDeviceID("d", "p", "a")
	state.AllocatedSharedDeviceIDs.Delete(schedulerapi.MakeSharedDeviceID(id, new(types.UID("3"))))
	state.AggregatedCapacity.Remove(schedulerapi.NewDeviceConsumedCapacity(id, map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse("0")}))
	if len(state.AggregatedCapacity) > 0 {
		t.Fatal("the manager remembers a sum of nothing")
	}
	m := &manager{slices: []*resourceapi.ResourceSlice{pool("a")}, state: state}
	snapshot, err := newFeed(m).Snapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	gone := inventory.Hold{
		Device: inventory.DeviceID{Driver: "d", Pool: "p", Device: "a"}, Holder: inventory.Holder{Namespace: "ns", Claim: "c"}, ShareID: "1",
		Consumed: map[resourceapi.QualifiedName]inventory.Amount{"memory": {}, "d/memory": inventory.AmountOf(resource.MustParse("4"))},
	}
	use := snapshot.View(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}).WhatIf([]inventory.Hold{gone}, nil).Pools[0].Use
	if got := use.Taken[0]; got == nil || got.Shares != 1 || got.ConsumedOf("d", "memory") != (inventory.Amount{}) {
		t.Errorf("with one of two shares gone the device is taken as %+v, want one share of nothing", got)
	}
}

// TestFeedAddsUpSpellings: the manager has a sum for each spelling of a capacity.
func TestFeedAddsUpSpellings(t *testing.T) {
	state := take()
	share(state, "a", "1", "4")
	other := types.UID("2")
	id := schedulerapi.MakeDeviceID("d", "p", "a")
	state.AllocatedSharedDeviceIDs.Insert(schedulerapi.MakeSharedDeviceID(id, &other))
	state.AggregatedCapacity.Insert(schedulerapi.NewDeviceConsumedCapacity(id, map[resourceapi.QualifiedName]resource.Quantity{"d/memory": resource.MustParse("3")}))
	m := &manager{slices: []*resourceapi.ResourceSlice{pool("a")}, state: state}
	taken := occupancies(t, newFeed(m))["a"]
	if got := taken.ConsumedOf("d", "d/memory"); got != inventory.AmountOf(resource.MustParse("7")) {
		t.Errorf("%v of memory is consumed, want 7", got)
	}
}

func TestFeedSharesWhatDidNotChange(t *testing.T) {
	m := &manager{slices: []*resourceapi.ResourceSlice{pool("a", "b")}, state: take("a")}
	f := newFeed(m)
	first, err := f.Snapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	m.state = take("a")
	second, err := f.Snapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if first != second {
		t.Error("got a new snapshot although nothing changed")
	}
}

func TestFeedRepeatsReadingWhileClaimsChange(t *testing.T) {
	m := &manager{slices: []*resourceapi.ResourceSlice{pool("a")}, state: take("a"), failures: 3}
	if got := occupancies(t, newFeed(m)); len(got) != 1 {
		t.Errorf("got %v, want a taken", got)
	}
}

func TestFeedEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	m := &manager{failures: 1 << 30}
	if _, err := newFeed(m).Snapshot(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want that of the context", err)
	}
}

func nothingPromised() []inventory.DeviceID { return nil }
