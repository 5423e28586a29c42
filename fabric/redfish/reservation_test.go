// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish_test

import (
	"net/http"
	"testing"

	"kerf.dev/kerf/fabric"
	"kerf.dev/kerf/fabric/redfish/description"
	"kerf.dev/kerf/fabric/redfish/service"
)

func TestReservedBySomebodyElse(t *testing.T) {
	config := shelf()
	config.Blocks[1].Reserved = true
	r := newRig(t, config)
	r.want("inventory", r.at("gpu-4"), "free reserved")
	r.want("attach", says(r.attach("gpu-4", "host-a")), "refused")
	r.want("detach", says(r.detach("gpu-4", "host-a")), "Done")
	if !r.kept("gpu-4") {
		t.Error("somebody else's reservation is gone")
	}
}

// TestSomebodyElseIsFaster reserves, or attaches, between our reading the block and reserving it.
func TestSomebodyElseIsFaster(t *testing.T) {
	for _, tc := range []struct {
		name   string
		meddle func(*service.Service) error
		want   string
	}{
		{"reserves", func(s *service.Service) error { return s.Reserve("gpu-1", true) }, "free reserved"},
		{"attaches", func(s *service.Service) error { return s.Compose("gpu-1", "host-b") }, "host-b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, shelf())
			r.intercepting(func(_ http.ResponseWriter, q *http.Request) bool {
				if q.Method == http.MethodPatch {
					if err := tc.meddle(r.service); err != nil {
						t.Error(err)
					}
				}
				return false
			})
			r.want("attach", says(r.attach("gpu-1", "host-a")), "refused")
			r.want("inventory", r.at("gpu-1"), tc.want)
		})
	}
}

// TestMeddledAfterReserve has somebody else attach the device, or end our reservation, between our reserving it and
// adding it. Of the latter only the ETag among the action's parameters tells.
func TestMeddledAfterReserve(t *testing.T) {
	for _, tc := range []struct {
		name   string
		meddle func(*service.Service) error
		want   string
	}{
		{"attaches", func(s *service.Service) error { return s.Compose("gpu-1", "host-b") }, "host-b"},
		{"ends the reservation", func(s *service.Service) error { return s.Reserve("gpu-1", false) }, "free"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, shelf())
			r.intercepting(func(_ http.ResponseWriter, q *http.Request) bool {
				if q.Method == http.MethodPost && q.URL.Path == systems+"host-a/Actions/ComputerSystem.AddResourceBlock" {
					if err := tc.meddle(r.service); err != nil {
						t.Error(err)
					}
				}
				return false
			})
			r.want("attach", says(r.attach("gpu-1", "host-a")), "refused")
			r.want("inventory", r.at("gpu-1"), tc.want)
		})
	}
}

func TestFaultsOfTheReservation(t *testing.T) {
	for _, tc := range []struct {
		fault description.Fault
		says  string
	}{
		{description.Fault{Kind: description.FaultBusy}, "busy"},
		{description.Fault{Kind: description.FaultRefused}, "refused"},
		{description.Fault{Kind: description.FaultRefused, Status: 405}, "Done"},
		{description.Fault{Kind: description.FaultLostRequest}, "unknown outcome"},
		{description.Fault{Kind: description.FaultLostReply}, "unknown outcome"},
	} {
		t.Run(string(tc.fault.Kind)+" "+tc.says, func(t *testing.T) {
			r := newRig(t, shelf())
			tc.fault.Operation = description.OperationReserve
			r.fault(tc.fault)
			r.want("attach", says(r.attach("gpu-1", "host-a")), tc.says)
			if tc.says == "Done" {
				return
			}
			r.want("inventory", r.at("gpu-1"), "free")
			if r.kept("gpu-1") {
				t.Error("gpu-1 is reserved after the inventory has shown it free")
			}
			r.want("attach again", says(r.attach("gpu-1", "host-a")), "Done")
		})
	}
}

// TestNotUndone cannot give the reservation back after a refusal, so "nothing was done" would be a lie.
func TestNotUndone(t *testing.T) {
	r := newRig(t, shelf())
	r.fault(description.Fault{Kind: description.FaultRefused})
	r.fault(description.Fault{Kind: description.FaultBusy, Operation: description.OperationRelease, Times: 2})
	r.want("attach", says(r.attach("gpu-1", "host-a")), "unknown outcome")
	r.want("inventory that cannot give it back", r.at("gpu-1"), "free busy")
	r.want("inventory that can", r.at("gpu-1"), "free")
	if r.kept("gpu-1") {
		t.Error("gpu-1 is still reserved")
	}
}

// TestReservationOfACrashedManager has the next Manager find what the last one left.
func TestReservationOfACrashedManager(t *testing.T) {
	for _, tc := range []struct {
		name string
		ours func(fabric.DeviceRef) bool
		want string
	}{
		{"ours", func(d fabric.DeviceRef) bool { return d == blocks+"gpu-1" }, "free"},
		{"not ours", func(fabric.DeviceRef) bool { return false }, "free reserved"},
		{"cannot tell", nil, "free reserved"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, shelf())
			r.fault(description.Fault{Kind: description.FaultLostRequest})
			r.want("attach", says(r.attach("gpu-1", "host-a")), "unknown outcome")
			r.options.Ours = tc.ours
			r.connect()
			r.want("inventory", r.at("gpu-1"), tc.want)
			if got, want := r.kept("gpu-1"), tc.want != "free"; got != want {
				t.Errorf("reserved is %v, want %v", got, want)
			}
		})
	}
	t.Run("attach without an inventory", func(t *testing.T) {
		r := newRig(t, shelf())
		r.fault(description.Fault{Kind: description.FaultLostRequest})
		r.want("attach", says(r.attach("gpu-1", "host-a")), "unknown outcome")
		r.want("attach again", says(r.attach("gpu-1", "host-a")), "Done")
	})
}

// TestReservationThatChangesHands was ours, was cleared by hand, and is another's now.
func TestReservationThatChangesHands(t *testing.T) {
	r := newRig(t, shelf())
	r.want("attach", says(r.attach("gpu-1", "host-a")), "Done")
	for _, step := range []error{r.service.Compose("gpu-1", ""), r.service.Reserve("gpu-1", false)} {
		if step != nil {
			t.Fatal(step)
		}
	}
	r.want("inventory", r.at("gpu-1"), "free")
	if err := r.service.Reserve("gpu-1", true); err != nil {
		t.Fatal(err)
	}
	r.want("inventory", r.at("gpu-1"), "free reserved")
}
