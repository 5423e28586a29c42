// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"kerf.dev/kerf/kube/cli"
)

// sample is output in the docs, below a comment with the command that prints it, and elision
// a line that stands for others.
var (
	sample  = regexp.MustCompile("(?m)^<!-- kerf (.*) -->\n```\n((?s:.*?))```$")
	elision = regexp.MustCompile(`(?m)^ *\.\.\.\n`)
)

// TestDocs holds the samples of the pages true that have any. A line "..." stands for any
// lines, and what comes after the end of a sample may be left out.
func TestDocs(t *testing.T) {
	pages, err := filepath.Abs("../../docs")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	inputs := map[string]string{"fifth.yaml": "testdata/examples.txtar", "dangling.yaml": "testdata/lint-pools.txtar"}
	work := t.TempDir()
	for name, archive := range inputs {
		if err := os.WriteFile(filepath.Join(work, name), fileOf(t, archive, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(work)
	t.Setenv("KUBECONFIG", filepath.Join(work, "no-kubeconfig"))
	outputOf(t, "simulate", "-f", filepath.Join(examples, "partitioned-gpus"), "--save", "after.yaml")
	if err := os.Symlink(pages, "docs"); err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"cli.md", "compound.md"} {
		t.Run(page, func(t *testing.T) { checkSamples(t, filepath.Join(pages, page)) })
	}
}

func checkSamples(t *testing.T, page string) {
	docs, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	samples := sample.FindAllStringSubmatch(string(docs), -1)
	if n := strings.Count(string(docs), "\n```\n") / 2; n != len(samples) || n == 0 {
		t.Errorf("%d of %d samples have the command that prints them", len(samples), n)
	}
	for _, s := range samples {
		got := strings.Split(outputOf(t, strings.Fields(s[1])...), "\n")
		for _, part := range elision.Split(s[2], -1) {
			if got = after(got, part); got == nil {
				t.Errorf("kerf %s does not print this, or not in this order:\n%s\nbut:\n%s", s[1], part, outputOf(t, strings.Fields(s[1])...))
				break
			}
		}
	}
}

// after returns what comes after some lines, nil where these are not among all.
func after(all []string, part string) []string {
	want := strings.Split(strings.TrimSuffix(part, "\n"), "\n")
	for i := range len(all) - len(want) + 1 {
		if slices.Equal(all[i:i+len(want)], want) {
			return all[i+len(want):]
		}
	}
	return nil
}

func outputOf(t *testing.T, args ...string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	cli.Main(t.Context(), "kerf", args, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut})
	if out.Len() == 0 {
		t.Fatalf("kerf %s prints nothing but: %s", strings.Join(args, " "), errOut.String())
	}
	return out.String()
}

func fileOf(t *testing.T, archive, name string) []byte {
	t.Helper()
	parsed, err := txtar.ParseFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(parsed.Files, func(f txtar.File) bool { return f.Name == name })
	if i < 0 {
		t.Fatalf("%s has no %s", archive, name)
	}
	return parsed.Files[i].Data
}
