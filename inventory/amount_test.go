// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"math"
	"math/big"
	"testing"

	"gopkg.in/inf.v0"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
)

// amounts draws from the whole range.
func amounts() *rapid.Generator[Amount] {
	return rapid.Custom(func(t *rapid.T) Amount {
		return Amount{hi: rapid.Int64().Draw(t, "hi"), lo: rapid.Uint64().Draw(t, "lo")}
	})
}

// withinRange is what an Amount makes of a number.
func withinRange(n *big.Int) *big.Int {
	switch {
	case n.Cmp(maxAmount.big()) > 0:
		return maxAmount.big()
	case n.Cmp(minAmount.big()) < 0:
		return minAmount.big()
	}
	return n
}

func TestAmountArithmetic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := amounts().Draw(t, "a"), amounts().Draw(t, "b")
		if got, want := a.Add(b).big(), withinRange(new(big.Int).Add(a.big(), b.big())); got.Cmp(want) != 0 {
			t.Errorf("%v + %v = %v, want %v", a.big(), b.big(), got, want)
		}
		if got, want := a.Sub(b).big(), withinRange(new(big.Int).Sub(a.big(), b.big())); got.Cmp(want) != 0 {
			t.Errorf("%v - %v = %v, want %v", a.big(), b.big(), got, want)
		}
		if got, want := a.Cmp(b), a.big().Cmp(b.big()); got != want {
			t.Errorf("%v compared with %v is %d, want %d", a.big(), b.big(), got, want)
		}
		if got, want := a.Sign(), a.big().Sign(); got != want {
			t.Errorf("sign of %v is %d, want %d", a.big(), got, want)
		}
		if (a == b) != (a.Cmp(b) == 0) {
			t.Errorf("== and Cmp disagree on %v and %v", a.big(), b.big())
		}
	})
}

// quantities draws what the API can hold: decimal and binary, fractions down to
// billionths, both inside (int64) and outside (big) of Quantity's fast path.
func quantities() *rapid.Generator[resource.Quantity] {
	return rapid.Custom(func(t *rapid.T) resource.Quantity {
		value, format := rapid.Int64().Draw(t, "value"), resource.DecimalSI
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return *resource.NewQuantity(value, resource.BinarySI)
		case 1:
			return *resource.NewScaledQuantity(value, resource.Scale(rapid.IntRange(-9, 9).Draw(t, "scale")))
		case 2:
			format = resource.DecimalExponent
		}
		return *resource.NewDecimalQuantity(*inf.NewDec(value, inf.Scale(rapid.IntRange(-9, 9).Draw(t, "scale"))), format)
	})
}

// TestAmountOfQuantity: the way there and back loses nothing, and amounts are in
// the order of their quantities.
func TestAmountOfQuantity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, q := quantities().Draw(t, "p"), quantities().Draw(t, "q")
		a, b := AmountOf(p), AmountOf(q)
		if back := a.Quantity(); back.Cmp(p) != 0 {
			t.Errorf("%s comes back as %s", p.String(), back.String())
		}
		if got, want := a.Cmp(b), p.Cmp(q); got != want {
			t.Errorf("amounts of %s and %s compare as %d, want %d", p.String(), q.String(), got, want)
		}
		sum := p.DeepCopy()
		sum.Add(q)
		if AmountOf(sum) != a.Add(b) {
			t.Errorf("%s + %s differ", p.String(), q.String())
		}
	})
}

func TestAmountEdges(t *testing.T) {
	one := AmountOf(resource.MustParse("1"))
	for text, want := range map[string]Amount{
		"0":     {},
		"1n":    {lo: 1},
		"-1n":   {hi: -1, lo: math.MaxUint64},
		"0.1n":  {lo: 1}, // quantities round up
		"1":     {lo: 1e9},
		"1Gi":   {lo: 1 << 30 * 1e9},
		"1e40":  maxAmount,
		"-1e40": minAmount,
	} {
		if got := AmountOf(resource.MustParse(text)); got != want {
			t.Errorf("%s is %+v, want %+v", text, got, want)
		}
	}
	if got := AmountOf(*resource.NewQuantity(math.MinInt64, resource.DecimalSI)); got.big().String() != "-9223372036854775808000000000" {
		t.Errorf("the smallest int64 is %v", got.big())
	}
	if got := AmountOf(resource.MustParse("40Gi")).Ratio(AmountOf(resource.MustParse("80Gi"))); got != 0.5 {
		t.Errorf("40Gi is %v of 80Gi", got)
	}
	if got := one.Ratio(Amount{}); got != 0 {
		t.Errorf("the ratio to nothing is %v", got)
	}
	if hi, lo := one.Words(); hi != 0 || lo != 1e9 {
		t.Errorf("words %d, %d", hi, lo)
	}
}
