// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	// reported is where the code names a rule, which is always next to its level.
	reported  = regexp.MustCompile(`\b(Error|Warning),\s*(?:Rule: )?"([a-z-]+)"`)
	level     = regexp.MustCompile(`[(\s](Error|Warning),`)
	inPackage = regexp.MustCompile(`(?m)^//\t(error|warning)\s+(\S+)\s+(.+)$`)
	inDocs    = regexp.MustCompile("(?m)^\\| (error|warning) \\| `(\\S+)` \\| (.+) \\|$")
)

// TestRules compares the rules that the code has with the two lists of them.
func TestRules(t *testing.T) {
	own, docs := listed(t, "doc.go", inPackage), listed(t, "../docs/cli.md", inDocs)
	for i := range docs {
		docs[i] = strings.ReplaceAll(docs[i], "`", "")
	}
	if diff := cmp.Diff(own, docs); diff != "" {
		t.Errorf("rules (-lint/doc.go +docs/cli.md):\n%s", diff)
	}
	for i, rule := range own {
		own[i], _, _ = strings.Cut(rule, ": ")
	}
	slices.Sort(own)
	if diff := cmp.Diff(slices.Compact(inCode(t)), own); diff != "" {
		t.Errorf("rules (-code +lint/doc.go):\n%s", diff)
	}
}

// listed are the rules of a list, each as "level rule: what it finds".
func listed(t *testing.T, path string, line *regexp.Regexp) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var rules []string
	for _, m := range line.FindAllStringSubmatch(string(text), -1) {
		rules = append(rules, m[1]+" "+m[2]+": "+m[3])
	}
	return rules
}

// inCode are the rules that the code reports, each as "level rule", sorted.
func inCode(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var rules []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || file == "doc.go" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := reported.FindAllStringSubmatch(string(text), -1)
		for _, m := range found {
			rules = append(rules, strings.ToLower(m[1])+" "+m[2])
		}
		if n := len(level.FindAllString(string(text), -1)); n != len(found) {
			t.Errorf("%s: %d levels, of which %d have the name of a rule beside them", file, n, len(found))
		}
	}
	slices.Sort(rules)
	return rules
}
