// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"unicode"

	"kerf.dev/kerf/explain"
)

// printable writes characters that are not printed, such as those that command a
// terminal or turn the direction of writing, as Go escapes them. Drivers and
// manifests may put them into names and values. Ends of lines and tabs are kept.
func printable(text string) string {
	return explain.Escaped(text, func(r rune) bool { return unicode.IsPrint(r) || r == '\n' || r == '\t' })
}

// oneLine is printable, and also escapes ends of lines and tabs.
func oneLine(text string) string { return explain.Escaped(text, unicode.IsPrint) }
