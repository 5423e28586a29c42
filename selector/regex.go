// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"fmt"
	"regexp/syntax"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

const (
	// maxRegex bounds the instructions of a regular expression, and those of all that
	// an expression has as text: (a|b|c){900} has thousands. Compiling the largest
	// takes some milliseconds.
	maxRegex = 10_000
	// maxMatching bounds the instructions times the characters that they run over.
	maxMatching = 5_000_000
	// matchingPerCost is how many of these take as long as a unit of CEL's cost, which
	// is also about what it takes to compile an instruction.
	matchingPerCost = 25
)

func isRegex(function string) bool {
	return function == "matches" || function == "find" || function == "findAll"
}

// checkRegexes refuses an expression with regular expressions that take long to
// compile. CEL compiles those that it has as text before it can be asked anything.
func checkRegexes(e ast.Expr) error {
	total := 0
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || !isRegex(e.AsCall().FunctionName()) {
			return
		}
		for _, arg := range e.AsCall().Args() {
			// CEL computes string("a") beforehand.
			ast.PreOrderVisit(arg, ast.NewExprVisitor(func(e ast.Expr) { total += literalSize(e) }))
		}
	}))
	if total > maxRegex {
		return fmt.Errorf("the regular expressions come to %d instructions, want %d at most", total, maxRegex)
	}
	return nil
}

// literalSize is the size of a text of the expression as a regular expression.
func literalSize(e ast.Expr) int {
	if e.Kind() != ast.LiteralKind {
		return 0
	}
	switch literal := e.AsLiteral().(type) {
	case types.String:
		return regexSize(string(literal))
	case types.Bytes:
		return regexSize(string(literal))
	}
	return 0
}

func checkRegex(function string, args []ref.Val) error {
	size := regexSize(text(args, 1))
	if size > maxRegex {
		return tooLarge("a regular expression", size, maxRegex)
	}
	if n := size * looks(function, args); n > maxMatching {
		return tooLarge("a regular expression times a text", n, maxMatching)
	}
	return nil
}

// looks is how many characters an expression may have to look at. To find all it may
// begin again at each.
func looks(function string, args []ref.Val) int {
	n := length(args, 0) + 1
	if function == "findAll" {
		return n * n
	}
	return n
}

// regexCost is what it takes to compile a regular expression and to match a text.
func regexCost(function string, args []ref.Val) uint64 {
	size := regexSize(text(args, 1))
	return uint64(size + size*looks(function, args)/matchingPerCost)
}

// regexSize is about the number of instructions of a regular expression, zero for what
// is none.
func regexSize(pattern string) int {
	if len(pattern) > maxRegex {
		return len(pattern)
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0
	}
	return instructions(parsed)
}

// instructions is at most a few million: the parser refuses more.
func instructions(r *syntax.Regexp) int {
	n := 1
	if r.Op == syntax.OpLiteral {
		n = len(r.Rune)
	}
	for _, sub := range r.Sub {
		n += instructions(sub)
	}
	if r.Op == syntax.OpRepeat {
		n *= max(r.Min, r.Max, 1)
	}
	return n
}
