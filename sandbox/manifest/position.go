// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// positions finds the line of a field. A document that the YAML library cannot
// take apart has only a first line.
type positions struct {
	first int // line of the document's first line in the file
	node  *yaml.Node
}

func newPositions(doc document) positions {
	p := positions{first: doc.Line}
	var root yaml.Node
	if err := yaml.Unmarshal(doc.text, &root); err != nil || len(root.Content) == 0 {
		return p
	}
	p.node = root.Content[0]
	return p
}

// start is the line of the first key.
func (p positions) start() int {
	if p.node == nil {
		return p.first
	}
	return p.first + p.node.Line - 1
}

// line is that of the field, or of the deepest parent that there is.
func (p positions) line(field string) int {
	node, line := p.node, p.start()
	for _, step := range steps(field) {
		if node != nil && node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		key, value := child(node, step)
		if value == nil {
			break
		}
		node, line = value, p.first+key.Line-1
	}
	return line
}

// at is the same for a part of the document.
func (p positions) at(field string) positions {
	for _, step := range steps(field) {
		_, p.node = child(p.node, step)
	}
	return p
}

// child returns the value for a step and the node whose line is the field's.
func child(node *yaml.Node, step string) (key, value *yaml.Node) {
	if node == nil {
		return nil, nil
	}
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == step {
				return node.Content[i], node.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i]
		}
	}
	return nil, nil
}

// steps takes a field path such as spec.devices[0].attributes[a.b/c].int apart.
func steps(field string) []string {
	var steps []string
	for field != "" {
		switch field[0] {
		case '.':
			field = field[1:]
		case '[':
			key, rest, _ := strings.Cut(field[1:], "]")
			steps = append(steps, strings.Trim(key, `"'`))
			field = rest
		default:
			end := strings.IndexAny(field, ".[")
			if end < 0 {
				end = len(field)
			}
			steps = append(steps, field[:end])
			field = field[end:]
		}
	}
	return steps
}
