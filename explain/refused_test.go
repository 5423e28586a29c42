// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"kerf.dev/kerf/explain"
)

const pcieRoot = "resource.kubernetes.io/pcieRoot"

func pools(s ...*resourceapi.ResourceSlice) []*resourceapi.ResourceSlice { return s }

// gpus makes n devices; attributes may be nil.
func gpus(n int, attributes func(i int) []string) *resourceapi.ResourceSlice {
	p := pool("gpu")
	for i := range n {
		var of []string
		if attributes != nil {
			of = attributes(i)
		}
		p.Spec.Devices = append(p.Spec.Devices, device(fmt.Sprint("gpu-", i), of...))
	}
	return p
}

func numbered(name string, n int) []resourceapi.Device {
	var devices []resourceapi.Device
	for i := range n {
		devices = append(devices, device(fmt.Sprint(name, "-", i)))
	}
	return devices
}

// holding makes claims hold the first n GPUs.
func holding(n int, holder func(i int) string) map[string]string {
	taken := map[string]string{}
	for i := range n {
		taken[fmt.Sprint("gpu-", i)] = holder(i)
	}
	return taken
}

func tainted(d resourceapi.Device, taints ...resourceapi.DeviceTaint) resourceapi.Device {
	d.Taints = taints
	return d
}

func taint(key string) resourceapi.DeviceTaint {
	return resourceapi.DeviceTaint{Key: key, Value: "yes", Effect: resourceapi.DeviceTaintEffectNoSchedule}
}

func sized(d resourceapi.Device, memory string) resourceapi.Device {
	d.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse(memory)}}
	return d
}

func incomplete(s *resourceapi.ResourceSlice) *resourceapi.ResourceSlice {
	s.Spec.Pool.ResourceSliceCount = 2
	return s
}

// second is a request with another name.
func second(r resourceapi.DeviceRequest) resourceapi.DeviceRequest {
	r.Name = "second"
	return r
}

func withCapacity(r resourceapi.DeviceRequest, memory string) resourceapi.DeviceRequest {
	r.Exactly.Capacity = &resourceapi.CapacityRequirements{
		Requests: map[resourceapi.QualifiedName]resource.Quantity{"memory": resource.MustParse(memory)},
	}
	return r
}

// partition takes memory out of the card.
func partition(name, memory string) resourceapi.Device {
	d := device(name)
	d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{
		CounterSet: "card-0", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse(memory)}},
	}}
	return d
}

// card is a pool of partitions of a card of 40Gi.
func card(partitions ...resourceapi.Device) []*resourceapi.ResourceSlice {
	counters, devices := pool("gpu"), pool("gpu", partitions...)
	counters.Name = "counters"
	counters.Spec.SharedCounters = []resourceapi.CounterSet{{
		Name: "card-0", Counters: map[string]resourceapi.Counter{"memory": {Value: resource.MustParse("40Gi")}},
	}}
	counters.Spec.Pool.ResourceSliceCount, devices.Spec.Pool.ResourceSliceCount = 2, 2
	return pools(counters, devices)
}

var refused = map[string]cluster{
	"nothing in common": {
		slices: pools(
			pool("gpu", device("gpu0", pcieRoot, "A"), device("gpu1", pcieRoot, "B")),
			pool("nic", device("nic0", pcieRoot, "B"), device("nic1", pcieRoot, "C")),
		),
		claim: matching(claim(request("gpu", 1), request("nic", 1)), pcieRoot),
		taken: map[string]string{"gpu1": "ns/x"},
	},
	"attribute under another name": {
		slices: pools(
			pool("gpu", device("gpu0", "pcieRoot", "A"), device("gpu1", "pcieRoot", "B")),
			pool("nic", device("nic0", pcieRoot, "B"), device("nic1", pcieRoot, "C")),
		),
		claim: matching(claim(request("gpu", 1), request("nic", 1)), pcieRoot),
	},
	"more than there are": {slices: pools(gpus(31, nil)), claim: claim(request("gpu", 32))},
	"too many in use": {
		slices: pools(gpus(64, nil)), claim: claim(request("gpu", 32)),
		taken: holding(33, func(i int) string { return fmt.Sprint("ns/c", i/8) }),
	},
	"groups too small": {
		slices: pools(gpus(20, func(i int) []string { return []string{"numa", fmt.Sprint(i / 5)} })),
		claim:  matching(claim(request("gpu", 6)), "gpu.example.com/numa"),
	},
	"not enough values": {
		slices: pools(gpus(12, func(i int) []string { return []string{"x", fmt.Sprint(i % 4)} })),
		claim: &resourceapi.ResourceClaim{Spec: resourceapi.ResourceClaimSpec{Devices: resourceapi.DeviceClaim{
			Requests:    []resourceapi.DeviceRequest{request("gpu", 12)},
			Constraints: []resourceapi.DeviceConstraint{{DistinctAttribute: ptr(resourceapi.FullyQualifiedName("gpu.example.com/x"))}},
		}}},
	},
	"all but one is taken":     {slices: pools(gpus(3, nil)), claim: claim(request("gpu", 0)), taken: map[string]string{"gpu-1": "ns/c"}},
	"all but one is tainted":   {slices: pools(pool("gpu", device("gpu-0"), tainted(device("gpu-1"), taint("dirty")))), claim: claim(request("gpu", 0))},
	"all of nothing":           {slices: pools(gpus(3, nil)), claim: claim(request("nic", 0))},
	"all of too many":          {slices: pools(gpus(33, nil)), claim: claim(request("gpu", 0))},
	"no devices":               {claim: claim(request("gpu", 2))},
	"selector matches nothing": {slices: pools(gpus(3, nil)), claim: claim(withSelector(request("gpu", 1), "false"))},
	"selector reads what is not there": {
		slices: pools(gpus(3, func(int) []string { return []string{"other.example.com/model", "a100"} })),
		claim:  claim(withSelector(request("gpu", 1), `device.attributes["gpu.example.com"].model == "a100"`)),
	},
	"selector fails on devices of other drivers, too": {
		slices: pools(pool("card", numbered("card", 2)...), gpus(2, func(int) []string { return []string{"other.example.com/model", "a100"} }), pool("nic", numbered("nic", 2)...)),
		claim:  claim(withSelector(request("any", 1), `device.attributes["gpu.example.com"].model == "a100"`)),
	},
	"almost enough memory": {
		slices: pools(pool("gpu", sized(device("gpu-0"), "38Gi"), sized(device("gpu-1"), "10Gi"))),
		claim:  claim(withSelector(request("gpu", 1), `device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0`)),
	},
	"counters": {
		slices: card(partition("whole", "40Gi"), partition("half", "20Gi")),
		claim:  claim(request("gpu", 1)), taken: map[string]string{"half": "ns/b"},
	},
	"counters of several": {
		slices: card(partition("whole", "40Gi"), partition("half-a", "20Gi"), partition("half-b", "20Gi")),
		claim:  claim(request("gpu", 3)),
	},
	"taints": {
		slices: pools(pool("gpu", tainted(device("gpu-0"), taint("dirty")), tainted(device("gpu-1"), taint("hot"), taint("dirty")))),
		claim:  claim(request("gpu", 2)),
	},
	"alternatives": {
		slices: pools(gpus(3, nil)),
		claim: claim(resourceapi.DeviceRequest{Name: "acc", FirstAvailable: []resourceapi.DeviceSubRequest{
			{Name: "big", DeviceClassName: "gpu", Count: 4}, {Name: "small", DeviceClassName: "nic", Count: 1},
		}}),
	},
	"alternatives with too many": {
		slices: pools(gpus(50, nil)),
		claim: claim(resourceapi.DeviceRequest{Name: "acc", FirstAvailable: []resourceapi.DeviceSubRequest{
			{Name: "many", DeviceClassName: "gpu", Count: 40}, {Name: "other", DeviceClassName: "nic", Count: 100},
		}}),
	},
	"alternatives for all": {
		slices: pools(gpus(3, nil), pool("big", numbered("big", 33)...)),
		claim: claim(resourceapi.DeviceRequest{Name: "acc", FirstAvailable: []resourceapi.DeviceSubRequest{
			{Name: "many", DeviceClassName: "big", AllocationMode: resourceapi.DeviceAllocationModeAll},
			{Name: "some", DeviceClassName: "gpu", Count: 4},
			{Name: "all", DeviceClassName: "gpu", AllocationMode: resourceapi.DeviceAllocationModeAll},
		}}),
		taken: holding(1, func(int) string { return "ns/x" }),
	},
	"alternatives and a constraint": {
		slices: pools(gpus(4, func(i int) []string { return []string{"numa", fmt.Sprint(i % 2)} })),
		claim: matching(claim(resourceapi.DeviceRequest{Name: "acc", FirstAvailable: []resourceapi.DeviceSubRequest{
			{Name: "big", DeviceClassName: "gpu", Count: 5}, {Name: "small", DeviceClassName: "gpu", Count: 3},
		}}), "gpu.example.com/numa"),
	},
	"pool incomplete": {
		slices: pools(incomplete(gpus(3, nil)), pool("nic", device("nic-0"))),
		claim:  claim(request("gpu", 1)),
	},
	"all waits for a pool": {slices: pools(incomplete(gpus(3, nil))), claim: claim(request("gpu", 0))},
	"groups too small together": {
		slices: pools(
			gpus(4, func(i int) []string { return []string{pcieRoot, []string{"A", "A", "A", "B"}[i]} }),
			pool("nic", device("nic0", pcieRoot, "A"), device("nic1", pcieRoot, "B"), device("nic2", pcieRoot, "B")),
		),
		claim: matching(claim(request("gpu", 2), request("nic", 2)), pcieRoot),
	},
	"many with nothing in common": {
		slices: pools(
			gpus(8, func(i int) []string { return []string{pcieRoot, []string{"A", "B"}[i%2]} }),
			pool("nic", device("nic0", pcieRoot, "C")),
		),
		claim: matching(claim(request("gpu", 1), request("nic", 1)), pcieRoot),
	},
	"two of three in use": {
		slices: pools(gpus(3, nil)), claim: claim(request("gpu", 3)),
		taken: holding(2, func(i int) string { return fmt.Sprint("ns/c", i) }),
	},
	"same devices":                 {slices: pools(gpus(3, nil)), claim: claim(request("gpu", 2), second(request("gpu", 2)))},
	"more than a claim may have":   {slices: pools(gpus(40, nil)), claim: claim(request("gpu", 20), second(request("gpu", 20)))},
	"more than any claim may have": {slices: pools(gpus(50, nil)), claim: claim(request("gpu", 40))},
	"capacity": {
		slices: pools(pool("gpu", sized(device("gpu-0"), "38Gi"), device("gpu-1"))),
		claim:  claim(withCapacity(request("gpu", 1), "40Gi")),
	},
}

var update = flag.Bool("update", false, "rewrite the golden files")

// TestRefused has the reason and the details of real refusals in one file, for
// reading: testdata/refused.txt.
func TestRefused(t *testing.T) {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		refusal, o := refused[name].refuse(t)
		reason := explain.Reason(refusal, o)
		if len(reason) > 300 || strings.Contains(reason, "\n") {
			t.Errorf("%s: not a short line: %q", name, reason)
		}
		fmt.Fprintf(&b, "# %s\n%s\n---\n%s\n", name, reason, explain.Details(refusal, o))
	}
	golden(t, "refused.txt", b.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), rewrite with -update:\n%s", path, diff)
	}
}
