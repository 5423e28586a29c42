// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"strings"
)

// naturalCompare orders names as a person would: pod-2 comes before pod-10.
func naturalCompare(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		numberX, restX := leadingNumber(x)
		numberY, restY := leadingNumber(y)
		if numberX != "" && numberY != "" {
			short, long := strings.TrimLeft(numberX, "0"), strings.TrimLeft(numberY, "0")
			if c := cmp.Or(cmp.Compare(len(short), len(long)), cmp.Compare(short, long)); c != 0 {
				return c
			}
			x, y = restX, restY
			continue
		}
		if x[0] != y[0] {
			return cmp.Compare(x[0], y[0])
		}
		x, y = x[1:], y[1:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
}

// leadingNumber splits the digits at the start of the text from the rest.
func leadingNumber(text string) (number, rest string) {
	end := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(text)
	}
	return text[:end], text[end:]
}
