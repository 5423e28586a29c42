// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"kerf.dev/kerf/inventory"
)

const (
	// maxSorted bounds lists that every element is compared with every other of. CEL's
	// cost of doing that with more is above the limit of an expression.
	maxSorted = 708
	// maxPairs bounds what is compared of two values, one by one: about a hundredth of
	// a second.
	maxPairs = 2_000_000
	// maxPrecision bounds the digits of a number.
	maxPrecision = 100
)

// checks refuse calls by their arguments. Each argument by itself is bounded.
var checks = map[string]func(args []ref.Val) error{
	"quantity":              checkQuantity,
	"isQuantity":            checkQuantity,
	"matches":               func(args []ref.Val) error { return checkRegex("matches", args) },
	"find":                  func(args []ref.Val) error { return checkRegex("find", args) },
	"findAll":               func(args []ref.Val) error { return checkRegex("findAll", args) },
	"replace":               checkReplace,
	"join":                  checkJoin,
	"format":                checkFormat,
	"indexOf":               checkPairs,
	"lastIndexOf":           checkPairs,
	"sets.contains":         checkPairs,
	"sets.equivalent":       checkPairs,
	"sets.intersects":       checkPairs,
	"lists.range":           checkRange,
	"distinct":              checkSorted,
	"sort":                  checkSorted,
	"@sortByAssociatedKeys": checkSorted,
}

// text returns an argument that is a string; where it is none the function says so.
func text(args []ref.Val, i int) string {
	if i >= len(args) {
		return ""
	}
	s, _ := args[i].(types.String)
	return string(s)
}

// length is that of a string or list, in bytes or elements.
func length(args []ref.Val, i int) int {
	if i >= len(args) {
		return 0
	}
	switch v := args[i].(type) {
	case types.String:
		return len(v)
	case traits.Sizer:
		if n, ok := v.Size().(types.Int); ok {
			return int(n)
		}
	}
	return 0
}

func checkQuantity(args []ref.Val) error { return inventory.CheckQuantity(text(args, 0)) }

// checkReplace refuses results that grow: replacing nothing puts the text between all
// characters.
func checkReplace(args []ref.Val) error {
	s := text(args, 0)
	return checkText(len(s) + strings.Count(s, text(args, 1))*len(text(args, 2)))
}

func checkJoin(args []ref.Val) error {
	return checkText(length(args, 0)*length(args, 1) + (maxWeight-weigh(args[0], maxWeight))*charsPerWeight)
}

func checkText(n int) error {
	if n > maxText {
		return tooLarge("a text", n, maxText)
	}
	return nil
}

func checkRange(args []ref.Val) error {
	if n, ok := args[0].(types.Int); ok && n > maxWeight {
		return tooLarge("a list", int(n), maxWeight)
	}
	return nil
}

func checkSorted(args []ref.Val) error {
	if n := length(args, 0); n > maxSorted {
		return tooLarge("a list", n, maxSorted)
	}
	return nil
}

func checkPairs(args []ref.Val) error {
	if n := length(args, 0) * length(args, 1); n > maxPairs {
		return tooLarge("a product of the lengths", n, maxPairs)
	}
	return nil
}

var precision = regexp.MustCompile(`%\.(\d+)`)

func checkFormat(args []ref.Val) error {
	for _, m := range precision.FindAllStringSubmatch(text(args, 0), -1) {
		if n, err := strconv.Atoi(m[1]); err != nil || n > maxPrecision {
			return fmt.Errorf("a precision of %.10s, want %d at most", m[1], maxPrecision)
		}
	}
	return nil
}
