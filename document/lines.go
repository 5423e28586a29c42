// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Lines finds the line of a field in its document, the first of which is 1. A
// document that the YAML library cannot take apart has only a first line.
type Lines struct {
	node *yaml.Node
}

func linesOf(text []byte) Lines {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil || len(root.Content) == 0 {
		return Lines{}
	}
	return Lines{node: root.Content[0]}
}

// Start is the line of the first key.
func (l Lines) Start() int {
	if l.node == nil {
		return 1
	}
	return l.node.Line
}

// Line is that of the field, or of the deepest parent that there is.
func (l Lines) Line(field string) int {
	node, line := l.node, l.Start()
	for _, step := range steps(field) {
		key, value := child(node, step)
		if value == nil {
			break
		}
		node, line = value, key.Line
	}
	return line
}

// At is the same for a part of the document.
func (l Lines) At(field string) Lines {
	for _, step := range steps(field) {
		_, l.node = child(l.node, step)
	}
	return l
}

// child returns the value for a step and the node whose line is the field's.
func child(node *yaml.Node, step string) (key, value *yaml.Node) {
	if node != nil && node.Kind == yaml.AliasNode {
		node = node.Alias
	}
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
		return merged(node, step)
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i]
		}
	}
	return nil, nil
}

// merged is child for what a mapping has by << from others.
func merged(node *yaml.Node, step string) (key, value *yaml.Node) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].ShortTag() != "!!merge" {
			continue
		}
		from := []*yaml.Node{node.Content[i+1]}
		if from[0].Kind == yaml.SequenceNode {
			from = from[0].Content
		}
		for _, other := range from {
			if _, value := child(other, step); value != nil {
				return node.Content[i], value
			}
		}
	}
	return nil, nil
}

// raw is the text of a scalar as it was written.
func (l Lines) raw(field string) string {
	node := l.At(field).node
	if node != nil && node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node == nil || node.Kind != yaml.ScalarNode {
		return ""
	}
	return node.Value
}

// Key is the path of what has a key below a path.
func Key(path, step string) string {
	switch {
	case strings.ContainsAny(step, "./[]"):
		return path + "[" + step + "]"
	case path == "":
		return step
	}
	return path + "." + step
}

// Item is the path of an item of the list at a path.
func Item(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

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
