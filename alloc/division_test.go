// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/inventory"
)

// server has devices given as "kind row column", each kind repeated for every
// row and column: "gpu 0-3 0-1" are eight devices in four rows and two columns.
func server(t *testing.T, kinds ...string) *inventory.View {
	t.Helper()
	node := "n"
	slice := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "s"},
		Spec:       resourceapi.ResourceSliceSpec{Driver: "d", NodeName: &node, Pool: resourceapi.ResourcePool{Name: "p", ResourceSliceCount: 1}},
	}
	for _, kind := range kinds {
		var name string
		var rows, columns [2]int64
		if _, err := fmt.Sscanf(kind, "%s %d-%d %d-%d", &name, &rows[0], &rows[1], &columns[0], &columns[1]); err != nil {
			t.Fatal(err)
		}
		for row := rows[0]; row <= rows[1]; row++ {
			for column := columns[0]; column <= columns[1]; column++ {
				slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{
					Name: fmt.Sprintf("d-%s-%d-%d", name, row, column),
					Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
						"row": {IntValue: &row}, "column": {IntValue: &column},
					},
				})
			}
		}
	}
	return viewOf(slice)
}

func viewOf(published ...*resourceapi.ResourceSlice) *inventory.View {
	inv := inventory.New()
	for _, slice := range published {
		inv.SetSlice(slice)
	}
	return inv.Snapshot().View(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
}

// wanted is a claim for requests given as "count*kind", the alternatives of a
// list separated by bars, and constraints given as "row=0,1" for matchAttribute
// and "row!0,1" for distinctAttribute of the requests with these numbers.
func wanted(t *testing.T, text string) *resourceapi.ResourceClaim {
	t.Helper()
	claim := &resourceapi.ResourceClaim{}
	devices := &claim.Spec.Devices
	for _, part := range strings.Fields(text) {
		if at := strings.IndexAny(part, "=!"); at >= 0 {
			attribute := resourceapi.FullyQualifiedName("d/" + part[:at])
			c := resourceapi.DeviceConstraint{MatchAttribute: &attribute}
			if part[at] == '!' {
				c = resourceapi.DeviceConstraint{DistinctAttribute: &attribute}
			}
			for _, r := range strings.Split(part[at+1:], ",") {
				c.Requests = append(c.Requests, "r"+r)
			}
			devices.Constraints = append(devices.Constraints, c)
			continue
		}
		r := resourceapi.DeviceRequest{Name: fmt.Sprint("r", len(devices.Requests))}
		for i, alternative := range strings.Split(part, "|") {
			sub := resourceapi.DeviceSubRequest{Name: fmt.Sprint("a", i), AllocationMode: resourceapi.DeviceAllocationModeExactCount}
			var kind string
			if _, err := fmt.Sscanf(alternative, "%d*%s", &sub.Count, &kind); err != nil {
				t.Fatal(err)
			}
			sub.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: kind}}}
			r.FirstAvailable = append(r.FirstAvailable, sub)
		}
		if len(r.FirstAvailable) == 1 {
			r.Exactly = &resourceapi.ExactDeviceRequest{
				AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: r.FirstAvailable[0].Count, Selectors: r.FirstAvailable[0].Selectors,
			}
			r.FirstAvailable = nil
		}
		devices.Requests = append(devices.Requests, r)
	}
	return claim
}

// expect solves the claim with both strategies and bounds the steps.
func expect(t *testing.T, claim *resourceapi.ResourceClaim, view *inventory.View, possible bool, steps int) {
	t.Helper()
	for _, strategy := range []Strategy{Listed, BestFit} {
		problem, err := Compile([]*resourceapi.ResourceClaim{claim}, func(string) *resourceapi.DeviceClass { return &resourceapi.DeviceClass{} }, nameMatcher{}, Options{Strategy: strategy})
		if err != nil {
			t.Fatal(err)
		}
		out, err := problem.Allocate(view)
		if err != nil {
			t.Fatal(err)
		}
		if (out.Result != nil) != possible || out.GaveUp != nil {
			t.Errorf("%s: possible: %t, want %t (gave up: %v)", strategy, out.Result != nil, possible, out.GaveUp)
		}
		if out.Steps > steps {
			t.Errorf("%s: took %d steps, want at most %d", strategy, out.Steps, steps)
		}
	}
}

// TestDivision has groups that compete for the values of an attribute, with each
// other and with requests that take devices from anywhere. All but the last groups
// could be served in many ways.
func TestDivision(t *testing.T) {
	for _, tc := range []struct {
		devices  []string
		want     string
		possible bool
		steps    int // at most
	}{
		{[]string{"gpu 0-3 0-3"}, "3*gpu 3*gpu 3*gpu 3*gpu 2*gpu row=0 row=1 row=2 row=3 row=4", false, 4},
		{[]string{"gpu 0-3 0-3"}, "2*gpu 2*gpu 2*gpu 2*gpu 2*gpu 2*gpu 3*gpu row=0 row=1 row=2 row=3 row=4 row=5 row=6", true, 40},
		{[]string{"gpu 0-2 0-6"}, "3*gpu 3*gpu 3*gpu 3*gpu 3*gpu 3*gpu 2*gpu row=0 row=1 row=2 row=3 row=4 row=5 row=6", false, 10},
		{[]string{"gpu 0-4 0-4"}, "8*gpu 5*gpu row=1", true, 40},
		{[]string{"gpu 0-3 0-4"}, "8*gpu 5*gpu 5*gpu row=1 row=2", true, 60},
		{[]string{"gpu 0-4 0-4"}, "18*gpu 5*gpu row!1", true, 120},
		{[]string{"gpu 0-4 0-4"}, "21*gpu 5*gpu row!1", false, 30},
		{[]string{"gpu 0-4 0-4"}, "8*gpu 5*gpu row=1 column!1", true, 120},
		{[]string{"gpu 0-8 0-0", "nic 2-8 0-0"}, "2*gpu 1*gpu 1*nic 1*gpu 1*nic 1*gpu 1*nic 1*gpu 1*nic 1*gpu 1*nic 1*gpu 1*nic 1*gpu 1*nic row=1,2 row=3,4 row=5,6 row=7,8 row=9,10 row=11,12 row=13,14", true, 60},
		{[]string{"gpu 0-8 0-0", "nic 3-8 0-1"}, "1*gpu 1*nic 1*gpu 1*nic 1*gpu 1*nic 1*gpu 1*nic 1*gpu 1*nic 1*gpu 1*nic 1*gpu 1*nic row=0,1 row=2,3 row=4,5 row=6,7 row=8,9 row=10,11 row=12,13", false, 4},
		{[]string{"gpu 0-8 0-0", "nic 3-8 0-1"}, "4*gpu 1*gpu 1*nic 1*gpu 1*nic 1*gpu 1*nic 1*gpu 1*nic 1*gpu 1*nic 1*gpu 1*nic row=1,2 row=3,4 row=5,6 row=7,8 row=9,10 row=11,12", false, 20},
	} {
		t.Run(tc.want, func(t *testing.T) {
			expect(t, wanted(t, tc.want), server(t, tc.devices...), tc.possible, tc.steps)
		})
	}
}

// TestGroupsAlone has groups that nothing could satisfy, after requests for which
// there is a lot of choice.
func TestGroupsAlone(t *testing.T) {
	for _, want := range []string{
		"8*gpu 2*gpu row=1 row!1",
		"8*gpu 2*gpu row=1 column=1",
		"8*gpu 7*gpu row=1 column!1",
		"4*gpu 1*gpu 1*gpu row=1,2 column=1,2",
	} {
		t.Run(want, func(t *testing.T) { expect(t, wanted(t, want), server(t, "gpu 0-5 0-5"), false, 60) })
	}
}

// TestListsAreCounted has prioritized lists that are impossible, or only possible
// with the last alternatives, because of all of them together.
func TestListsAreCounted(t *testing.T) {
	lists := func(n int, alternatives, constraint string) string {
		text := strings.Repeat(alternatives+" ", n)
		for r := range n {
			text += strings.ReplaceAll(constraint, "N", fmt.Sprint(r)) + " "
		}
		return text
	}
	all := " row!0,1,2,3,4,5"
	for _, tc := range []struct {
		devices, want string
		possible      bool
		steps         int // at most
	}{
		{"gpu 0-10 0-0", lists(6, "5*gpu|4*gpu|3*gpu|2*gpu", ""), false, 20},
		{"gpu 0-11 0-0", lists(6, "5*gpu|4*gpu|3*gpu|2*gpu", ""), true, 120},
		{"gpu 0-10 0-2", lists(6, "4*gpu|3*gpu|2*gpu", "") + all, false, 20},
		{"gpu 0-11 0-2", lists(6, "4*gpu|3*gpu|2*gpu", "") + all, true, 120},
		{"gpu 0-4 0-2", lists(6, "4*gpu|3*gpu|2*gpu", "row=N"), false, 20},
	} {
		t.Run(tc.devices+" "+tc.want, func(t *testing.T) {
			expect(t, wanted(t, tc.want), server(t, tc.devices), tc.possible, tc.steps)
		})
	}
}

// TestShares asks for shares of devices that can be shared, in amounts of their
// memory, that all but fill them or are one too many.
func TestShares(t *testing.T) {
	shared := func(devices int) *inventory.View {
		node := "n"
		slice := &resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "s"},
			Spec:       resourceapi.ResourceSliceSpec{Driver: "d", NodeName: &node, Pool: resourceapi.ResourcePool{Name: "p", ResourceSliceCount: 1}},
		}
		for i := range devices {
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{
				Name: fmt.Sprintf("d-gpu-%d", i), AllowMultipleAllocations: new(true),
				Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {
					Value: resource.MustParse("80"), RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: new(resource.MustParse("1"))},
				}},
			})
		}
		return viewOf(slice)
	}
	for _, tc := range []struct {
		devices  int
		want     string // count*amount
		possible bool
		steps    int // at most
	}{
		{4, "9*40", false, 10},
		{8, "17*40", false, 20},
		{8, "25*21", false, 30},
		{8, "24*21", true, 60},
		{8, "8*25 8*30 8*28", false, 20},
		{8, "16*10 8*60", true, 150},
		{8, "15*10 1*11 8*60", false, 30},
	} {
		t.Run(fmt.Sprint(tc.devices, " devices ", tc.want), func(t *testing.T) {
			claim := &resourceapi.ResourceClaim{}
			requests := &claim.Spec.Devices.Requests
			for _, part := range strings.Fields(tc.want) {
				var count int
				var amount string
				if _, err := fmt.Sscanf(part, "%d*%s", &count, &amount); err != nil {
					t.Fatal(err)
				}
				for range count {
					*requests = append(*requests, resourceapi.DeviceRequest{
						Name: fmt.Sprint("r", len(*requests)),
						Exactly: &resourceapi.ExactDeviceRequest{
							AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: 1,
							Capacity: &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse(amount)}},
						},
					})
				}
			}
			expect(t, claim, shared(tc.devices), tc.possible, tc.steps)
		})
	}
}
