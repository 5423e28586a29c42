// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"errors"
	"testing"
)

// FuzzExpression: whatever the expression, nothing panics, an expression that
// does not compile does not match, and every other error is a RuntimeError.
func FuzzExpression(f *testing.F) {
	for _, seed := range []string{
		"", "true", "device", "device.driver", `device.attributes["gpu.example.com"].model`, `device.attributes["gpu.example.com"].links.map(l, l + l)`,
		`device.capacity["gpu.example.com"].memory.asInteger()`, `[1, 2].all(i, [1].exists(j, i / j == 0))`, `cel.bind(x, device, x.driver)`,
		`quantity("1e100").isGreaterThan(device.capacity["gpu.example.com"].memory)`, `semver("1.2.3")`, `{1: 2}[3]`, `"\u00e9".matches("(")`,
		`[[[[device.driver]]]]`, `type(device)`, `optional.none().value()`, `9223372036854775807 + 1 == 0`, `device.attributes.map(d, d)[5]`,
	} {
		f.Add(seed)
	}
	m, d := New(), device("gpu-0", nil)
	f.Fuzz(func(t *testing.T, expression string) {
		check := func(compile, evaluate error) {
			t.Helper()
			var runtime *RuntimeError
			switch {
			case compile != nil && (evaluate == nil || evaluate.Error() != compile.Error()):
				t.Errorf("compile says %v, evaluation %v", compile, evaluate)
			case compile == nil && evaluate != nil && !errors.As(evaluate, &runtime):
				t.Errorf("%v is no run-time error", evaluate)
			}
		}
		match, _, err := m.Match(nil, expression, d)
		check(m.Compile(expression), err)
		if match && err != nil {
			t.Errorf("a match with the error %v", err)
		}
		attribute, _, err := m.Derive(nil, expression, d)
		check(m.CompileDerived(expression), err)
		if (attribute == nil) != (err != nil) {
			t.Errorf("attribute %v with the error %v", attribute, err)
		}
	})
}
