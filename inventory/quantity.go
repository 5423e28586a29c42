// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// maxDigits and maxExponent bound a quantity far above and below what can be
	// counted.
	maxDigits   = 128
	maxExponent = 100
)

// ParseQuantity reads a quantity that anybody may have written.
func ParseQuantity(text string) (resource.Quantity, error) {
	if err := CheckQuantity(text); err != nil {
		return resource.Quantity{}, err
	}
	return resource.ParseQuantity(text)
}

// CheckQuantity refuses the text of a quantity that takes resource.Quantity time and
// memory without end: it writes 1e-999999999 out before it rounds it, and 1e999999999
// once it is compared. It does not say that the text is a quantity.
func CheckQuantity(text string) error {
	text = strings.TrimSpace(text)
	if n := len(text); n > maxDigits {
		return fmt.Errorf("is %q... with %d characters, want a quantity of at most %d", text[:maxDigits/4], n, maxDigits)
	}
	at := strings.LastIndexAny(text, "eE")
	if at < 0 || strings.Trim(text[at+1:], "+-0123456789") != "" {
		return nil
	}
	// Without digits it is 1E, a suffix, or what the parser refuses.
	digits := strings.TrimLeft(text[at+1:], "+-0")
	if n, err := strconv.Atoi(digits); digits != "" && (err != nil || n > maxExponent) {
		return fmt.Errorf("is %q, want an exponent from -%d to %d", text, maxExponent, maxExponent)
	}
	return nil
}

// QuantityText writes a quantity out. There is no suffix above E, and what
// resource.Quantity writes without one is not the quantity: "1" for 1e21.
func QuantityText(q resource.Quantity) string {
	text := q.String()
	if _, ok := q.AsInt64(); ok {
		return text
	}
	if again, err := resource.ParseQuantity(text); err == nil && AmountOf(again) == AmountOf(q) {
		return text
	}
	return resource.NewDecimalQuantity(*q.AsDec(), resource.DecimalExponent).String()
}
