// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package document

import (
	"encoding/json"
	"fmt"

	goyaml "go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const (
	// MaxSize is how many bytes of a file are read: several times the dump of the largest cluster that Kubernetes
	// is made for.
	MaxSize = 512 << 20
	// MaxDepth is how many values may be inside of one another: a few times what API objects have.
	MaxDepth = 200
	// MaxGrowth is how many times its own size a document may have once its aliases are written out. Small documents
	// may grow to freeGrowth bytes.
	MaxGrowth  = 10
	freeGrowth = 1 << 20
)

// Document is what a text says.
type Document struct {
	// Content has the types of JSON, with int64 for whole numbers.
	Content any
	// Lines finds the line of a field.
	Lines Lines
}

// Fault is why a document is refused.
type Fault struct {
	// Line counts from the first of the document.
	Line int
	// Field is a path such as spec.devices[0].capacity.memory, empty for the document.
	Field, Problem string
}

// Error is "line N: field: problem".
func (f *Fault) Error() string {
	where := fmt.Sprintf("line %d: ", f.Line)
	if f.Field != "" {
		where += f.Field + ": "
	}
	return where + f.Problem
}

// Read parses a document. The error is a *Fault or that of the YAML library, which has a line, too. A key that is there
// twice is an error.
func Read(text []byte) (*Document, error) {
	d := &Document{Lines: linesOf(text)}
	if d.Lines.node != nil {
		if err := checkTree(d.Lines.node, len(text)); err != nil {
			return nil, err
		}
	}
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(asJSON, &d.Content); err != nil {
		return nil, err
	}
	return d, nil
}

// Check reads a document and refuses it as [Read] and [Document.Check] do, for those who decode the text themselves.
func Check(text []byte, into any) error {
	d, err := Read(text)
	if err != nil {
		return err
	}
	if faults := d.Check(into); len(faults) > 0 {
		return faults[0]
	}
	return nil
}

// Decode puts content that was read into an API object. The strict errors are fields that it does not have; errors.As
// finds a kjson.FieldError in them.
func Decode(content, into any) (strict []error, err error) {
	text, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	return kjson.UnmarshalStrict(text, into)
}

// checkTree bounds what a document becomes.
func checkTree(root *goyaml.Node, size int) error {
	t := tree{grown: map[*goyaml.Node]int{}, limit: max(MaxGrowth*size, freeGrowth)}
	if deep := t.tooDeep(root, MaxDepth); deep != nil {
		return &Fault{Line: deep.Line, Problem: fmt.Sprintf("has more than %d values inside of one another; no object needs that", MaxDepth)}
	}
	if t.written(root) > t.limit {
		return &Fault{Line: t.alias(root).Line, Problem: fmt.Sprintf("aliases (*) make the document more than %d times as large; write out what they stand for", MaxGrowth)}
	}
	return nil
}

// tree measures a document with aliases, which are not written out.
type tree struct {
	grown map[*goyaml.Node]int
	limit int
}

// tooDeep returns a node with more than so many around it. The library bounds the depth of what it parses.
func (t tree) tooDeep(node *goyaml.Node, left int) *goyaml.Node {
	if left < 0 {
		return node
	}
	for _, inner := range node.Content {
		if deep := t.tooDeep(inner, left-1); deep != nil {
			return deep
		}
	}
	return nil
}

// written is about the number of bytes that a node has once its aliases are written out, and any number above the
// limit if there are more. An anchor that contains itself has no end.
func (t tree) written(node *goyaml.Node) int {
	if n, known := t.grown[node]; known {
		return n
	}
	t.grown[node] = t.limit + 1 // Until it is known: whoever asks meanwhile is inside of it.
	n := len(node.Value) + 1
	if node.Alias != nil {
		n = t.written(node.Alias)
	}
	for _, inner := range node.Content {
		n = min(n+t.written(inner), t.limit+1)
	}
	t.grown[node] = n
	return n
}

// alias returns the first alias of a document, or its root.
func (t tree) alias(root *goyaml.Node) *goyaml.Node {
	for _, inner := range root.Content {
		if inner.Kind == goyaml.AliasNode {
			return inner
		}
		if found := t.alias(inner); found != inner || found.Kind == goyaml.AliasNode {
			return found
		}
	}
	return root
}
