// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package augment

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// MaxFileSize is the size in bytes up to which files are read: that of the
// largest ConfigMap.
const MaxFileSize = 1 << 20

// maxErrors bounds what is said about one file.
const maxErrors = 20

// File is a file that was found good. It is read-only.
type File struct {
	name      string
	documents []Document
	lines     []map[string]int // per document: field -> line
}

// Name is the name that the file was parsed under.
func (f *File) Name() string { return f.name }

// Documents are what the file says. They are read-only.
func (f *File) Documents() []Document { return f.documents }

// Error is a fault in a file.
type Error struct {
	File string
	// Document counts from 1. It is 0 if the fault is that of the whole file.
	Document int
	// Line counts from 1. It is 0 if the fault is that of the whole file.
	Line int
	// Field is the path of the field; empty for a whole document.
	Field   string
	Problem string
	Fix     string
}

func (e *Error) Error() string {
	where := e.File
	if e.Line > 0 {
		where += ":" + strconv.Itoa(e.Line)
	}
	if e.Document > 1 {
		where += ": document " + strconv.Itoa(e.Document)
	}
	if e.Field != "" {
		where += ": " + e.Field
	}
	return where + ": " + e.Problem + ": " + e.Fix
}

// IsFileName tells whether a file of that name is read: its extension is .yaml,
// .yml or .json and it is not hidden. The temporary files of editors, and what
// the kubelet keeps beside the files of a ConfigMap, are not.
func IsFileName(name string) bool {
	return !strings.HasPrefix(name, ".") && slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name))
}

// Parse reads a file. The name is used in messages, and its order decides between
// files that contradict each other. The error is made of all faults found, each
// an [*Error], by line.
func Parse(name string, data []byte) (*File, error) {
	p := &parser{file: &File{name: name}}
	if len(data) > MaxFileSize {
		p.add(fault{problem: fmt.Sprintf("has %d bytes, more than %d", len(data), MaxFileSize), fix: "spread the rules over several files"})
		return nil, p.err()
	}
	p.parse(data)
	if len(p.faults) > 0 {
		return nil, p.err()
	}
	return p.file, nil
}

// parser collects the documents of a file and what is wrong with them.
type parser struct {
	file   *File
	faults []*Error
	number int // of the current document
}

func (p *parser) parse(data []byte) {
	if path.Ext(p.file.name) == ".json" || json.Valid(data) {
		p.number++
		if node, f := readJSON(data); f != nil {
			p.add(*f)
		} else {
			p.document(node)
		}
		return
	}
	for d := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var root yaml.Node
		p.number++
		if err := d.Decode(&root); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			p.add(syntaxFault(err))
			return
		}
		if len(root.Content) == 1 && root.Content[0].ShortTag() != "!!null" {
			p.document(root.Content[0])
		}
	}
	if len(p.file.documents) == 0 {
		p.number = 0
		p.add(fault{problem: "has no document", fix: "write a " + Kind + ", or delete the file to withdraw its rules"})
	}
}

func (p *parser) document(node *yaml.Node) {
	d := decoder{lines: map[string]int{}}
	doc := d.document(node)
	// What could not be read would be found missing as well: say the cause alone.
	faults := d.faults
	if len(faults) == 0 {
		faults = validate(doc)
	}
	for _, f := range faults {
		if f.line == 0 {
			f.line = lineOf(d.lines, f.field)
		}
		p.add(f)
	}
	p.file.documents = append(p.file.documents, doc)
	p.file.lines = append(p.file.lines, d.lines)
}

func (p *parser) add(f fault) {
	p.faults = append(p.faults, &Error{
		File: p.file.name, Document: p.number, Line: f.line, Field: f.field, Problem: f.problem, Fix: f.fix,
	})
}

func (p *parser) err() error {
	slices.SortStableFunc(p.faults, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Field, b.Field))
	})
	errs := make([]error, 0, maxErrors+1)
	for i, e := range p.faults {
		if i == maxErrors {
			errs = append(errs, fmt.Errorf("%s: and %d more", p.file.name, len(p.faults)-i))
			break
		}
		errs = append(errs, e)
	}
	return errors.Join(errs...)
}

// fault is an Error before it is known in which file it is.
type fault struct {
	line         int // 0: that of the field
	field        string
	problem, fix string
}

var (
	syntaxError = regexp.MustCompile(`^yaml: (?:line (\d+): )?((?s).*)$`)
	// The library counts the lines of these from 0.
	parserError = regexp.MustCompile(`^did not find expected (<document start>|node content|key|'-' indicator|',' or)`)
)

func syntaxFault(err error) fault {
	f := fault{problem: err.Error(), fix: "mend the syntax"}
	if m := syntaxError.FindStringSubmatch(err.Error()); m != nil {
		f.line, _ = strconv.Atoi(m[1]) // without a number: the whole file
		f.problem = m[2]
	}
	if parserError.MatchString(f.problem) {
		f.line++
	}
	return f
}

// lineOf is the line of a field or of the innermost field around it.
func lineOf(lines map[string]int, field string) int {
	for {
		if line, ok := lines[field]; ok || field == "" {
			return line
		}
		end := strings.LastIndexAny(field, ".[")
		if end < 0 {
			end = 0
		}
		field = field[:end]
	}
}
