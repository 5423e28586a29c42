// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"math"
	"math/big"
	"math/bits"

	"gopkg.in/inf.v0"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Amount is an exact quantity in billionths (1n in Kubernetes notation), the
// finest a resource.Quantity can express. It holds ±1.7e29 units, so sums of
// billions of the largest quantities do not overflow; sums of what is larger
// saturate. Amounts compare with ==.
type Amount struct {
	hi int64
	lo uint64
}

// AmountOf converts a quantity without loss. Quantities outside the range of an
// Amount, which the API server cannot store, saturate.
func AmountOf(q resource.Quantity) Amount {
	if q.IsZero() {
		return Amount{} // 0e999999999 is multiplied by ten as often, see AsInt64
	}
	if v, ok := q.AsInt64(); ok {
		return amountOfInt(v)
	}
	return amountOfDec(q.AsDec())
}

// Quantity converts back, in decimal notation.
func (a Amount) Quantity() resource.Quantity {
	return *resource.NewDecimalQuantity(*inf.NewDecBig(a.big(), 9), resource.DecimalSI)
}

// Add returns a + b.
func (a Amount) Add(b Amount) Amount {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	hi := a.hi + b.hi + int64(carry)
	if (a.hi^hi)&(b.hi^hi) < 0 {
		return a.extreme()
	}
	return Amount{hi: hi, lo: lo}
}

// Sub returns a - b.
func (a Amount) Sub(b Amount) Amount {
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	hi := a.hi - b.hi - int64(borrow)
	if (a.hi^b.hi)&(a.hi^hi) < 0 {
		return a.extreme()
	}
	return Amount{hi: hi, lo: lo}
}

// extreme is the largest or smallest amount, by the sign of a.
func (a Amount) extreme() Amount {
	if a.hi < 0 {
		return minAmount
	}
	return maxAmount
}

// Cmp returns -1, 0 or +1 for a < b, a == b and a > b.
func (a Amount) Cmp(b Amount) int {
	switch {
	case a.hi < b.hi, a.hi == b.hi && a.lo < b.lo:
		return -1
	case a == b:
		return 0
	}
	return 1
}

// Sign returns -1, 0 or +1 for negative, zero and positive amounts.
func (a Amount) Sign() int { return a.Cmp(Amount{}) }

// Ratio returns a / b as a float, 0 where b is zero. It is for comparing sizes,
// never for deciding what fits.
func (a Amount) Ratio(b Amount) float64 {
	if b.Sign() == 0 {
		return 0
	}
	return a.float() / b.float()
}

func (a Amount) float() float64 {
	return float64(a.hi)*(1<<64) + float64(a.lo)
}

// Words returns the two halves of the amount, for hashing.
func (a Amount) Words() (uint64, uint64) { return uint64(a.hi), a.lo }

func amountOfInt(v int64) Amount {
	negative := v < 0
	magnitude := uint64(v)
	if negative {
		magnitude = -magnitude
	}
	hi, lo := bits.Mul64(magnitude, 1e9)
	a := Amount{hi: int64(hi), lo: lo}
	if negative {
		return Amount{}.Sub(a)
	}
	return a
}

var (
	maxAmount = Amount{hi: math.MaxInt64, lo: math.MaxUint64}
	minAmount = Amount{hi: math.MinInt64}
)

func amountOfDec(d *inf.Dec) Amount {
	// A number far outside is not written out first: 1e999999999 has that many digits.
	sign, digits := d.Sign(), int64(d.UnscaledBig().BitLen())*30103/100000-int64(d.Scale())
	switch {
	case sign == 0:
		return Amount{}
	case digits > farDigits && sign > 0:
		return maxAmount
	case digits > farDigits:
		return minAmount
	case digits < -farDigits:
		return Amount{hi: int64(sign) >> 1, lo: uint64(sign)} // one billionth, the way quantities round
	}
	nanos := new(inf.Dec).Round(d, 9, inf.RoundUp).UnscaledBig()
	switch {
	case nanos.Cmp(maxAmount.big()) > 0:
		return maxAmount
	case nanos.Cmp(minAmount.big()) < 0:
		return minAmount
	}
	low := new(big.Int).And(nanos, new(big.Int).SetUint64(math.MaxUint64))
	high := new(big.Int).Rsh(nanos, 64)
	return Amount{hi: high.Int64(), lo: low.Uint64()}
}

// farDigits is more digits before, or zeros behind, the point than an Amount has.
const farDigits = 64

func (a Amount) big() *big.Int {
	v := new(big.Int).Lsh(big.NewInt(a.hi), 64)
	return v.Add(v, new(big.Int).SetUint64(a.lo))
}
