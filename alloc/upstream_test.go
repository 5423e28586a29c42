// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/selector"
)

// settled is the world as the stock allocator of 1.37 has to see it to answer as 1.38 does: no
// version has build metadata, and a device that cannot be shared and is held is held as a
// whole.
func settled(w *alloc.World) ([]*resourceapi.ResourceSlice, structured.AllocatedState) {
	state := allocatedState(w.Held)
	var published []*resourceapi.ResourceSlice
	for _, slice := range w.Slices {
		slice = slice.DeepCopy()
		for _, d := range slice.Spec.Devices {
			id := structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, d.Name)
			if shared := d.AllowMultipleAllocations; (shared == nil || !*shared) && structured.IsDeviceAllocated(id, &state) {
				state.AllocatedDevices.Insert(id)
			}
			for name, a := range d.Attributes {
				for i, version := range a.VersionValues {
					a.VersionValues[i], _, _ = strings.Cut(version, "+")
				}
				if a.VersionValue != nil {
					*a.VersionValue, _, _ = strings.Cut(*a.VersionValue, "+")
				}
				d.Attributes[name] = a
			}
		}
		published = append(published, slice)
	}
	return published, state
}

// upstreamRuns is the number of worlds given to both allocators. The last few are the first
// in which admin access asks for more than old shares leave of a device, see stock.exceeds.
const upstreamRuns = 2900

// TestLikeUpstream gives the same worlds to the stock allocator and to listed
// order. Where the two are meant to be the same so must be the answers: devices
// and their order, node selectors, configuration, consumed capacity.
func TestLikeUpstream(t *testing.T) {
	for name, tc := range map[string]struct {
		options alloc.Options
		// without are features in which kerf differs on purpose: what a driver
		// published earlier counts, and so on.
		without alloc.Feature
	}{
		"default": {alloc.Options{Strategy: alloc.Listed}, alloc.WithChanged | alloc.WithAdmin | alloc.WithFailing | alloc.WithBroken | alloc.WithKept},
		"stock":   {alloc.Options{Strategy: alloc.Listed, Stock: &alloc.StockRules{}}, alloc.WithChanged},
	} {
		t.Run(name, func(t *testing.T) {
			upstream := cel.NewCache(100, cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
			matcher := selector.New()
			stats := map[string]int{}
			for seed := range uint64(upstreamRuns) {
				w := alloc.Generate(alloc.SeededBytes(seed), alloc.WithAll&^tc.without&^alloc.WithNode)
				w.Rules = nil // the stock allocator gets slices with these taints in them
				if brokenElsewhere(w) || asked(w) {
					continue
				}
				want, wantErr := solveUpstream(t, w, upstream)
				got, gotErr := solveListed(t, w, matcher, tc.options)
				outcome, problem := compareAnswers(want, got, wantErr, gotErr)
				if outcome == "error" && tc.options.Stock == nil {
					problem = "" // a request that cannot be satisfied, for kerf
				}
				stats[outcome]++
				if problem != "" {
					t.Errorf("seed %d: %s\n%s", seed, problem, alloc.DescribeWorld(w))
				}
			}
			t.Logf("%v", stats)
		})
	}
}

// asked reports worlds with selectors that may fail on a device that is held as a whole here
// and in shares there, see settled: nobody asks about the first.
func asked(w *alloc.World) bool {
	const both = alloc.WithFailing | alloc.WithFormer
	return w.Features&both == both
}

// brokenElsewhere reports pools that are unusable for kerf on every node while
// the stock allocator notices on some: it looks at the slices of one node, and
// takes their number from whichever comes first.
func brokenElsewhere(w *alloc.World) bool {
	for pool := range w.Inventory(nil).Snapshot().Pools {
		if pool.Problem == nil {
			continue
		}
		switch pool.Problem.Kind {
		case inventory.CountMismatch:
			return true
		case inventory.DuplicateDevice:
			return w.Features&alloc.WithReach != 0
		}
	}
	return false
}

// compareAnswers says what kind of answer both gave and how they differ.
func compareAnswers(want, got []resourceapi.AllocationResult, wantErr, gotErr error) (outcome, problem string) {
	switch {
	case wantErr != nil && strings.Contains(wantErr.Error(), "asks for all devices, but resource pool"):
		// For the stock allocator the whole pod waits then; kerf refuses the
		// request, and may use another alternative.
		return "pool not usable", ""
	case wantErr != nil && !errors.Is(wantErr, structured.ErrFailedAllocationOnNode):
		if gotErr == nil && got != nil {
			return "error", fmt.Sprintf("upstream fails with %v, kerf gives %s", wantErr, results(got))
		}
		return "error", ""
	case gotErr != nil:
		return "error", fmt.Sprintf("kerf fails with %v, upstream says %v and gives %s", gotErr, wantErr, results(want))
	}
	outcome = "refusal"
	if want != nil {
		outcome = "result"
	}
	if diff := cmp.Diff(results(want), results(got)); diff != "" {
		problem = "differs (-upstream +kerf):\n" + diff
	}
	return outcome, problem
}

// results writes allocations, share IDs aside, which are random.
func results(all []resourceapi.AllocationResult) string {
	all = slices.Clone(all)
	for i := range all {
		all[i] = *all[i].DeepCopy()
		for j := range all[i].Devices.Results {
			if r := &all[i].Devices.Results[j]; r.ShareID != nil {
				*r.ShareID = "share"
			}
		}
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		panic(err)
	}
	return string(text)
}

func solveListed(t *testing.T, w *alloc.World, matcher alloc.Matcher, options alloc.Options) ([]resourceapi.AllocationResult, error) {
	t.Helper()
	problem, err := alloc.Compile(w.Claims, w.Class, matcher, options)
	if err != nil {
		t.Fatal(err)
	}
	out, err := problem.Allocate(w.View())
	if err != nil || out.Result == nil {
		return nil, err
	}
	return out.Result.Claims, nil
}

func solveUpstream(t *testing.T, w *alloc.World, cache *cel.Cache) ([]resourceapi.AllocationResult, error) {
	t.Helper()
	features := structured.Features{
		AdminAccess:             true,
		CompatibilityGroups:     true,
		ConsumableCapacity:      true,
		DerivedAttributes:       true,
		DeviceBindingAndStatus:  true,
		DeviceTaints:            true,
		FractionalCapacityRange: true,
		ListTypeAttributes:      true,
		OptionalNodeOperations:  true,
		PartitionableDevices:    true,
		PrioritizedList:         true,
	}
	published, state := settled(w)
	allocator, err := structured.NewAllocator(t.Context(), features, state, classLister(w.Classes), published, cache)
	if err != nil {
		t.Fatal(err)
	}
	return allocator.Allocate(context.WithoutCancel(t.Context()), w.Node, w.Claims)
}

func allocatedState(held []*resourceapi.ResourceClaim) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range held {
		for _, h := range inventory.HoldsOf(claim) {
			id := structured.MakeDeviceID(h.Device.Driver, h.Device.Pool, h.Device.Device)
			if h.ShareID == "" {
				state.AllocatedDevices.Insert(id)
				continue
			}
			state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, &h.ShareID))
			result := claim.Status.Allocation.Devices.Results[0]
			state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
		}
	}
	return state
}

// classLister is the list of device classes as the stock allocator wants it.
type classLister []*resourceapi.DeviceClass

func (l classLister) List() ([]*resourceapi.DeviceClass, error) { return l, nil }

func (l classLister) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range l {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, fmt.Errorf("device class %s not found", name)
}
