// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/cel"

	"kerf.dev/kerf/inventory"
)

const driver = "gpu.example.com"

func ptr[T any](v T) *T { return &v }

type attributes = map[resourceapi.QualifiedName]resourceapi.DeviceAttribute

// device makes a device of pool n1; change may be nil.
func device(name string, change func(*resourceapi.Device)) *inventory.Device {
	spec := &resourceapi.Device{
		Name: name,
		Attributes: attributes{
			"model":                           {StringValue: ptr("a100")},
			"driverVersion":                   {VersionValue: ptr("12.4.0")},
			"index":                           {IntValue: ptr(int64(3))},
			"ecc":                             {BoolValue: ptr(true)},
			"links":                           {StringValues: []string{"l0", "l1"}},
			"resource.kubernetes.io/pcieRoot": {StringValue: ptr("pci0000:01")},
		},
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			"memory": {Value: resource.MustParse("80Gi")},
		},
	}
	if change != nil {
		change(spec)
	}
	return &inventory.Device{ID: inventory.DeviceID{Driver: driver, Pool: "n1", Device: name}, Spec: spec}
}

// counted returns a Matcher that counts how often it evaluates and compiles.
func counted() (m *Matcher, compiled *int) {
	m, compiled = New(), new(int)
	compile := m.compile
	m.compile = func(expression string, o cel.Options) cel.CompilationResult {
		*compiled++
		return compile(expression, o)
	}
	return m, compiled
}

func (m *Matcher) remembered() int {
	n := 0
	for _, shard := range m.answers {
		n += shard.Len()
	}
	return n
}

func TestMatch(t *testing.T) {
	for expression, want := range map[string]bool{
		`true`:                               true,
		`device.driver == "gpu.example.com"`: true,
		`device.driver == "nic.example.com"`: false,
		`device.attributes["gpu.example.com"].model == "a100"`:                                    true,
		`device.attributes["gpu.example.com"].index > 3`:                                          false,
		`device.attributes["gpu.example.com"].ecc`:                                                true,
		`device.attributes["gpu.example.com"].driverVersion.compareTo(semver("12.3.9")) > 0`:      true,
		`device.attributes["resource.kubernetes.io"].pcieRoot.startsWith("pci")`:                  true,
		`"l1" in device.attributes["gpu.example.com"].links`:                                      true,
		`device.attributes["gpu.example.com"].links.includes("l2")`:                               false,
		`device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0`:              true,
		`device.allowMultipleAllocations`:                                                         false,
		`device.attributes["x.example.com"].size() == 0`:                                          true, // unknown domains are empty maps
		`has(device.attributes["x.example.com"].none) && device.attributes["x.example.com"].none`: false,
		`device.attributes["gpu.example.com"].?none.orValue("") == ""`:                            true,
		`cel.bind(gpu, device.attributes["gpu.example.com"], gpu.model == "a100" && gpu.ecc)`:     true,
	} {
		got, _, err := New().Match(nil, expression, device("gpu-0", nil))
		if got != want || err != nil {
			t.Errorf("%s: got %v, %v, want %v", expression, got, err, want)
		}
	}
}

func TestSharedDevice(t *testing.T) {
	shared := device("gpu-0", func(d *resourceapi.Device) { d.AllowMultipleAllocations = ptr(true) })
	if got, _, err := New().Match(nil, `device.allowMultipleAllocations`, shared); !got || err != nil {
		t.Errorf("got %v, %v, want a match", got, err)
	}
}

func TestDerive(t *testing.T) {
	for expression, want := range map[string]*resourceapi.DeviceAttribute{
		`device.attributes["gpu.example.com"].index / 2`:     {IntValue: ptr(int64(1))},
		`device.attributes["gpu.example.com"].model + "-x"`:  {StringValue: ptr("a100-x")},
		`device.attributes["gpu.example.com"].links`:         {StringValues: []string{"l0", "l1"}},
		`device.attributes["gpu.example.com"].driverVersion`: {VersionValue: ptr("12.4.0")},
		`device.attributes["gpu.example.com"].index == 3`:    {BoolValue: ptr(true)},
		`[4, 5 - 1]`: {IntValues: []int64{4, 4}},
	} {
		got, _, err := New().Derive(nil, expression, device("gpu-0", nil))
		if err != nil {
			t.Errorf("%s: %v", expression, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", expression, diff)
		}
	}
}

// A selector and a derived attribute may be the same text.
func TestSelectorIsNotDerivedAttribute(t *testing.T) {
	const expression = `"text"`
	m := New()
	if attribute, _, err := m.Derive(nil, expression, device("gpu-0", nil)); err != nil || *attribute.StringValue != "text" {
		t.Errorf("derive: got %v, %v", attribute, err)
	}
	if err := m.CompileDerived(expression); err != nil {
		t.Errorf("compile as derived attribute: %v", err)
	}
	if _, _, err := m.Match(nil, expression, device("gpu-0", nil)); err == nil {
		t.Error("match: a selector of type string was accepted")
	}
	if err := m.Compile(expression); err == nil {
		t.Error("compile: a selector of type string was accepted")
	}
	if err := m.CompileDerived(`device`); err == nil {
		t.Error("compile: a derived attribute of type object was accepted")
	}
}

func TestCompileError(t *testing.T) {
	m, compiled := counted()
	for _, expression := range []string{
		``, `device.`, `device.attribute`, `42`, `device.name == "gpu-0"`, `device.driver == 7`, "\x00", `"` + strings.Repeat("é", 100) + `"`,
		strings.Repeat("(", 5000), "true" + strings.Repeat(" && true", 2000),
		"true" + strings.Repeat(" ", resourceapi.CELSelectorExpressionMaxLength),
	} {
		err := m.Compile(expression)
		if err == nil {
			t.Errorf("%.40q: accepted", expression)
			continue
		}
		var runtime *RuntimeError
		if errors.As(err, &runtime) {
			t.Errorf("%.40q: a run-time error: %v", expression, err)
		}
		before := *compiled
		if _, _, again := m.Match(nil, expression, device("gpu-0", nil)); again == nil || again.Error() != err.Error() {
			t.Errorf("%.40q: compile says %v, match %v", expression, err, again)
		}
		if *compiled != before {
			t.Errorf("%.40q: the failure was not remembered", expression)
		}
	}
	if m.remembered() != 0 {
		t.Errorf("%d answers of expressions that do not compile", m.remembered())
	}
}

func TestRuntimeError(t *testing.T) {
	m := New()
	for _, tc := range []struct{ expression, missing, text string }{
		{`device.attributes["gpu.example.com"].flavor == "x"`, "flavor", "no such key: flavor. consider using CEL optional chaining"},
		{`device.attributes["x.example.com"]["model"] == "x"`, "model", "no such key: model"},
		{`device.capacity["gpu.example.com"].disk.isGreaterThan(quantity("1Gi"))`, "disk", "no such key: disk"},
		{`device.attributes["gpu.example.com"].index / 0 == 1`, "", "division by zero"},
		{`device.attributes["gpu.example.com"].index.startsWith("x")`, "", "no such overload"},
		{`device.attributes["gpu.example.com"].model`, "", "CEL result of type string could not be converted to bool"},
	} {
		for _, name := range []string{"gpu-0", "gpu-1"} { // the second answer is a remembered one
			match, _, err := m.Match(nil, tc.expression, device(name, nil))
			var runtime *RuntimeError
			if match || !errors.As(err, &runtime) {
				t.Errorf("%s: got %v, %v, want a run-time error", tc.expression, match, err)
				continue
			}
			if runtime.Device.String() != "gpu.example.com/n1/"+name || runtime.MissingKey() != tc.missing {
				t.Errorf("%s on %s: device %s misses %q, want %q", tc.expression, name, runtime.Device, runtime.Missing, tc.missing)
			}
			if !strings.HasPrefix(err.Error(), tc.text) {
				t.Errorf("%s: error %q does not begin with %q", tc.expression, err, tc.text)
			}
		}
	}
	if got, want := m.remembered(), 6; got != want {
		t.Errorf("%d answers are remembered, want %d", got, want)
	}
	if _, _, err := m.Derive(nil, `device.attributes["gpu.example.com"].flavor`, device("gpu-0", nil)); err == nil {
		t.Error("derive: no error for a missing attribute")
	}
}

// CEL walks through attributes in any order; the error is always the first by name.
func TestMalformedVersion(t *testing.T) {
	broken := device("gpu-0", func(d *resourceapi.Device) {
		for i := range 10 {
			d.Attributes[resourceapi.QualifiedName(fmt.Sprintf("v%d", i))] = resourceapi.DeviceAttribute{VersionValue: ptr("1.2")}
		}
		d.Attributes["list"] = resourceapi.DeviceAttribute{VersionValues: []string{"1.0.0", "x"}}
	})
	const want = `attribute list: version "x": No Major.Minor.Patch elements found`
	for range 20 {
		if match, _, err := New().Match(nil, "true", broken); match || err == nil || err.Error() != want {
			t.Fatalf("got %v, %v, want error %q", match, err, want)
		}
	}
}

// Expressions are bounded by cost, not by time.
func TestCostLimit(t *testing.T) {
	const costly = `s.matches(r)` // costs the product of two lengths
	expression := fmt.Sprintf(`cel.bind(s, %q, cel.bind(r, %q, %s || %s))`, strings.Repeat("a", 4900), strings.Repeat("b", 4900), costly, costly)
	match, _, err := New().Match(nil, expression, device("gpu-0", nil))
	if match || err == nil || !strings.Contains(err.Error(), "cost limit exceeded") {
		t.Errorf("got %v, %v, want the cost limit to be exceeded", match, err)
	}
}

// Devices that are published again, and equal devices elsewhere, share answers;
// only what an expression can see counts.
func TestAnswersAreShared(t *testing.T) {
	const expression = `device.attributes["gpu.example.com"].model == "a100"`
	m, compiled := counted()
	ask := func(d *inventory.Device) {
		t.Helper()
		if _, _, err := m.Match(nil, expression, d); err != nil {
			t.Fatal(err)
		}
	}
	ask(device("gpu-0", nil))
	ask(device("gpu-0", nil))
	ask(device("gpu-7", func(d *resourceapi.Device) { d.Taints = []resourceapi.DeviceTaint{{Key: "k"}} }))
	elsewhere := device("gpu-0", nil)
	elsewhere.ID.Pool = "n2"
	ask(elsewhere)
	if *compiled != 1 || m.remembered() != 1 {
		t.Errorf("compiled %d times for %d answers, want 1 and 1", *compiled, m.remembered())
	}
	for _, different := range []func(*resourceapi.Device){
		func(d *resourceapi.Device) {
			d.Attributes["model"] = resourceapi.DeviceAttribute{StringValue: ptr("h100")}
		},
		func(d *resourceapi.Device) {
			d.Capacity["memory"] = resourceapi.DeviceCapacity{Value: resource.MustParse("40Gi")}
		},
		func(d *resourceapi.Device) { d.AllowMultipleAllocations = ptr(true) },
	} {
		before := m.remembered()
		ask(device("gpu-0", different))
		if m.remembered() != before+1 {
			t.Error("a different device shares an answer")
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	m := New()
	small := newCache[question, answer](2)
	for i := range m.answers {
		m.answers[i] = small
	}
	m.programs = newCache[source, *program](2)
	for round := range 3 {
		for i := range 10 {
			expression := fmt.Sprintf(`device.attributes["gpu.example.com"].index == %d`, i)
			if got, _, err := m.Match(nil, expression, device("gpu-0", nil)); err != nil || got != (i == 3) {
				t.Errorf("round %d: %s: got %v, %v", round, expression, got, err)
			}
		}
	}
	if small.Len() != 2 || m.programs.Len() != 2 {
		t.Errorf("%d answers and %d programs are remembered, want 2 and 2", small.Len(), m.programs.Len())
	}
}

func TestConcurrentUse(t *testing.T) {
	m := New()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 200 {
				expression := fmt.Sprintf(`device.attributes["gpu.example.com"].index == %d`, i%7)
				if got, _, err := m.Match(nil, expression, device(fmt.Sprint("gpu-", i), nil)); err != nil || got != (i%7 == 3) {
					t.Errorf("%s: got %v, %v", expression, got, err)
				}
			}
		})
	}
	wg.Wait()
}

// published returns the device as a snapshot has it.
func published(b *testing.B, d *inventory.Device) *inventory.Device {
	b.Helper()
	inv := inventory.New()
	inv.SetSlice(&resourceapi.ResourceSlice{Spec: resourceapi.ResourceSliceSpec{
		Driver:   d.ID.Driver,
		Pool:     resourceapi.ResourcePool{Name: d.ID.Pool, ResourceSliceCount: 1},
		AllNodes: ptr(true),
		Devices:  []resourceapi.Device{*d.Spec},
	}})
	pool, _ := inv.Snapshot().Pool(d.ID.PoolID())
	return pool.Devices[0]
}

const benchmarked = `device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].model == "a100"`

// BenchmarkHit is the usual case: the same expression on the same device again.
func BenchmarkHit(b *testing.B) {
	m, d := New(), published(b, device("gpu-0", nil))
	for b.Loop() {
		if match, _, err := m.Match(nil, benchmarked, d); !match || err != nil {
			b.Fatal(match, err)
		}
	}
}

// BenchmarkEvaluation is a device that was not seen before.
func BenchmarkEvaluation(b *testing.B) {
	m, d := New(), published(b, device("gpu-0", nil))
	p := m.program(source{expression: benchmarked})
	for b.Loop() {
		if a := p.evaluate(context.Background(), d); !a.match {
			b.Fatal(a.err)
		}
	}
}

// TestBothSpellings: what a device publishes with the driver's domain and without counts
// with it, whatever the order of the map.
func TestBothSpellings(t *testing.T) {
	both := func(d *resourceapi.Device) {
		d.Attributes[driver+"/model"] = resourceapi.DeviceAttribute{StringValue: ptr("h100")}
		d.Attributes[driver+"/broken"] = resourceapi.DeviceAttribute{VersionValue: ptr("1.2.3")}
		d.Attributes["broken"] = resourceapi.DeviceAttribute{VersionValue: ptr("no version")}
		d.Capacity[driver+"/memory"] = resourceapi.DeviceCapacity{Value: resource.MustParse("96Gi")}
	}
	for range 50 {
		m := New() // without a memory
		for expression, want := range map[string]bool{
			`device.attributes["gpu.example.com"].model == "h100"`:                                 true,
			`device.attributes["gpu.example.com"].model == "a100"`:                                 false,
			`device.capacity["gpu.example.com"].memory.compareTo(quantity("96Gi")) == 0`:           true,
			`device.attributes["gpu.example.com"].broken.isGreaterThan(semver("1.0.0"))`:           true,
			`size(device.attributes["gpu.example.com"]) == 6 && device.driver == "` + driver + `"`: true,
		} {
			if got, _, err := m.Match(nil, expression, device("d", both)); got != want || err != nil {
				t.Fatalf("%s is %v, %v, want %v", expression, got, err, want)
			}
		}
		a, _, err := m.Derive(nil, `device.attributes["gpu.example.com"].model`, device("d", both))
		if err != nil || *a.StringValue != "h100" {
			t.Fatalf("derived %v, %v, want h100", a, err)
		}
	}
}
