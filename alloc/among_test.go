// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/inventory"
)

// TestAmong: what is said to be meant for the claims is not theirs where another claim
// has reserved it, except for what a claim had before.
func TestAmong(t *testing.T) {
	for name, tc := range map[string]struct {
		among  map[string]types.UID // by device
		claims []types.UID
		want   []string // nil: refused
	}{
		"free":                      {among: map[string]types.UID{"free": ""}, claims: []types.UID{"a"}, want: []string{"free"}},
		"not listed":                {among: map[string]types.UID{}, claims: []types.UID{"a"}},
		"arrives for it":            {among: map[string]types.UID{"arriving-a": ""}, claims: []types.UID{"a"}, want: []string{"arriving-a"}},
		"arrives for another":       {among: map[string]types.UID{"arriving-b": ""}, claims: []types.UID{"a"}},
		"arrives for both":          {among: map[string]types.UID{"arriving-a-b": ""}, claims: []types.UID{"a"}},
		"kept, and others arrive":   {among: map[string]types.UID{"kept-a-arriving-b": ""}, claims: []types.UID{"a"}, want: []string{"kept-a-arriving-b"}},
		"kept for another":          {among: map[string]types.UID{"kept-a-arriving-b": ""}, claims: []types.UID{"b"}},
		"has it, another arrives":   {among: map[string]types.UID{"arriving-b": "a"}, claims: []types.UID{"a"}, want: []string{"arriving-b"}},
		"has it, kept for another":  {among: map[string]types.UID{"kept-a-arriving-b": "b"}, claims: []types.UID{"b"}},
		"another has it":            {among: map[string]types.UID{"arriving-b": "c"}, claims: []types.UID{"a"}},
		"no UID":                    {among: map[string]types.UID{"arriving-b": ""}, claims: []types.UID{""}},
		"each its own":              {among: map[string]types.UID{"arriving-a": "", "arriving-b": ""}, claims: []types.UID{"b", "a"}, want: []string{"arriving-b", "arriving-a"}},
		"one of two owns the other": {among: map[string]types.UID{"arriving-b": "", "free": ""}, claims: []types.UID{"a", "b"}, want: []string{"free", "arriving-b"}},
	} {
		t.Run(name, func(t *testing.T) {
			options := Options{Among: map[inventory.DeviceID]types.UID{}}
			for device, claim := range tc.among {
				options.Among[inventory.DeviceID{Driver: "d", Pool: "p", Device: device}] = claim
			}
			var claims []*resourceapi.ResourceClaim
			for i, uid := range tc.claims {
				claims = append(claims, oneDevice(fmt.Sprint("c", i), uid))
			}
			problem, err := Compile(claims, func(string) *resourceapi.DeviceClass { return &resourceapi.DeviceClass{} }, nameMatcher{}, options)
			if err != nil {
				t.Fatal(err)
			}
			out, err := problem.Allocate(arrivals())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range tc.claims {
				if out.Result != nil {
					got = append(got, out.Result.Claims[i].Devices.Results[0].Device)
				}
			}
			if !slices.Equal(got, tc.want) || out.GaveUp != nil {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func oneDevice(name string, uid types.UID) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: uid},
		Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{Requests: []resourceapi.DeviceRequest{{
			Name:    "r",
			Exactly: &resourceapi.ExactDeviceRequest{AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1},
		}}}},
	}
}

// arrivals are devices on a node, some of which are kept for claims a and b, or are
// among those of which one arrives for them.
func arrivals() *inventory.View {
	node := "n"
	taint := func(key, claim string) resourceapi.DeviceTaint {
		return resourceapi.DeviceTaint{Key: key, Value: claim, Effect: resourceapi.DeviceTaintEffectNoSchedule}
	}
	inv := inventory.New()
	inv.SetSlice(&resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "s"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: "d", NodeName: &node, Pool: resourceapi.ResourcePool{Name: "p", ResourceSliceCount: 1},
			Devices: []resourceapi.Device{
				{Name: "free"},
				{Name: "arriving-a", Taints: []resourceapi.DeviceTaint{taint(inventory.ArrivingTaint, "a")}},
				{Name: "arriving-b", Taints: []resourceapi.DeviceTaint{taint(inventory.ArrivingTaint, "b")}},
				{Name: "arriving-a-b", Taints: []resourceapi.DeviceTaint{taint(inventory.ArrivingTaint, "a"), taint(inventory.ArrivingTaint, "b")}},
				{Name: "kept-a-arriving-b", Taints: []resourceapi.DeviceTaint{taint(inventory.ClaimTaint, "a"), taint(inventory.ArrivingTaint, "b")}},
			},
		},
	})
	return inv.Snapshot().View(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
}
