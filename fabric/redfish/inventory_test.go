// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kerf.dev/kerf/fabric"
	"kerf.dev/kerf/fabric/redfish/description"
)

func TestInventory(t *testing.T) {
	config := shelf()
	config.Blocks[1].Host = "host-a"
	r := newRig(t, config)
	got, err := r.Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := r.service.Sees("host-a")[0]
	machine := fabric.Machine{Ref: systems + "host-a", Name: "host-a", HostName: "host-a", Zones: []string{zones + "left", zones + "right"}}
	want := fabric.Device{
		Ref: blocks + "gpu-4", Kind: "PCIeDevice", Manufacturer: "Acme", Model: "Net",
		SerialNumber: seen.SerialNumber, UUID: seen.UUID, Zones: []string{zones + "right"}, Machine: machine.Ref, Healthy: true,
	}
	if diff := cmp.Diff(want, got.Devices[3]); diff != "" || want.UUID == "" || want.SerialNumber == "" {
		t.Errorf("device (-want +got):\n%s", diff)
	}
	machine.UUID, machine.SerialNumber = got.Machines[0].UUID, got.Machines[0].SerialNumber
	if diff := cmp.Diff(machine, got.Machines[0]); diff != "" || machine.UUID == "" || machine.SerialNumber == "" {
		t.Errorf("machine (-want +got):\n%s", diff)
	}
	gpu := got.Devices[0]
	if gpu.Kind != "Processor" || gpu.MemoryMiB != 40960 || gpu.PartNumber != "p-1" || gpu.Machine != "" {
		t.Errorf("free processor: %+v", gpu)
	}
	if len(got.Machines) != 2 || len(got.Devices) != 4 {
		t.Errorf("got %d machines and %d devices, want 2 and 4: the blocks of hosts are no devices", len(got.Machines), len(got.Devices))
	}
	if diff := cmp.Diff([]string{zones + "left"}, got.Machines[1].Zones); diff != "" {
		t.Errorf("zones of host-b (-want +got):\n%s", diff)
	}
}

// TestInventoryOfEveryService reads the same from services that can do more or less.
func TestInventoryOfEveryService(t *testing.T) {
	all := []string{description.FeatureActions, description.FeatureActionInfo, description.FeatureExpand, description.FeatureETags, description.FeatureReserve}
	var want fabric.Inventory
	for i, tc := range []struct {
		name    string
		without []string
		page    int
	}{
		{name: "everything"},
		{name: "pages", page: 2},
		{name: "no expand", without: []string{description.FeatureExpand}},
		{name: "no expand, pages", without: []string{description.FeatureExpand}, page: 1},
		{name: "no ETags", without: []string{description.FeatureETags}},
		{name: "processors without identity", without: []string{description.FeatureProcessorIdentity}},
		{name: "processors without identity, no expand", without: []string{description.FeatureProcessorIdentity, description.FeatureExpand}},
		{name: "nothing", without: all, page: 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			config := shelf()
			config.Without, config.PageSize = tc.without, tc.page
			r := newRig(t, config)
			for range 2 { // The second time from memory.
				got, err := r.Inventory(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					want = got
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("inventory (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestMachinesWithoutBlocksAreInAllZones(t *testing.T) {
	config := shelf()
	config.Without = []string{description.FeatureHostBlocks}
	got, err := newRig(t, config).Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range got.Machines {
		if diff := cmp.Diff([]string{zones + "left", zones + "right"}, m.Zones); diff != "" {
			t.Errorf("%s (-want +got):\n%s", m.Name, diff)
		}
	}
}

// TestInventoryCost counts requests, with 300 devices and 4 hosts.
func TestInventoryCost(t *testing.T) {
	for _, tc := range []struct {
		name                      string
		without                   []string
		first, again, afterAttach int
	}{
		{name: "expand", first: 3, again: 3, afterAttach: 3},
		// A collection is a request, as is each of 304 blocks, 4 systems, 1 zone and, if unknown, 300 processors.
		{name: "no expand", without: []string{description.FeatureExpand}, first: 3 + 309 + 300, again: 3 + 309, afterAttach: 3 + 309 + 1},
		// The processor and behind it the PCIe device.
		{name: "identity behind the processor", without: []string{description.FeatureProcessorIdentity}, first: 3 + 300, again: 3, afterAttach: 3 + 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, description.Config{
				Hosts:   []description.Host{{ID: "host-a"}, {ID: "host-b"}, {ID: "host-c"}, {ID: "host-d"}},
				Blocks:  []description.Block{{ID: "gpu", Count: 300}},
				Without: append(tc.without, description.FeatureReserve),
			})
			inventory := func() int {
				r.service.ResetStats()
				if _, err := r.Inventory(t.Context()); err != nil {
					t.Fatal(err)
				}
				return r.service.Stats().Total
			}
			// The login and the layout are read once, in four requests.
			if got, want := inventory(), tc.first+4; got != want {
				t.Errorf("the first inventory took %d requests, want %d", got, want)
			}
			if got := inventory(); got != tc.again {
				t.Errorf("the second inventory took %d requests, want %d", got, tc.again)
			}
			r.want("attach", says(r.attach("gpu-7", "host-a")), "Done")
			if got := inventory(); got != tc.afterAttach {
				t.Errorf("the inventory after an attach took %d requests, want %d", got, tc.afterAttach)
			}
			if r.maxAtOnce > 4 {
				t.Errorf("%d requests were going on at once, want 4 at most", r.maxAtOnce)
			}
		})
	}
}

// TestInventoryWhereExpandFails falls back where the service says that it can expand, and cannot.
func TestInventoryWhereExpandFails(t *testing.T) {
	r := newRig(t, shelf())
	r.intercepting(func(w http.ResponseWriter, q *http.Request) bool {
		expand := q.URL.Query().Has("$expand")
		if expand {
			http.Error(w, "what is that?", http.StatusBadRequest)
		}
		return expand
	})
	r.want("gpu-1", r.at("gpu-1"), "free")
	r.service.ResetStats()
	r.intercepting(func(_ http.ResponseWriter, q *http.Request) bool {
		if q.URL.Query().Has("$expand") {
			t.Errorf("%s: expanded again", q.URL)
		}
		return false
	})
	r.want("gpu-1", r.at("gpu-1"), "free")
}

// TestExpandAsTheServiceCan asks for no more than the service says that it can do.
func TestExpandAsTheServiceCan(t *testing.T) {
	for _, tc := range []struct{ can, want string }{
		{`{"NoLinks": true, "Levels": true, "MaxLevels": 6}`, ".($levels=2)"},
		{`{"NoLinks": true, "Levels": true, "MaxLevels": 1}`, ".($levels=1)"},
		{`{"NoLinks": true}`, "."},
		{`{"ExpandAll": true, "Levels": true, "MaxLevels": 2}`, "*($levels=2)"},
		{`{"Links": true}`, ""},
	} {
		t.Run(tc.can, func(t *testing.T) {
			r := newRig(t, shelf())
			got := ""
			r.intercepting(func(w http.ResponseWriter, q *http.Request) bool {
				if strings.HasSuffix(q.URL.Path, "/ResourceBlocks") {
					got = q.URL.Query().Get("$expand")
				}
				if q.URL.Path != "/redfish/v1/" {
					return false
				}
				_, _ = fmt.Fprintf(w, `{"Systems": {"@odata.id": "/redfish/v1/Systems"}, "CompositionService": {"@odata.id": "/redfish/v1/CompositionService"},
					"Links": {"Sessions": {"@odata.id": "/redfish/v1/SessionService/Sessions"}},
					"ProtocolFeaturesSupported": {"ExpandQuery": %s}}`, tc.can)
				return true
			})
			d := r.device("gpu-1")
			r.want("$expand", got, tc.want)
			if d.UUID == "" {
				t.Error("the device has no identity")
			}
		})
	}
}

func TestBlockOfSeveralDevicesHasNoIdentity(t *testing.T) {
	r := newRig(t, shelf())
	r.intercepting(func(w http.ResponseWriter, q *http.Request) bool {
		if q.Method != http.MethodGet || !strings.HasSuffix(q.URL.Path, "/ResourceBlocks") {
			return false
		}
		_, _ = fmt.Fprint(w, `{"Members": [{"@odata.id": "`+blocks+`tray", "ResourceBlockType": ["Processor"], "Status": {"State": "Enabled"},
			"Processors": [{"@odata.id": "/p/1", "UUID": "u1", "Model": "A100", "ProcessorMemory": [{"CapacityMiB": 100}]},
			               {"@odata.id": "/p/2", "UUID": "u2", "Model": "A100", "ProcessorMemory": [{"CapacityMiB": 100}]}]}]}`)
		return true
	})
	if d := r.device("tray"); d.UUID != "" || d.Model != "A100" || d.MemoryMiB != 200 || !d.Healthy {
		t.Errorf("got %+v, want the model, 200 MiB and no identity", d)
	}
}

func TestInventoryErrors(t *testing.T) {
	for _, tc := range []struct{ name, path, body, want string }{
		{"no JSON", "/Systems", "nonsense", "/redfish/v1/Systems"},
		{"no identity", "/Systems", `{"Members": [{}]}`, "has no @odata.id"},
		{"a page that follows itself", "/Systems", `{"Members": [], "Members@odata.nextLink": "/redfish/v1/Systems"}`, "follows itself"},
		{"a property of the wrong type", "/ResourceBlocks", `{"Members": [{"@odata.id": "/b/1", "Status": 7}]}`, "resource block /b/1"},
		{"no fabric manager", "/redfish/v1/", `{}`, "no CompositionService"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, shelf())
			r.intercepting(func(w http.ResponseWriter, q *http.Request) bool {
				if !strings.HasSuffix(q.URL.Path, tc.path) {
					return false
				}
				body := tc.body
				if tc.path == "/redfish/v1/" { // The login needs it too.
					body = `{"Links": {"Sessions": {"@odata.id": "/redfish/v1/SessionService/Sessions"}}}`
				}
				_, _ = fmt.Fprint(w, body)
				return true
			})
			_, err := r.Inventory(t.Context())
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), r.server.URL) {
				t.Errorf("got %v, want an error with %q and the endpoint", err, tc.want)
			}
		})
	}
}

// TestBlockThatGoesWhileItIsRead is a member of the collection that is gone when it is asked for.
func TestBlockThatGoesWhileItIsRead(t *testing.T) {
	config := shelf()
	config.Without = []string{description.FeatureExpand}
	r := newRig(t, config)
	r.intercepting(func(w http.ResponseWriter, q *http.Request) bool {
		gone := strings.HasSuffix(q.URL.Path, "/ResourceBlocks/gpu-2")
		if gone {
			http.NotFound(w, q)
		}
		return gone
	})
	got, err := r.Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(got.Devices, func(d fabric.Device) bool { return d.Ref == blocks+"gpu-2" }) || len(got.Devices) != 3 {
		t.Errorf("got %d devices, want the other three", len(got.Devices))
	}
}

// TestDeviceThatCannotBeRead has the processor of one block fail: the others are there, and it is not healthy unless it
// is known from before.
func TestDeviceThatCannotBeRead(t *testing.T) {
	config := shelf()
	config.Without = []string{description.FeatureExpand}
	for _, answer := range []func(http.ResponseWriter){
		func(w http.ResponseWriter) { http.Error(w, "it burns", http.StatusInternalServerError) },
		func(w http.ResponseWriter) { _, _ = fmt.Fprint(w, "nonsense") },
	} {
		r := newRig(t, config)
		breakIt := func(w http.ResponseWriter, q *http.Request) bool {
			broken := strings.HasSuffix(q.URL.Path, "/gpu-2/Processors/1")
			if broken {
				answer(w)
			}
			return broken
		}
		r.intercepting(breakIt)
		r.want("gpu-1", r.at("gpu-1"), "free")
		r.want("gpu-2", r.at("gpu-2"), "free unhealthy")
		r.intercepting(nil)
		r.want("gpu-2", r.at("gpu-2"), "free")
		before := r.device("gpu-2")
		r.want("attach", says(r.attach("gpu-2", "host-a")), "Done")
		r.intercepting(breakIt)
		before.Machine = systems + "host-a"
		if diff := cmp.Diff(before, r.device("gpu-2")); diff != "" || before.UUID == "" {
			t.Errorf("gpu-2 after it was attached (-want +got):\n%s", diff)
		}
	}
}

func TestInventoryOfABusyService(t *testing.T) {
	r := newRig(t, shelf())
	r.fault(description.Fault{Kind: description.FaultBusy, Operation: description.OperationRead, RetryAfter: description.Duration(7e9), Nth: 4})
	_, err := r.Inventory(t.Context())
	r.want("inventory", says(fabric.Operation{}, err), "busy")
	checkRetryAfter(t, err, 7e9)
	r.want("gpu-1", r.at("gpu-1"), "free")
}

func TestInventoryOfAVanishedDevice(t *testing.T) {
	config := shelf()
	config.Blocks[1].Host = "host-a"
	r := newRig(t, config)
	if err := r.service.Vanish("gpu-4"); err != nil {
		t.Fatal(err)
	}
	r.want("gpu-4", r.at("gpu-4"), "host-a unhealthy")
	r.want("attach", says(r.attach("gpu-4", "host-b")), "refused")
}

func TestTimeout(t *testing.T) {
	config := shelf()
	config.Latency.Request = description.Duration(1e9)
	r := newRig(t, config)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := r.Inventory(ctx)
		done <- err
	}()
	if err := r.clock.AwaitTimers(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "context canceled") {
		t.Errorf("got %v, want that the context was cancelled", err)
	}
}
