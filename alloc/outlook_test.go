// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/inventory"
)

// TestOutlook takes devices at random, and back, and compares the outlook with
// what it was, and with one that is made anew.
func TestOutlook(t *testing.T) {
	compared := 0
	for seed := range uint64(1000) {
		w := Generate(SeededBytes(seed), WithAll)
		problem, err := Compile(w.Claims, w.Class, tableMatcher{}, Options{Strategy: Listed, Containers: w.Containers})
		if err != nil {
			t.Fatal(err)
		}
		b := newBoard(problem, w.View())
		if err := b.completeAll(); err != nil {
			t.Fatal(err)
		}
		s := newSearch(b, 1000)
		s.order = natural(len(b.problem.requests))
		for _, r := range s.problem.requests {
			s.state.choose(s.board.fields[r.asks[0].id])
		}
		if len(s.order) == 0 || s.foresee(0, s.state.asks[0].want) {
			continue
		}
		random := rand.New(rand.NewPCG(seed, 11))
		for range 12 {
			before, m := copyDemands(s.state.outlook.demands), s.state.mark()
			for range 1 + random.IntN(4) {
				compared += takeAny(t, s, random)
			}
			if random.IntN(3) > 0 {
				s.state.undo(m)
				if after := copyDemands(s.state.outlook.demands); !reflect.DeepEqual(before, after) {
					t.Fatalf("seed %d: undo does not restore the outlook: %v, was %v", seed, after, before)
				}
			}
		}
	}
	if compared < 4000 {
		t.Errorf("only %d devices were taken", compared)
	}
}

// takeAny takes a device for some ask. A fresh outlook must not promise more than
// the one that was kept up to date.
func takeAny(t *testing.T, s *search, random *rand.Rand) int {
	t.Helper()
	f := s.state.asks[random.IntN(len(s.state.asks))]
	i := random.IntN(max(1, len(s.board.units)))
	if i >= len(s.board.units) || !s.state.open[f.request].has(i) || !s.state.fits(f, i) {
		return 0
	}
	s.takeOpen(0, f, i, 0)
	kept, m := s.state.outlook, s.state.mark()
	s.foresee(0, 0)
	for _, r := range s.order {
		if of, anew := kept.of[r], s.state.outlook.of[r]; anew >= 0 && s.state.outlook.demands[anew].sum > kept.demands[of].sum {
			t.Fatalf("request %d: the outlook says %d, made anew %d", r, kept.demands[of].sum, s.state.outlook.demands[anew].sum)
		}
	}
	s.state.undo(m)
	return 1
}

func copyDemands(demands []demand) []demand {
	all := append([]demand(nil), demands...)
	for i := range all {
		all[i].most = append([]int(nil), all[i].most...)
	}
	return all
}

// nameMatcher selects devices by a part of their names.
type nameMatcher struct{}

func (nameMatcher) Compile(string) error { return nil }

func (nameMatcher) Match(_ Stop, expression string, d *inventory.Device) (bool, uint64, error) {
	return strings.Contains(d.ID.Device, "-"+expression+"-"), 1, nil
}

func (nameMatcher) Derive(Stop, string, *inventory.Device) (*resourceapi.DeviceAttribute, uint64, error) {
	return nil, 0, nil
}

func (nameMatcher) Comparisons(string) ([]inventory.Comparison, bool) { return nil, false }

// cards are partitionable as seven-slice cards with 80 GB are.
func cards(count int) *inventory.View {
	counters := func(start, size, compute int) map[string]resourceapi.Counter {
		c := map[string]resourceapi.Counter{"multiprocessors": {Value: *resource.NewQuantity(int64(compute), resource.DecimalSI)}}
		for k := range size {
			c[fmt.Sprint("memory-slice-", start+k)] = resourceapi.Counter{Value: resource.MustParse("1")}
		}
		return c
	}
	node := "n"
	spec := resourceapi.ResourceSliceSpec{Driver: "d", NodeName: &node, Pool: resourceapi.ResourcePool{Name: "p", Generation: 1, ResourceSliceCount: 2}}
	sets := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "sets"}, Spec: spec}
	devices := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "devices"}, Spec: spec}
	for card := range count {
		set := fmt.Sprint("card", card)
		sets.Spec.SharedCounters = append(sets.Spec.SharedCounters, resourceapi.CounterSet{Name: set, Counters: counters(0, 8, 7)})
		for _, p := range []struct {
			name          string
			size, compute int
			starts        []int
		}{{"1g", 1, 1, []int{0, 1, 2, 3, 4, 5, 6}}, {"1g.20gb", 2, 1, []int{0, 2, 4, 6}}, {"2g", 2, 2, []int{0, 2, 4}}, {"3g", 4, 3, []int{0, 4}}, {"4g", 4, 4, []int{0}}, {"7g", 8, 7, []int{0}}} {
			for _, start := range p.starts {
				devices.Spec.Devices = append(devices.Spec.Devices, resourceapi.Device{
					Name:             fmt.Sprintf("%s-%s-%d", set, p.name, start),
					ConsumesCounters: []resourceapi.DeviceCounterConsumption{{CounterSet: set, Counters: counters(start, p.size, p.compute)}},
				})
			}
		}
	}
	inv := inventory.New()
	inv.SetSlice(sets)
	inv.SetSlice(devices)
	return inv.Snapshot().View(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
}

// TestMixedPartitions asks for partitions of several kinds that all but fill the
// cards, or more than that. In listed order the first ones are in the way of
// those that come last; only an outlook on these saves the search.
func TestMixedPartitions(t *testing.T) {
	for _, tc := range []struct {
		cards    int
		want     string // count*profile, in the order of the requests
		possible bool
		steps    int // at most
	}{
		{8, "12*1g 8*4g", true, 60},
		{8, "12*1g.20gb 8*4g 1*1g.20gb 5*1g", true, 80},
		{8, "10*1g.20gb 5*4g 3*7g", true, 60},
		{5, "12*1g 5*4g", true, 60},
		{8, "1*2g 12*1g.20gb 12*2g 1*7g", true, 80},
		{8, "1*2g 12*1g.20gb 12*2g 2*7g", false, 60},
		{8, "8*3g 8*4g 1*1g", false, 60},
		{8, "9*3g 8*4g", false, 20},
		{5, "10*1g.20gb 6*4g", false, 20},
		{5, "7*2g 7*2g 1*3g 1*1g", true, 60},
		{5, "7*2g 7*2g 2*3g 1*1g", false, 60},
	} {
		t.Run(fmt.Sprint(tc.cards, " cards ", tc.want), func(t *testing.T) {
			claim := &resourceapi.ResourceClaim{}
			for i, part := range strings.Fields(tc.want) {
				var count int64
				var profile string
				if _, err := fmt.Sscanf(part, "%d*%s", &count, &profile); err != nil {
					t.Fatal(err)
				}
				claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, resourceapi.DeviceRequest{
					Name: fmt.Sprint("r", i),
					Exactly: &resourceapi.ExactDeviceRequest{
						AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count,
						Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: profile}}},
					},
				})
			}
			problem, err := Compile([]*resourceapi.ResourceClaim{claim}, func(string) *resourceapi.DeviceClass { return &resourceapi.DeviceClass{} }, nameMatcher{}, Options{Strategy: Listed})
			if err != nil {
				t.Fatal(err)
			}
			out, err := problem.Allocate(cards(tc.cards))
			if err != nil {
				t.Fatal(err)
			}
			if possible := out.Result != nil; possible != tc.possible || out.GaveUp != nil {
				t.Errorf("possible: %t, want %t (gave up: %v)", possible, tc.possible, out.GaveUp)
			}
			if out.Steps > tc.steps {
				t.Errorf("took %d steps, want at most %d", out.Steps, tc.steps)
			}
		})
	}
}
