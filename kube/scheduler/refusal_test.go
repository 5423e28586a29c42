// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/explain"
)

// ofDriver returns a slice of another driver.
func ofDriver(name string, slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	slice.Name += "-" + name
	slice.Spec.Driver = name
	return slice
}

// incomplete returns the slice as one of two.
func incomplete(slice *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	slice.Spec.Pool.ResourceSliceCount = 2
	return slice
}

func TestRefusals(t *testing.T) {
	broken := newClass()
	broken.Name = "broken"
	broken.Spec.Selectors[0].CEL.Expression = "nonsense"
	for name, tc := range map[string]struct {
		objects []runtime.Object
		change  func(*resourceapi.ResourceClaim)
		// atPreFilter is set where all nodes are refused at once.
		atPreFilter bool
		wantCode    fwk.Code
		want        string
		// wantEvent is part of the event of PostFilter, empty where there is
		// none.
		wantEvent string
	}{
		"no device": {
			wantCode: fwk.UnschedulableAndUnresolvable, want: "cannot allocate all claims", wantEvent: "1 cannot allocate all claims: r: needs 1 device",
		},
		"no device of the class": {
			objects:  []runtime.Object{ofDriver("other.example.com", newSlice("n1", newDevice("d1")))},
			wantCode: fwk.UnschedulableAndUnresolvable, want: "cannot allocate all claims", wantEvent: "1 cannot allocate all claims: r:",
		},
		"too few": {
			objects:  []runtime.Object{newSlice("n1", newDevice("d1"))},
			change:   func(c *resourceapi.ResourceClaim) { c.Spec.Devices.Requests[0].Exactly.Count = 2 },
			wantCode: fwk.UnschedulableAndUnresolvable, want: "cannot allocate all claims: r: needs 2 devices, 1 matches",
		},
		"all taken": {
			objects:  []runtime.Object{newSlice("n1", newDevice("d1")), allocated(newClaim("other"), "n1", "d1")},
			wantCode: fwk.Unschedulable, want: "cannot allocate all claims: r: needs 1 device, none of 1 that matches is left: 1 in use",
		},
		"enough taken, but too few in all": {
			objects:  []runtime.Object{newSlice("n1", newDevice("d1")), allocated(newClaim("other"), "n1", "d1")},
			change:   func(c *resourceapi.ResourceClaim) { c.Spec.Devices.Requests[0].Exactly.Count = 2 },
			wantCode: fwk.UnschedulableAndUnresolvable, want: "cannot allocate all claims: r: needs 2 devices",
		},
		"invalid pool": {
			objects:  []runtime.Object{newSlice("n1", newDevice("d1"), newDevice("d1"))},
			wantCode: fwk.UnschedulableAndUnresolvable, want: "invalid resource pools were encountered", wantEvent: "pool gpu.example.com/n1 offers nothing: device name d1 published twice",
		},
		"invalid pool of another driver": {
			objects:  []runtime.Object{ofDriver("other.example.com", newSlice("n1", newDevice("d1"), newDevice("d1")))},
			wantCode: fwk.UnschedulableAndUnresolvable, want: "cannot allocate all claims", wantEvent: "1 cannot allocate all claims: r:",
		},
		"incomplete pool": {
			objects:  []runtime.Object{incomplete(newSlice("n1", newDevice("d1")))},
			wantCode: fwk.UnschedulableAndUnresolvable, want: "1 of 2 slices",
		},
		"missing class": {
			change:      func(c *resourceapi.ResourceClaim) { c.Spec.Devices.Requests[0].Exactly.DeviceClassName = "nope" },
			atPreFilter: true,
			wantCode:    fwk.UnschedulableAndUnresolvable, want: `device class "nope" does not exist`,
		},
		"invalid class": {
			objects:     []runtime.Object{broken},
			change:      func(c *resourceapi.ResourceClaim) { c.Spec.Devices.Requests[0].Exactly.DeviceClassName = "broken" },
			atPreFilter: true,
			wantCode:    fwk.UnschedulableAndUnresolvable, want: "device class broken",
		},
	} {
		t.Run(name, func(t *testing.T) {
			claim := newClaim("c")
			if tc.change != nil {
				tc.change(claim)
			}
			r := newRig(t, "", append([]runtime.Object{newClass(), claim}, tc.objects...)...)
			c := r.cycle(newPod("p", "c"))
			got := c.preFilter()
			if !tc.atPreFilter {
				r.succeed("PreFilter", got)
				got = c.filter("n1")
			}
			if got.Code() != tc.wantCode || !strings.Contains(got.Message(), tc.want) {
				t.Errorf("got %s: %q, want %s: %q", got.Code(), got.Message(), tc.wantCode, tc.want)
			}
			if strings.Contains(tc.want, noDevices) && tc.wantEvent != "" && got.Message() != tc.want {
				t.Errorf("got %q, want exactly the line of DynamicResources", got.Message())
			}
			r.succeed("PostFilter", postFilter(c))
			select {
			case event := <-r.recorder.Events:
				if tc.wantEvent == "" || !strings.HasPrefix(event, "Warning DevicesUnavailable ") || !strings.Contains(event, tc.wantEvent) {
					t.Errorf("got event %q, want %q", event, tc.wantEvent)
				}
			default:
				if tc.wantEvent != "" {
					t.Errorf("got no event, want %q", tc.wantEvent)
				}
			}
		})
	}
}

// postFilter returns success where PostFilter has nothing to do.
func postFilter(c *cycle) *fwk.Status {
	if _, status := c.plugin.PostFilter(c.ctx, c.state, c.pod, nil); status.Code() != fwk.Unschedulable {
		return status
	}
	return nil
}

// TestGaveUp: the budget of steps ends the search, which says so.
func TestGaveUp(t *testing.T) {
	claim := newClaim("c")
	claim.Spec.Devices.Requests[0].Exactly.Count = 2
	r := newRig(t, `{"stepBudget":1}`, newClass(), newSlice("n1", newDevice("d1"), newDevice("d2")), claim)
	c := r.cycle(newPod("p", "c"))
	r.succeed("PreFilter", c.preFilter())
	got := c.filter("n1")
	if got.Code() != fwk.UnschedulableAndUnresolvable || !strings.Contains(got.Message(), "gave up after 1 step") {
		t.Errorf("got %s: %q", got.Code(), got.Message())
	}
}

// TestSameLineForNodesInTheSameSituation: the framework counts equal lines.
func TestSameLineForNodesInTheSameSituation(t *testing.T) {
	r := newRig(t, "", newClass(), newClaim("c"),
		newSlice("n1", newDevice("d1")), newSlice("n2", newDevice("d1")),
		allocated(newClaim("x"), "n1", "d1"), allocated(newClaim("y"), "n2", "d1"))
	c := r.cycle(newPod("p", "c"))
	r.succeed("PreFilter", c.preFilter())
	if diff := cmp.Diff(c.filter("n1").Message(), c.filter("n2").Message()); diff != "" {
		t.Errorf("the lines differ:\n%s", diff)
	}
}

// TestLongEvent: the API limits the note of an event.
func TestLongEvent(t *testing.T) {
	r := newRig(t, "")
	a := &attempt{common: &common{refused: map[string]*refused{
		"n1": {status: fwk.NewStatus(fwk.Unschedulable, noDevices), line: noDevices, cause: explain.Because(strings.Repeat("ä", maxNote))},
	}}}
	r.plugin.refusals.tellRefusals(r.plugin.logger, a, newPod("p"))
	note, _ := strings.CutPrefix(<-r.recorder.Events, "Warning DevicesUnavailable ")
	if len(note) > maxNote || !strings.HasSuffix(note, "ä…") {
		t.Errorf("got a note of %d bytes that ends in %q", len(note), note[len(note)-8:])
	}
}
