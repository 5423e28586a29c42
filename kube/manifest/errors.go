// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Source is where an object was read from.
type Source struct {
	// File as given by the user, "-" for standard input.
	File string
	// Document counts from 1; empty documents do not count. 0: the whole file.
	Document int
	// Line of the start of the object or of the field at fault; 0 if unknown.
	Line int
}

// Error is one mistake in the input.
type Error struct {
	Source
	// Object is "Kind namespace/name" as far as known, Field a path such as
	// spec.devices[0].name; both may be empty.
	Object, Field string
	// Problem says what is wrong and what would be right.
	Problem string
}

// Error is "FILE:LINE: document N: Kind name: field: problem".
func (e *Error) Error() string {
	var text strings.Builder
	text.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&text, ":%d", e.Line)
	}
	if e.Document > 0 {
		fmt.Fprintf(&text, ": document %d", e.Document)
	}
	for _, part := range []string{shorten(e.Object, maxName), shorten(e.Field, maxName), shorten(e.Problem, maxProblem)} {
		if part != "" {
			text.WriteString(": " + part)
		}
	}
	return text.String()
}

// maxName and maxProblem are how many bytes of a name or path, and of what is wrong
// with it, a message shows: an input may have names of megabytes.
const maxName, maxProblem = 600, 6000

func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%s... (%d bytes)", strings.ToValidUTF8(text[:most], ""), len(text))
}

// Errors are all mistakes that were found.
type Errors []*Error

// Error has one line or more for each mistake.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, err := range e {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

// Sort orders the mistakes by file, document and line. What finds several in a line may
// have them in any order.
func (e Errors) Sort() {
	slices.SortStableFunc(e, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Document, b.Document), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Field, b.Field), cmp.Compare(a.Problem, b.Problem))
	})
}

// orNil is e as an error, nil if there are none.
func (e Errors) orNil() error {
	if len(e) == 0 {
		return nil
	}
	return e
}
