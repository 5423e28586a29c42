// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package document_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/document"
	"kerf.dev/kerf/dump"
)

// laughs are a billion in eight lines.
func laughs() string {
	var text strings.Builder
	text.WriteString("x0: &x0 [" + strings.Repeat("lol, ", 10) + "]\n")
	for i := range 8 {
		fmt.Fprintf(&text, "x%d: &x%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*x%d, ", i), 10))
	}
	return text.String()
}

func TestReadBounds(t *testing.T) {
	const grows = "aliases (*) make the document more than 10 times as large; write out what they stand for"
	for _, test := range []struct{ name, text, want string }{
		{"a billion laughs", laughs(), "line 2: " + grows},
		{"few aliases of much", "a: &a " + strings.Repeat("x", 1<<20) + "\nb:\n- 1\n" + strings.Repeat("- *a\n", 20), "line 4: " + grows},
		{"an anchor in itself", "a: &a\n  b: *a\n", "line 2: " + grows},
		{"merges", "a: &a {k: " + strings.Repeat("x", 1<<18) + "}\n" + strings.Repeat("? {<<: *a}\n: 1\n", 100), "line 2: " + grows},
		{"deep lists", "a: " + strings.Repeat("[", 500) + strings.Repeat("]", 500), "line 1: has more than 200 values inside of one another; no object needs that"},
		{"deep objects", strings.Repeat(`{"a":`, 500) + "1" + strings.Repeat("}", 500), "line 1: has more than 200 values inside of one another; no object needs that"},
		{"deeper than the parser goes", strings.Repeat("[", 1<<20), "exceeded max depth of 10000"},
		{"twice", "a: 1\na: 2\n", `line 2: key "a" already set in map`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := document.Read([]byte(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func TestReadTakes(t *testing.T) {
	const usual = "a: &a {labels: {x: z}}\nb: *a\nc: {<<: *a, m: 9007199254740993}\n"
	d, err := document.Read([]byte(usual))
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]any{"x": "z"}
	want := map[string]any{"a": map[string]any{"labels": labels}, "b": map[string]any{"labels": labels}, "c": map[string]any{"labels": labels, "m": int64(9007199254740993)}}
	if diff := cmp.Diff(want, d.Content); diff != "" {
		t.Errorf("content (-want +got):\n%s", diff)
	}
	deep := strings.Repeat("[", document.MaxDepth) + strings.Repeat("]", document.MaxDepth)
	if _, err := document.Read([]byte(deep)); err != nil {
		t.Error(err)
	}
}

// In each kind, wherever the API has a quantity, as a text and as a number.
func TestCheck(t *testing.T) {
	for _, test := range []struct {
		name string
		into any
		text string // % is the quantity
		want string // the field, with its line
	}{
		{"capacity", &resourceapi.ResourceSlice{}, "spec:\n  devices:\n  - name: a\n  - name: b\n    capacity:\n      a.b/memory: {value: %}", "line 6: spec.devices[1].capacity[a.b/memory].value"},
		{"policy", &resourceapi.ResourceSlice{}, "spec: {devices: [{capacity: {m: {value: 1, requestPolicy: {default: %}}}}]}", "line 1: spec.devices[0].capacity.m.requestPolicy.default"},
		{"policy's values", &resourceapi.ResourceSlice{}, "spec: {devices: [{capacity: {m: {requestPolicy: {validValues: [1, %]}}}}]}", "line 1: spec.devices[0].capacity.m.requestPolicy.validValues[1]"},
		{"policy's range", &resourceapi.ResourceSlice{}, "spec: {devices: [{capacity: {m: {requestPolicy: {validRange: {min: 1,\n step: %}}}}}]}", "line 2: spec.devices[0].capacity.m.requestPolicy.validRange.step"},
		{"counter", &resourceapi.ResourceSlice{}, "spec: {sharedCounters: [{name: c, counters: {m: {value: %}}}]}", "line 1: spec.sharedCounters[0].counters.m.value"},
		{"draw", &resourceapi.ResourceSlice{}, "spec: {devices: [{consumesCounters: [{counters: {m: {value: %}}}]}]}", "line 1: spec.devices[0].consumesCounters[0].counters.m.value"},
		{"node resource", &resourceapi.ResourceSlice{}, "spec: {devices: [{nodeAllocatableResources: {cpu: {mapping: {deviceMultiplier: %}}}}]}", "line 1: spec.devices[0].nodeAllocatableResources.cpu.mapping.deviceMultiplier"},
		{"request", &resourceapi.ResourceClaim{}, "spec: {devices: {requests: [{exactly: {capacity: {requests: {m: %}}}}]}}", "line 1: spec.devices.requests[0].exactly.capacity.requests.m"},
		{"alternative", &resourceapi.ResourceClaimTemplate{}, "spec: {spec: {devices: {requests: [{firstAvailable: [{capacity: {requests: {m: %}}}]}]}}}", "line 1: spec.spec.devices.requests[0].firstAvailable[0].capacity.requests.m"},
		{"consumed", &resourceapi.ResourceClaim{}, "status: {allocation: {devices: {results: [{consumedCapacity: {m: %}}]}}}", "line 1: status.allocation.devices.results[0].consumedCapacity.m"},
		{"allocatable", &v1.Node{}, "status:\n  allocatable:\n    example.com/gpu: %", "line 3: status.allocatable[example.com/gpu]"},
		{"limit", &v1.Pod{}, "spec: {containers: [{resources: {limits: {example.com/gpu: %}}}]}", "line 1: spec.containers[0].resources.limits[example.com/gpu]"},
		{"pod's own", &v1.Pod{}, "spec: {overhead: {cpu: %}}", "line 1: spec.overhead.cpu"},
		{"volume", &v1.Pod{}, "spec: {volumes: [{emptyDir: {sizeLimit: %}}]}", "line 1: spec.volumes[0].emptyDir.sizeLimit"},
		{"fabric", &v1alpha1.Fabric{}, "spec: {models: [{capacity: {memory: %}}]}", "line 1: spec.models[0].capacity.memory"},
		{"dump", &dump.Dump{}, "resourceSlices:\n- spec:\n    sharedCounters: [{counters: {m: {value: %}}}]", "line 3: resourceSlices[0].spec.sharedCounters[0].counters.m.value"},
		{"spelt otherwise", &v1.Node{}, "Status: {ALLOCATABLE: {cpu: %}}", "line 1: Status.ALLOCATABLE.cpu"},
		{"aliased", &v1.Pod{}, "a: &a %\nspec: {overhead: {cpu: *a}}", "line 2: spec.overhead.cpu"},
		{"merged", &v1.Pod{}, "a: &a {cpu: %}\nspec: {overhead: {<<: *a}}", "line 2: spec.overhead.cpu"},
		{"only looks like one", &v1.Pod{}, "metadata: {name: %, labels: {a: %}}\nspec: {nodeName: %}", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, amount := range []string{"1e-999999999", `"1e-999999999"`, "'1e999999999'", "1e999999999", "1" + strings.Repeat("0", 200), `"` + strings.Repeat("9", 200) + `"`} {
				got, text := "", strings.ReplaceAll(test.text, "%", amount)
				err := document.Check([]byte(text), test.into)
				if fault := (*document.Fault)(nil); errors.As(err, &fault) {
					got = fmt.Sprintf("line %d: %s", fault.Line, fault.Field)
				} else if err != nil {
					t.Fatal(err)
				}
				if got != test.want {
					t.Errorf("%s: fault at %q, want %q (%v)", amount, got, test.want, err)
				}
			}
			if err := document.Check([]byte(strings.ReplaceAll(test.text, "%", "80Gi")), test.into); err != nil {
				t.Errorf("80Gi: %v", err)
			}
		})
	}
}
