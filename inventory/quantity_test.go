// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// hostile are quantities that would be computed for minutes, or without end.
var hostile = []string{
	"1e-999999999", "1E-999999999", "-1e-999999999", " 1e-999999999 ", ".5e-999999999", "0e-999999999", "1e-0000000000999999999",
	"1e999999999", "1E+999999999", "1e101", "1e-101", "1e4294967297", "1e99999999999999999999",
	strings.Repeat("9", 129), "1." + strings.Repeat("9", 1<<20), strings.Repeat("0", 1<<20) + "1", "1e" + strings.Repeat("0", 1<<20) + "1",
}

func TestParseQuantityRefuses(t *testing.T) {
	for _, text := range hostile {
		if q, err := ParseQuantity(text); err == nil || len(err.Error()) > 300 {
			t.Errorf("%.40s is %v, error %v; want a short error", text, q, err)
		}
	}
}

func TestParseQuantityTakes(t *testing.T) {
	for _, text := range []string{
		"0", "1", "-1", "80Gi", "1E", "1Ei", "1e3", "1E3", "1e-9", "1e+9", "1e100", "1e-100", "0.1n", "1e0000000009", strings.Repeat("9", 128),
	} {
		q, err := ParseQuantity(text)
		if want := resource.MustParse(text); err != nil || q.Cmp(want) != 0 {
			t.Errorf("%s is %v, error %v", text, q, err)
		}
	}
	if _, err := ParseQuantity("80 GiB"); err == nil {
		t.Error("80 GiB is a quantity")
	}
}

// What the API server stores can be as large: it saturates at once.
func TestAmountOfHuge(t *testing.T) {
	huge := resource.MustParse("1e999999999")
	for q, want := range map[*resource.Quantity]Amount{
		&huge: maxAmount,
		resource.NewScaledQuantity(-1, 999999999):  minAmount,
		resource.NewScaledQuantity(0, 999999999):   {},
		resource.NewScaledQuantity(1, -999999999):  AmountOf(resource.MustParse("1n")),
		resource.NewScaledQuantity(-1, -999999999): AmountOf(resource.MustParse("-1n")),
		resource.NewScaledQuantity(7, -11):         AmountOf(resource.MustParse("1n")),
	} {
		if got := AmountOf(*q); got != want {
			t.Errorf("%s is %+v, want %+v", q, got, want)
		}
	}
}
