// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write STATES.md")

// TestStatesDocument compares STATES.md with the table.
func TestStatesDocument(t *testing.T) {
	if *update {
		if err := os.WriteFile("STATES.md", []byte(Markdown()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("STATES.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != Markdown() {
		t.Error("STATES.md is not what the table says: run make gen")
	}
}

// TestTable checks that the table is whole: known phases, each with a way in and a
// way out, and no two transitions from a phase for the same cause.
func TestTable(t *testing.T) {
	in, out, seen := map[Phase]bool{}, map[Phase]bool{}, map[string]bool{}
	for _, row := range Transitions() {
		id := string(row.From) + ": " + row.When
		if seen[id] {
			t.Errorf("%s: twice", id)
		}
		seen[id] = true
		for _, phase := range []Phase{row.From, row.To} {
			if _, known := phaseInfo[phase]; !known && phase != PhaseNone {
				t.Errorf("%s: no phase %q", id, phase)
			}
		}
		if row.From != row.To {
			out[row.From], in[row.To] = true, true
			if row.Do != VerbRecord && row.Do != VerbCreate && row.Do != VerbDelete {
				t.Errorf("%s: %s does not change the phase", id, row.Do)
			}
		}
		if strings.Contains(row.When, "|") {
			t.Errorf("%s: breaks the document", id)
		}
	}
	for _, info := range Phases() {
		if !in[info.Phase] || !out[info.Phase] {
			t.Errorf("%s: way in %v, way out %v", info.Phase, in[info.Phase], out[info.Phase])
		}
	}
}

// TestNoClock holds the package to what it may use of time: values.
func TestNoClock(t *testing.T) {
	banned := map[string]bool{"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true, "AfterFunc": true,
		"Tick": true, "NewTimer": true, "NewTicker": true}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		checked++
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, f.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "time" && banned[sel.Sel.Name] {
					t.Errorf("%s: time.%s: the time is an argument", set.Position(n.Pos()), sel.Sel.Name)
				}
			}
			if _, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s: a goroutine", set.Position(n.Pos()))
			}
			return true
		})
	}
	if checked == 0 {
		t.Error("no files")
	}
}
