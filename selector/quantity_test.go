// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

// TestQuantities: what takes a quantity minutes to parse fails at once, wherever the text
// comes from, and all others are as before.
func TestQuantities(t *testing.T) {
	d0 := device("gpu-0", func(d *resourceapi.Device) {
		d.Attributes["size"] = resourceapi.DeviceAttribute{StringValue: ptr("1e-999999999")}
		d.Attributes["few"] = resourceapi.DeviceAttribute{StringValue: ptr("40Gi")}
	})
	const memory = `device.capacity["` + driver + `"].memory`
	const size, few = `device.attributes["` + driver + `"].size`, `device.attributes["` + driver + `"].few`
	for expression, want := range map[string]string{
		memory + `.isGreaterThan(quantity("40Gi"))`:                             "true",
		memory + `.compareTo(quantity(` + few + `).add(quantity("40Gi"))) == 0`: "true",
		`isQuantity("1.5") && isQuantity(` + few + `)`:                          "true",
		`isQuantity("80 GiB") || isQuantity("")`:                                "false",
		`isQuantity("1e-999999999") || isQuantity(` + size + `)`:                "false",
		`quantity("80 GiB").isInteger()`:                                        "quantities must match",
		`quantity("1e-999999999").isGreaterThan(` + memory + `)`:                "want an exponent from -100 to 100",
		`quantity(` + size + `).isGreaterThan(` + memory + `)`:                  "want an exponent from -100 to 100",
		`quantity("1e-9999" + "99999") == ` + memory:                            "want an exponent from -100 to 100",
		`["1", "1e999999999"].all(x, quantity(x).isLessThan(` + memory + `))`:   "want an exponent from -100 to 100",
		`quantity(device.attributes["` + driver + `"].missing).isInteger()`:     "no such key: missing",
	} {
		got := ""
		switch match, _, err := New().Match(nil, expression, d0); {
		case err != nil:
			got = err.Error()
		case match:
			got = "true"
		default:
			got = "false"
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", expression, got, want)
		}
	}
}

// TestQuantitiesCost: an expression costs as much as without the bound.
func TestQuantitiesCost(t *testing.T) {
	const expression = `[1, 2, 3].all(x, quantity("40Gi").isLessThan(device.capacity["` + driver + `"].memory))`
	m := New()
	_, cost, err := m.Match(nil, expression, device("gpu-0", nil))
	if err != nil {
		t.Fatal(err)
	}
	unbound := &program{CompilationResult: m.compile(expression, cel.Options{DisableCostEstimation: true})}
	if a := unbound.evaluate(contextOf(nil), device("gpu-0", nil)); a.err != nil || !a.match || a.cost != cost {
		t.Errorf("costs %d, without the bound %d (%v)", cost, a.cost, a.err)
	}
}
