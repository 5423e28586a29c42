// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import "kerf.dev/kerf/document"

// positions finds the line of a field in the file.
type positions struct {
	first int // line of the document's first line in the file
	lines document.Lines
}

// start is the line of the first key.
func (p positions) start() int { return p.first + p.lines.Start() - 1 }

// line is that of the field, or of the deepest parent that there is.
func (p positions) line(field string) int { return p.first + p.lines.Line(field) - 1 }

// at is the same for a part of the document.
func (p positions) at(field string) positions {
	return positions{first: p.first, lines: p.lines.At(field)}
}
