// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package augment

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readJSON reads one JSON value as a YAML node. YAML libraries do not read all of
// JSON: tabs and some escapes are missing.
func readJSON(data []byte) (*yaml.Node, *fault) {
	if err := json.Unmarshal(data, new(json.RawMessage)); err != nil {
		f := &fault{line: 1, problem: err.Error(), fix: "mend the syntax"}
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			f.line += bytes.Count(data[:syntax.Offset], []byte("\n"))
		}
		return nil, f
	}
	r := jsonReader{data: data, tokens: json.NewDecoder(bytes.NewReader(data)), line: 1}
	r.tokens.UseNumber()
	return r.node(r.next()), nil
}

// jsonReader walks through JSON that is known to be valid.
type jsonReader struct {
	data    []byte
	tokens  *json.Decoder
	line    int
	counted int // bytes in which lines were counted
}

// next returns the next token, or nil at the end. Afterwards line is the token's.
func (r *jsonReader) next() json.Token {
	token, err := r.tokens.Token()
	if err != nil {
		return nil
	}
	end := int(r.tokens.InputOffset())
	r.line += bytes.Count(r.data[r.counted:end], []byte("\n"))
	r.counted = end
	return token
}

func (r *jsonReader) node(token json.Token) *yaml.Node {
	node := &yaml.Node{Kind: yaml.ScalarNode, Line: r.line}
	switch t := token.(type) {
	case json.Delim:
		node.Kind, node.Tag = yaml.MappingNode, "!!map"
		if t == '[' {
			node.Kind, node.Tag = yaml.SequenceNode, "!!seq"
		}
		for r.tokens.More() {
			node.Content = append(node.Content, r.node(r.next()))
		}
		r.next() // the closing bracket
	case string:
		node.Tag, node.Value = "!!str", t
	case json.Number:
		node.Tag, node.Value = "!!int", t.String()
		if strings.ContainsAny(node.Value, ".eE") {
			node.Tag = "!!float"
		}
	case bool:
		node.Tag, node.Value = "!!bool", "false"
		if t {
			node.Value = "true"
		}
	default:
		node.Tag, node.Value = "!!null", "null"
	}
	return node
}
