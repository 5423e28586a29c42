// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
)

// A "for" clause at the end of a line repeats the line, and the body of a verb
// with it, once for every combination of values:
//
//	for g in 0 1 and i in 0..6
//
// The last variable changes fastest. $g and $i, or ${g}, stand for the values.

// bindings are the values of the loop variables in one repetition.
type bindings map[string]string

// cutLoop removes the "for" clause from a line and returns the repetitions that
// it asks for; a line without one is repeated once, with no bindings.
func cutLoop(words []word) ([]word, []bindings, error) {
	at := slices.IndexFunc(words, func(w word) bool { return w.is("for") })
	if at < 0 || at+2 >= len(words) || !words[at+2].is("in") {
		return words, []bindings{{}}, nil
	}
	all := []bindings{{}}
	for clause := words[at:]; len(clause) > 0; {
		name, values, rest, err := cutVariable(clause)
		if err != nil {
			return nil, nil, err
		}
		var product []bindings
		for _, b := range all {
			for _, v := range values {
				with := maps.Clone(b)
				with[name] = v
				product = append(product, with)
			}
		}
		all, clause = product, rest
	}
	return words[:at], all, nil
}

// cutVariable reads "for NAME in VALUES" or "and NAME in VALUES".
func cutVariable(clause []word) (name string, values []string, rest []word, err error) {
	if len(clause) < 4 || !clause[2].is("in") {
		return "", nil, nil, fmt.Errorf("incomplete clause, want: for NAME in VALUE... [and NAME in VALUE...]")
	}
	name, rest = clause[1].text, clause[3:]
	for len(rest) > 0 && !rest[0].is("and") {
		expanded, err := expandIntervals(rest[0].text)
		if err != nil {
			return "", nil, nil, err
		}
		values, rest = append(values, expanded...), rest[1:]
	}
	return name, values, rest, nil
}

var variable = regexp.MustCompile(`\$(\w+|\{\w+\})`)

// bind replaces the variables of a line. With strict, a variable without a value
// is an error; without, it is left for a later pass.
func bind(l line, values bindings, strict bool) (line, error) {
	var unknown error
	bound := line{number: l.number, indent: l.indent, words: make([]word, len(l.words))}
	for i, w := range l.words {
		bound.words[i] = word{quoted: w.quoted, text: variable.ReplaceAllStringFunc(w.text, func(reference string) string {
			name := reference[1:]
			if name[0] == '{' {
				name = name[1 : len(name)-1]
			}
			value, found := values[name]
			if !found {
				if strict {
					unknown = fmt.Errorf("no \"for %s in ...\" gives %s a value", name, reference)
				}
				return reference
			}
			return value
		})}
	}
	return bound, unknown
}

// unroll carries out the loops of a body's lines. outer are the bindings of the
// verb that the body belongs to.
func unroll(body []line, outer bindings) ([]line, error) {
	var unrolled []line
	for _, l := range body {
		l, err := bind(l, outer, false)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", l.number, err)
		}
		words, loops, err := cutLoop(l.words)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", l.number, err)
		}
		for _, inner := range loops {
			bound, err := bind(line{number: l.number, indent: l.indent, words: words}, inner, true)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", l.number, err)
			}
			unrolled = append(unrolled, bound)
		}
	}
	return unrolled, nil
}
