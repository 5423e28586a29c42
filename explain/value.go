// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strconv"
	"strings"
)

// maxValue is how many bytes of a value are shown: all that the API allows.
const maxValue = 64

// Value puts the value of an attribute into a text. Drivers write what they like into
// it, and users compare with what they like: what could be taken for words of the text,
// or is not printed at all, is quoted and escaped. What is long is cut.
func Value(text string) string {
	rest := ""
	if len(text) > maxValue {
		text, rest = strings.ToValidUTF8(text[:maxValue], ""), "…"
	}
	if text == "" || strings.IndexFunc(text, notPlain) >= 0 {
		text = strconv.Quote(text)
	}
	return text + rest
}

// notPlain reports whether a character is none of names, numbers, versions and addresses.
func notPlain(r rune) bool {
	switch {
	case '0' <= r && r <= '9', 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z':
		return false
	}
	return !strings.ContainsRune("._-+:/", r)
}

// Values is Value of each.
func Values(values []string) []string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = Value(v)
	}
	return texts
}

// Escaped writes the characters that are not kept as Go escapes them.
func Escaped(text string, keep func(rune) bool) string {
	if strings.IndexFunc(text, func(r rune) bool { return !keep(r) }) < 0 {
		return text
	}
	var escaped strings.Builder
	for _, r := range text {
		if keep(r) {
			escaped.WriteRune(r)
		} else {
			escaped.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return escaped.String()
}
