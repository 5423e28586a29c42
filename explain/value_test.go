// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/inventory"
)

func TestValue(t *testing.T) {
	for value, want := range map[string]string{
		"a100":                             "a100",
		"0000:8a:00.0":                     "0000:8a:00.0",
		"1.2.0-rc1+b7":                     "1.2.0-rc1+b7",
		"":                                 `""`,
		"A100 80GB":                        `"A100 80GB"`,
		"a\x1b[31mRED\n\nFAKE: all fine\r": `"a\x1b[31mRED\n\nFAKE: all fine\r"`,
		"evil, 9 of 9 free); held by kube-system/x": `"evil, 9 of 9 free); held by kube-system/x"`,
		`a" there; "b`:                               `"a\" there; \"b"`,
		"\u202egnitset":                              `"\u202egnitset"`,
		strings.Repeat("a", 65):                      strings.Repeat("a", 64) + "…",
		strings.Repeat("a", 63) + "é":                strings.Repeat("a", 63) + "…",
		strings.Repeat(" ", 64) + "held by somebody": `"` + strings.Repeat(" ", 64) + `"…`,
	} {
		if got := explain.Value(value); got != want {
			t.Errorf("%q: got %s, want %s", value, got, want)
		}
	}
}

// TestAmount: what is written is the amount.
func TestAmount(t *testing.T) {
	for text, want := range map[string]string{
		"42949672960":              "40Gi",
		"40e9":                     "40G",
		"0.5":                      "500m",
		"9223372036854775807":      "9223372036854775807",
		"9223372036854775808":      "9223372036854775808",
		"10E":                      "10E",
		"6e21":                     "6e21",
		"1e22":                     "10e21",
		"2e23":                     "200e21",
		"-2e23":                    "-200e21",
		"2000000000000000000000.5": "2000000000000000000000500m",
	} {
		a := inventory.AmountOf(resource.MustParse(text))
		got := explain.Amount(a)
		if got != want || inventory.AmountOf(resource.MustParse(got)) != a {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
