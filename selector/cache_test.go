// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"testing"

	"k8s.io/dynamic-resource-allocation/cel"
)

// TestWithCache evaluates through a cache that is too small to be of use: the
// Matcher remembers what it compiled.
func TestWithCache(t *testing.T) {
	m, compiled := WithCache(cel.NewCache(1, cel.Features{})), 0
	compile := m.compile
	m.compile = func(expression string, o cel.Options) cel.CompilationResult {
		compiled++
		return compile(expression, o)
	}
	d := device("gpu-0", nil)
	for range 3 {
		if ok, _, err := m.Match(nil, `device.driver == "gpu.example.com"`, d); !ok || err != nil {
			t.Errorf("match: %t, %v", ok, err)
		}
		if err := m.Compile(`device.driver`); err == nil {
			t.Error("a selector that is a text compiles")
		}
		got, _, err := m.Derive(nil, `device.attributes["gpu.example.com"].model + "-x"`, d)
		if err != nil || got == nil || got.StringValue == nil || *got.StringValue != "a100-x" {
			t.Errorf("derive: %v, %v", got, err)
		}
	}
	if compiled != 3 {
		t.Errorf("compiled %d times, want once for each of 3 expressions", compiled)
	}
}
