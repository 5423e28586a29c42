// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// halves is a pool of a card and its two halves: counter 40, full draws 40,
// each half 20.
func halves() []*resourceapi.ResourceSlice {
	node := "n1"
	slice := func(name string) *resourceapi.ResourceSlice {
		return &resourceapi.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: resourceapi.ResourceSliceSpec{
				Driver: "d", Pool: resourceapi.ResourcePool{Name: "p", ResourceSliceCount: 2}, NodeName: &node,
			},
		}
	}
	counters := slice("counters")
	counters.Spec.SharedCounters = []resourceapi.CounterSet{{
		Name: "card", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse("40")}},
	}}
	devices := slice("devices")
	for _, d := range []struct{ name, memory string }{{"full", "40"}, {"half-a", "20"}, {"half-b", "20"}} {
		devices.Spec.Devices = append(devices.Spec.Devices, resourceapi.Device{
			Name: d.name,
			ConsumesCounters: []resourceapi.DeviceCounterConsumption{{
				CounterSet: "card", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse(d.memory)}},
			}},
		})
	}
	return []*resourceapi.ResourceSlice{counters, devices}
}

func hold(device, claim string) Hold {
	h := Hold{Device: DeviceID{Driver: "d", Pool: "p", Device: device}}
	if claim != "" {
		h.Holder = Holder{Namespace: "ns", Claim: claim, UID: types.UID(claim)}
	}
	return h
}

func share(device, claim, id string, memory string) Hold {
	h := hold(device, claim)
	h.ShareID = types.UID(id)
	h.Consumed = map[resourceapi.QualifiedName]Amount{"memory": AmountOf(resource.MustParse(memory))}
	return h
}

func bareShare(device, claim, id string) Hold {
	h := hold(device, claim)
	h.ShareID = types.UID(id)
	return h
}

// TestWhatIf compares the view that WhatIf gives with that of an inventory in
// which the change was made.
func TestWhatIf(t *testing.T) {
	for name, tc := range map[string]struct {
		// holds by owner.
		holds        map[string][]Hold
		freed, taken []Hold
		want         map[string][]Hold
	}{
		"free a device": {
			holds: map[string][]Hold{"a": {hold("half-a", "a")}, "b": {hold("half-b", "b")}},
			freed: []Hold{hold("half-a", "a")},
			want:  map[string][]Hold{"b": {hold("half-b", "b")}},
		},
		"free what somebody else holds": {
			holds: map[string][]Hold{"a": {hold("half-a", "a")}},
			freed: []Hold{hold("half-a", "b")},
			want:  map[string][]Hold{"a": {hold("half-a", "a")}},
		},
		"free what is free": {
			freed: []Hold{hold("half-a", "a")},
		},
		"free what somebody unknown holds": {
			holds: map[string][]Hold{"x": {hold("half-a", "")}},
			freed: []Hold{hold("half-a", "a")},
		},
		"one of two holders of an over-allocated device": {
			holds: map[string][]Hold{"a": {hold("full", "a")}, "b": {hold("full", "b")}},
			freed: []Hold{hold("full", "a")},
			want:  map[string][]Hold{"b": {hold("full", "b")}},
		},
		"one of two shares": {
			holds: map[string][]Hold{"a": {share("full", "a", "1", "4")}, "b": {share("full", "b", "2", "6")}},
			freed: []Hold{share("full", "a", "1", "4")},
			want:  map[string][]Hold{"b": {share("full", "b", "2", "6")}},
		},
		"a share of a dedicated device": {
			holds: map[string][]Hold{"a": {hold("full", "a")}},
			freed: []Hold{share("full", "a", "1", "4")},
			want:  map[string][]Hold{"a": {hold("full", "a")}},
		},
		"a share of which nothing is known to be taken": {
			holds: map[string][]Hold{"a": {bareShare("full", "a", "1")}, "b": {bareShare("full", "b", "2")}},
			freed: []Hold{share("full", "a", "1", "4")},
			want:  map[string][]Hold{"b": {bareShare("full", "b", "2")}},
		},
		"take a device": {
			holds: map[string][]Hold{"a": {hold("half-a", "a")}},
			taken: []Hold{hold("half-b", "b")},
			want:  map[string][]Hold{"a": {hold("half-a", "a")}, "b": {hold("half-b", "b")}},
		},
		"take what does not exist": {
			taken: []Hold{hold("third", "b")},
		},
		"free and take": {
			holds: map[string][]Hold{"a": {hold("half-a", "a")}},
			freed: []Hold{hold("half-a", "a")},
			taken: []Hold{hold("full", "b")},
			want:  map[string][]Hold{"b": {hold("full", "b")}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			view := viewWith(tc.holds)
			before := *view.Pools[0].Use
			got := view.WhatIf(tc.freed, tc.taken)
			if diff := cmp.Diff(viewWith(tc.want).Pools[0].Use, got.Pools[0].Use, cmp.AllowUnexported(Amount{})); diff != "" {
				t.Errorf("unexpected use (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, *viewWith(tc.holds).Pools[0].Use, cmp.AllowUnexported(Amount{})); diff != "" {
				t.Errorf("the view changed:\n%s", diff)
			}
		})
	}
}

// TestWhatIfGone: a device that is not published any more gives nothing back,
// for what it drew is not part of a view.
func TestWhatIfGone(t *testing.T) {
	view := viewWith(map[string][]Hold{"a": {hold("third", "a")}})
	got := view.WhatIf([]Hold{hold("third", "a")}, nil).Pools[0].Use
	if len(got.Gone) != 0 || !got.Closed[0] {
		t.Errorf("got gone %v, closed %v; want none gone, the counter set still closed", got.Gone, got.Closed)
	}
	if len(view.Pools[0].Use.Gone) != 1 {
		t.Error("the view changed")
	}
}

func viewWith(holds map[string][]Hold) *View {
	inv := New()
	slices := halves()
	inv.SyncSlices(slices)
	for owner, h := range holds {
		inv.SetHolds(owner, h)
	}
	return inv.Snapshot().View(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
}
