// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// part is one document of a file.
type part struct {
	Source
	text []byte
}

// split takes a file apart. Documents that are empty or only comments are left
// out and do not count.
func split(file string, content []byte) ([]part, error) {
	if trimmed := bytes.TrimSpace(content); len(trimmed) > 0 && trimmed[0] == '{' {
		return splitJSON(file, content)
	}
	return splitYAML(file, content), nil
}

// splitYAML splits where kubectl does: at lines that start with "---".
func splitYAML(file string, content []byte) []part {
	var documents []part
	start, line := 1, 0
	var text strings.Builder
	flush := func() {
		if !blank(text.String()) {
			documents = append(documents, part{
				Source: Source{File: file, Document: len(documents) + 1, Line: start},
				text:   []byte(text.String()),
			})
		}
		text.Reset()
		start = line + 1
	}
	for part := range strings.Lines(string(content)) {
		line++
		if strings.HasPrefix(part, "---") {
			flush()
			// What follows on the separator's line belongs to the document.
			if rest := strings.TrimPrefix(part, "---"); !blank(rest) {
				start = line
				text.WriteString("   " + rest)
			}
			continue
		}
		text.WriteString(part)
	}
	flush()
	return documents
}

// blank reports whether the text has nothing but comments and directives.
func blank(text string) bool {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && line != "..." && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "%") {
			return false
		}
	}
	return true
}

// splitJSON splits a stream of JSON values.
func splitJSON(file string, content []byte) ([]part, error) {
	var documents []part
	decoder := json.NewDecoder(bytes.NewReader(content))
	for {
		var value json.RawMessage
		err := decoder.Decode(&value)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		end := int(decoder.InputOffset())
		source := Source{File: file, Document: len(documents) + 1}
		if err != nil {
			var syntax *json.SyntaxError
			if errors.As(err, &syntax) {
				end = int(syntax.Offset)
			}
			source.Line = 1 + bytes.Count(content[:min(end, len(content))], []byte("\n"))
			return nil, Errors{{Source: source, Problem: "not JSON: " + err.Error()}}
		}
		source.Line = 1 + bytes.Count(content[:end-len(value)], []byte("\n"))
		documents = append(documents, part{Source: source, text: value})
	}
}
