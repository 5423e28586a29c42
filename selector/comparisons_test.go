// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"fmt"
	"strings"
	"testing"

	"kerf.dev/kerf/inventory"
)

// comparisonText is "gpu.example.com/memory >= 16Gi", with capacity before a capacity.
func comparisonText(c *inventory.Comparison) string {
	var values []string
	for _, v := range c.Values {
		values = append(values, v.String())
	}
	text := fmt.Sprintf("%s %s %s", c.Name, c.Operator, strings.Join(values, "|"))
	if c.Capacity {
		return "capacity " + text
	}
	return text
}

func TestComparisons(t *testing.T) {
	const attributes, capacity = `device.attributes["gpu.example.com"]`, `device.capacity["gpu.example.com"]`
	for _, test := range []struct {
		expression string
		want       []string
		complete   bool
	}{
		{attributes + `.model == "a100"`, []string{"gpu.example.com/model == a100"}, true},
		{attributes + `["model"] != 'a100'`, []string{"gpu.example.com/model != a100"}, true},
		{`"a100" == ` + attributes + `.model`, []string{"gpu.example.com/model == a100"}, true},
		{`device.attributes["x.example.com"].cores >= 100`, []string{"x.example.com/cores >= 100"}, true},
		{`100 < ` + attributes + `.cores`, []string{"gpu.example.com/cores > 100"}, true},
		{attributes + `.cores <= -1`, []string{"gpu.example.com/cores <= -1"}, true},
		{attributes + `.mig`, []string{"gpu.example.com/mig == true"}, true},
		{`!` + attributes + `.mig`, []string{"gpu.example.com/mig == false"}, true},
		{attributes + `.model in ["a100", "h100"]`, []string{"gpu.example.com/model == a100|h100"}, true},
		{attributes + `.model in []`, nil, false},
		{capacity + `.memory.compareTo(quantity("16Gi")) >= 0`, []string{"capacity gpu.example.com/memory >= 16Gi"}, true},
		{`0 < ` + capacity + `.memory.compareTo(quantity("16Gi"))`, []string{"capacity gpu.example.com/memory > 16Gi"}, true},
		{capacity + `.memory.compareTo(quantity("16Gi")) >= 1`, nil, false},
		{capacity + `.memory.isGreaterThan(quantity("16Gi"))`, []string{"capacity gpu.example.com/memory > 16Gi"}, true},
		{capacity + `.memory.isLessThan(quantity("16Gi"))`, []string{"capacity gpu.example.com/memory < 16Gi"}, true},
		{capacity + `.memory == quantity("16Gi")`, []string{"capacity gpu.example.com/memory == 16Gi"}, true},
		{attributes + `.driverVersion.compareTo(semver("1.2.3")) >= 0`, []string{"gpu.example.com/driverVersion >= 1.2.3"}, true},
		{attributes + `.driverVersion.isLessThan(semver("2.0.0"))`, []string{"gpu.example.com/driverVersion < 2.0.0"}, true},
		{`device.driver == "gpu.example.com" && ` + attributes + `.cores >= 4 && (` + attributes + `.mig && true)`,
			[]string{"gpu.example.com/cores >= 4", "gpu.example.com/mig == true"}, false},
		{attributes + `.cores >= 4 || ` + attributes + `.mig`, nil, false},
		{`has(` + attributes + `.mig)`, nil, false},
		{attributes + `.?cores.orValue(0) > 3`, nil, false},
		{attributes + `.cores + 1 > 3`, nil, false},
		{attributes + `.cores == ` + attributes + `.other`, nil, false},
		{`cel.bind(a, ` + attributes + `, a.cores > 3)`, nil, false},
		{capacity + `.memory.compareTo(quantity("1e-" + "999999999")) >= 0`, nil, false},
		{capacity + `.memory.compareTo(quantity("1e-999999999")) >= 0`, nil, false},
		{`device.other["gpu.example.com"].model == "a100"`, nil, false},
		{strings.Repeat(attributes+`.cores >= 4 && `, 20) + `true`, []string{
			"gpu.example.com/cores >= 4", "gpu.example.com/cores >= 4", "gpu.example.com/cores >= 4", "gpu.example.com/cores >= 4",
			"gpu.example.com/cores >= 4", "gpu.example.com/cores >= 4", "gpu.example.com/cores >= 4", "gpu.example.com/cores >= 4",
		}, false},
		{`not CEL`, nil, false},
	} {
		comparisons, complete := New().Comparisons(test.expression)
		var got []string
		for i := range comparisons {
			got = append(got, comparisonText(&comparisons[i]))
		}
		if strings.Join(got, "; ") != strings.Join(test.want, "; ") || complete != test.complete {
			t.Errorf("%s: got %q (complete: %t), want %q (%t)", test.expression, got, complete, test.want, test.complete)
		}
	}
}

// TestComparisonsAgree: a device meets the comparisons of an expression exactly where
// CEL says that it matches.
func TestComparisonsAgree(t *testing.T) {
	d := device("gpu-0", nil)
	m := New()
	compared := 0
	for _, operator := range []string{"==", "!=", "<", "<=", ">", ">="} {
		for _, operands := range []string{
			`device.attributes["gpu.example.com"].model %s "a100"`, `device.attributes["gpu.example.com"].model %s "b"`,
			`device.attributes["gpu.example.com"].index %s 3`, `device.attributes["gpu.example.com"].index %s 10`, `2 %s device.attributes["gpu.example.com"].index`,
			`device.attributes["gpu.example.com"].index %s "3"`, `device.attributes["gpu.example.com"].none %s 1`, `device.attributes["x.example.com"].index %s 3`,
			`device.attributes["gpu.example.com"].ecc %s true`, `device.attributes["gpu.example.com"].ecc %s false`, `device.attributes["gpu.example.com"].links %s "l0"`,
			`device.attributes["resource.kubernetes.io"].pcieRoot %s "pci0000:01"`,
			`device.attributes["gpu.example.com"].driverVersion.compareTo(semver("9.9.0")) %s 0`, `device.attributes["gpu.example.com"].driverVersion.compareTo(semver("12.4.0")) %s 0`,
			`device.capacity["gpu.example.com"].memory.compareTo(quantity("81920Mi")) %s 0`, `0 %s device.capacity["gpu.example.com"].memory.compareTo(quantity("81G"))`,
		} {
			expression := fmt.Sprintf(operands, operator)
			comparisons, complete := m.Comparisons(expression)
			if len(comparisons) != 1 || !complete {
				if m.Compile(expression) == nil {
					t.Errorf("%s is not understood", expression)
				}
				continue
			}
			compared++
			if match, _, err := m.Match(nil, expression, d); match != comparisons[0].Met(d) {
				t.Errorf("%s: CEL says %t (%v), the comparison %t", expression, match, err, !match)
			}
		}
	}
	if compared < 50 {
		t.Errorf("only %d expressions were compared", compared)
	}
}
