// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package informer

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/inventory"
)

// holding returns a claim that holds devices; "d*" is a share of d.
func holding(name string, devices ...string) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	if len(devices) > 0 {
		claim.Status.Allocation = &resourceapi.AllocationResult{}
	}
	for _, device := range devices {
		result := resourceapi.DeviceRequestAllocationResult{Driver: "d", Pool: "p", Device: device}
		if device[len(device)-1] == '*' {
			result.Device, result.ShareID = device[:len(device)-1], new(types.UID(name))
		}
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, result)
	}
	return claim
}

func TestConflicts(t *testing.T) {
	a := func(devices ...string) *resourceapi.ResourceClaim { return holding("a", devices...) }
	b := func(devices ...string) *resourceapi.ResourceClaim { return holding("b", devices...) }
	type change struct{ before, after *resourceapi.ResourceClaim }
	for name, tc := range map[string]struct {
		changes []change
		// wantReported and wantHeld are devices.
		wantReported, wantHeld []string
	}{
		"different devices":      {changes: []change{{nil, a("x")}, {nil, b("y")}}},
		"shares":                 {changes: []change{{nil, a("x*")}, {nil, b("x*")}}},
		"handed over":            {changes: []change{{nil, a("x")}, {a("x"), a()}, {nil, b("x")}}},
		"given out twice":        {changes: []change{{nil, a("x", "y")}, {nil, b("x")}}, wantReported: []string{"x"}, wantHeld: []string{"x"}},
		"a share of all of it":   {changes: []change{{nil, a("x*")}, {nil, b("x")}}, wantReported: []string{"x"}, wantHeld: []string{"x"}},
		"one deallocated":        {changes: []change{{nil, a("x")}, {nil, b("x")}, {a("x"), a()}}, wantHeld: []string{"x"}},
		"one deleted":            {changes: []change{{nil, a("x")}, {nil, b("x")}, {a("x"), nil}}, wantHeld: []string{"x"}},
		"both gone":              {changes: []change{{nil, a("x")}, {nil, b("x")}, {a("x"), nil}, {b("x"), b()}}},
		"only an unrelated edit": {changes: []change{{nil, a("x")}, {a("x"), a("x")}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewConflicts()
			for _, change := range tc.changes {
				c.Replace(change.before, change.after)
			}
			var reported, held []string
			for _, conflict := range c.unreported() {
				reported = append(reported, conflict.Device.Device)
				if diff := cmp.Diff([]string{"ns/a", "ns/b"}, names(conflict.Claims)); diff != "" {
					t.Errorf("unexpected claims (-want +got):\n%s", diff)
				}
			}
			for _, id := range c.held() {
				held = append(held, id.Device)
			}
			if diff := cmp.Diff(tc.wantReported, reported); diff != "" {
				t.Errorf("unexpected reports (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantHeld, held); diff != "" {
				t.Errorf("unexpected devices (-want +got):\n%s", diff)
			}
			if again := c.unreported(); len(again) > 0 {
				t.Errorf("reported again: %v", again)
			}
		})
	}
}

func names(holders []inventory.Holder) []string {
	var names []string
	for _, h := range holders {
		names = append(names, h.String())
	}
	return names
}

// TestFeedKeepsConflictingDevices: the manager says that the device is free.
func TestFeedKeepsConflictingDevices(t *testing.T) {
	m := &manager{slices: []*resourceapi.ResourceSlice{pool("x")}, state: take()}
	conflicts := NewConflicts()
	var reports []Conflict
	f := NewFeed(m, conflicts, nothingPromised, func(c Conflict) { reports = append(reports, c) })
	conflicts.Replace(nil, holding("a", "x"))
	conflicts.Replace(nil, holding("b", "x"))
	if got := occupancies(t, f); len(got) != 1 || len(reports) != 1 {
		t.Errorf("got %v and reports %v, want x taken and reported", got, reports)
	}
	m.state = take()
	conflicts.Replace(holding("a", "x"), nil)
	if got := occupancies(t, f); len(got) != 1 || len(reports) != 1 {
		t.Errorf("one gone: got %v and reports %v, want x taken and no further report", got, reports)
	}
	m.state = take()
	conflicts.Replace(holding("b", "x"), nil)
	if got := occupancies(t, f); len(got) != 0 {
		t.Errorf("both gone: got %v, want x free", got)
	}
	if f.Latest() == nil {
		t.Error("there is no latest snapshot")
	}
}
