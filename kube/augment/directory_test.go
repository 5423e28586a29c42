// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package augment_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	pure "kerf.dev/kerf/augment"
	"kerf.dev/kerf/kube/augment"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const driver = "gpu.example.com"

// limit is how long a test waits for what must happen.
const limit = time.Minute

// ruleFile gives all devices of the driver an attribute example.com/NAME.
func ruleFile(name, value string) string {
	return "apiVersion: kerf.dev/v1alpha1\nkind: DeviceAugmentation\ndriver: " + driver + "\nrules:\n" +
		"- {select: {name: '*'}, add: {attributes: {example.com/" + name + ": {string: \"" + value + "\"}}}}\n"
}

// write puts a file in place as programs should: complete, under its name.
func write(t *testing.T, directory, name, content string) {
	t.Helper()
	temporary := filepath.Join(directory, "."+name)
	if err := os.WriteFile(temporary, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temporary, filepath.Join(directory, name)); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// receive waits for what must come.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(limit):
		t.Fatalf("nothing came within %s", limit)
		panic("unreachable")
	}
}

// says writes rules as the attributes that they give, file by file.
func says(rules pure.Rules) string {
	var all []string
	for _, f := range rules.Files() {
		for _, d := range f.Documents() {
			for _, rule := range d.Rules {
				for name, value := range rule.Add.Attributes {
					all = append(all, fmt.Sprintf("%s: %s=%s", f.Name(), strings.TrimPrefix(string(name), "example.com/"), *value.StringValue))
				}
			}
		}
	}
	return strings.Join(all, ", ")
}

// watched is a Directory with what it said.
type watched struct {
	*augment.Directory
	changes chan string
	reports chan error
}

func open(t *testing.T, path string) *watched {
	t.Helper()
	w := &watched{changes: make(chan string, 100), reports: make(chan error, 100)}
	var err error
	w.Directory, err = augment.Open(t.Context(), path, w.options())
	must(t, err)
	t.Cleanup(w.Close)
	return w
}

func (w *watched) options() augment.Options {
	return augment.Options{
		Driver:  driver,
		Changed: func(rules pure.Rules) { w.changes <- says(rules) },
		Report:  func(err error) { w.reports <- err },
	}
}

// change waits for the next change and compares what the rules say after it.
func (w *watched) change(t *testing.T, want string) {
	t.Helper()
	if got := receive(t, w.changes); got != want {
		t.Fatalf("the rules say %q, want %q", got, want)
	}
}

func TestOpenReadsBeforeItReturns(t *testing.T) {
	directory := t.TempDir()
	write(t, directory, "b.yaml", ruleFile("rack", "r7"))
	write(t, directory, "a.json", `{"apiVersion": "kerf.dev/v1alpha1", "kind": "DeviceAugmentation", "driver": "gpu.example.com",
		"rules": [{"select": {"name": "*"}, "add": {"attributes": {"example.com/row": {"string": "2"}}}}]}`)
	for _, ignored := range []string{".hidden.yaml", "b.yaml~", "b.yaml.tmp", "#b.yaml#", "README.md"} {
		must(t, os.WriteFile(filepath.Join(directory, ignored), []byte("not: a file of rules"), 0o600))
	}
	must(t, os.Mkdir(filepath.Join(directory, "sub"), 0o700))
	w := open(t, directory)
	if got, want := says(w.Rules()), "a.json: row=2, b.yaml: rack=r7"; got != want {
		t.Errorf("the rules say %q, want %q", got, want)
	}
	w.Close()
	if len(w.reports) > 0 {
		t.Errorf("report: %v", <-w.reports)
	}
}

func TestOpenRefuses(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	good := (&watched{}).options()
	for _, tc := range []struct {
		name, path, want string
		options          augment.Options
	}{
		{"a missing directory", missing, "augmentation directory " + missing + ": does not exist: create it, or set WaitForDirectory", good},
		{"a file", file, "augmentation directory " + file + ": not a directory", good},
		{"no path", "", "the augmentation directory has no path: give one", good},
		{"no driver", missing, "options: driver is empty: give the name of the driver", augment.Options{Report: good.Report}},
		{"no report", missing, "options: report is nil: give a function that logs the error", augment.Options{Driver: driver}},
	} {
		if _, err := augment.Open(t.Context(), tc.path, tc.options); fmt.Sprint(err) != tc.want {
			t.Errorf("%s: error is %v, want %s", tc.name, err, tc.want)
		}
	}
}

func TestOpenWaitsForTheDirectory(t *testing.T) {
	base := t.TempDir()
	path := filepath.Join(base, "etc", "augment")
	w := &watched{reports: make(chan error, 100)}
	options := augment.Options{Driver: driver, WaitForDirectory: true, Report: func(err error) { w.reports <- err }}

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := augment.Open(cancelled, path, options); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), path+": does not exist") {
		t.Errorf("error of a wait that was cancelled: %v", err)
	}

	opened := make(chan *augment.Directory)
	go func() {
		d, err := augment.Open(t.Context(), path, options)
		if err != nil {
			w.reports <- err
		}
		opened <- d
	}()
	must(t, os.Mkdir(filepath.Dir(path), 0o700))
	// Complete before it appears: what Open returns has been read.
	prepared := filepath.Join(base, "prepared")
	must(t, os.Mkdir(prepared, 0o700))
	write(t, prepared, "a.yaml", ruleFile("rack", "r7"))
	must(t, os.Rename(prepared, path))
	d := receive(t, opened)
	if d == nil {
		t.Fatal(<-w.reports)
	}
	defer d.Close()
	if got, want := says(d.Rules()), "a.yaml: rack=r7"; got != want {
		t.Errorf("the rules say %q, want %q", got, want)
	}
}

func TestChanges(t *testing.T) {
	directory := t.TempDir()
	w := open(t, directory)
	write(t, directory, "a.yaml", ruleFile("rack", "r7"))
	w.change(t, "a.yaml: rack=r7")

	// What says nothing new about the driver is no change: were it one, it would
	// come before the next.
	write(t, directory, "a.yaml", "# a comment\n"+ruleFile("rack", "r7"))
	write(t, directory, "other.yaml", strings.Replace(ruleFile("rack", "r8"), driver, "nic.example.com", 1))
	must(t, os.WriteFile(filepath.Join(directory, "a.yaml~"), []byte("old"), 0o600))
	if n := len(w.Load().Files()); n != 2 {
		t.Fatalf("%d files are in force, want a.yaml and other.yaml", n)
	}
	must(t, os.Remove(filepath.Join(directory, "other.yaml")))
	must(t, os.Remove(filepath.Join(directory, "a.yaml")))
	w.change(t, "")

	// In place, in several steps.
	file, err := os.Create(filepath.Join(directory, "b.yaml"))
	must(t, err)
	for line := range strings.Lines(ruleFile("row", "2")) {
		_, err := file.WriteString(line)
		must(t, err)
	}
	must(t, file.Close())
	w.change(t, "b.yaml: row=2")
}

func TestBrokenFile(t *testing.T) {
	directory := t.TempDir()
	write(t, directory, "a.yaml", ruleFile("rack", "r7"))
	write(t, directory, "b.yaml", "rules: []")
	w := open(t, directory)
	var broken *augment.BrokenFile
	if err := receive(t, w.reports); !errors.As(err, &broken) || broken.Kept || broken.Path != filepath.Join(directory, "b.yaml") {
		t.Errorf("report about a file that was never good: %v", err)
	}
	write(t, directory, "a.yaml", strings.Replace(ruleFile("rack", "r8"), "string", "strong", 1))
	err := receive(t, w.reports)
	if !errors.As(err, &broken) || !broken.Kept {
		t.Errorf("report about a file that was good: %v", err)
	}
	var fault *pure.Error
	if !errors.As(err, &fault) || fault.File != "a.yaml" || fault.Line != 5 || fault.Field != "rules[0].add.attributes[example.com/rack].strong" {
		t.Errorf("the report lacks the fault: %v", err)
	}
	if want := "file " + directory + "/a.yaml is broken, its last good version stays in force: a.yaml:5: "; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("report is %q, want %q...", err, want)
	}
	if got, want := says(w.Load()), "a.yaml: rack=r7"; got != want {
		t.Errorf("the rules say %q, want %q", got, want)
	}
	// Both are mended at once for who reads, and nothing is said again.
	write(t, directory, "b.yaml", ruleFile("row", "2"))
	w.change(t, "a.yaml: rack=r7, b.yaml: row=2")
	write(t, directory, "a.yaml", ruleFile("rack", "r9"))
	w.change(t, "a.yaml: rack=r9, b.yaml: row=2")
	w.Close()
	if len(w.reports) > 0 {
		t.Errorf("another report: %v", <-w.reports)
	}
}

// What is no file does not block, and a link to nothing is said to be broken.
func TestNoFile(t *testing.T) {
	directory := t.TempDir()
	must(t, os.Mkdir(filepath.Join(directory, "a.yaml"), 0o700))
	must(t, syscall.Mkfifo(filepath.Join(directory, "b.yaml"), 0o600))
	must(t, os.Symlink(filepath.Join(directory, "nothing"), filepath.Join(directory, "c.yaml")))
	w := open(t, directory)
	w.Close()
	var got []string
	for len(w.reports) > 0 {
		got = append(got, strings.ReplaceAll((<-w.reports).Error(), directory, "DIR"))
	}
	want := []string{
		"file DIR/a.yaml is broken and ignored: is no regular file: rename it, or put a file in its place",
		"file DIR/b.yaml is broken and ignored: is no regular file: rename it, or put a file in its place",
		"file DIR/c.yaml is broken and ignored: stat DIR/c.yaml: no such file or directory",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
}

// configMap lays out files as the kubelet does: they are links through ..data,
// which is itself a link to a directory of this version.
func configMap(t *testing.T, directory, version string, files map[string]string) {
	t.Helper()
	must(t, os.Mkdir(filepath.Join(directory, "..v"+version), 0o700))
	for name, content := range files {
		must(t, os.WriteFile(filepath.Join(directory, "..v"+version, name), []byte(content), 0o600))
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(directory, name)); !errors.Is(err, os.ErrExist) {
			must(t, err)
		}
	}
	must(t, os.Symlink("..v"+version, filepath.Join(directory, "..data_tmp")))
	must(t, os.Rename(filepath.Join(directory, "..data_tmp"), filepath.Join(directory, "..data")))
}

// All files of a ConfigMap change at once.
func TestConfigMap(t *testing.T) {
	directory := t.TempDir()
	configMap(t, directory, "1", map[string]string{"a.yaml": ruleFile("rack", "r1"), "b.yaml": ruleFile("row", "1")})
	w := open(t, directory)
	if got, want := says(w.Rules()), "a.yaml: rack=r1, b.yaml: row=1"; got != want {
		t.Errorf("the rules say %q, want %q", got, want)
	}
	for _, version := range []string{"2", "3"} {
		configMap(t, directory, version, map[string]string{"a.yaml": ruleFile("rack", "r"+version), "b.yaml": ruleFile("row", version)})
		w.change(t, "a.yaml: rack=r"+version+", b.yaml: row="+version)
	}
	w.Close()
	if len(w.reports) > 0 {
		t.Errorf("report: %v", <-w.reports)
	}
}

// The directory, given as a link, is replaced by another; then it is gone, which
// changes nothing, and comes back.
func TestDirectoryIsReplaced(t *testing.T) {
	base := t.TempDir()
	for _, version := range []string{"1", "2", "3"} {
		must(t, os.Mkdir(filepath.Join(base, version), 0o700))
		write(t, filepath.Join(base, version), "a.yaml", ruleFile("rack", "r"+version))
	}
	path := filepath.Join(base, "augment")
	must(t, os.Symlink("1", path))
	w := open(t, path)
	must(t, os.Symlink("2", path+".new"))
	must(t, os.Rename(path+".new", path))
	w.change(t, "a.yaml: rack=r2")
	write(t, filepath.Join(base, "2"), "a.yaml", ruleFile("rack", "r2b"))
	w.change(t, "a.yaml: rack=r2b")

	must(t, os.Remove(path))
	err := receive(t, w.reports)
	if want := "augmentation directory " + path + ": cannot be read, what was read last stays in force: no such file or directory"; err.Error() != want {
		t.Errorf("report is %v, want %s", err, want)
	}
	if got, want := says(w.Load()), "a.yaml: rack=r2b"; got != want {
		t.Errorf("the rules say %q, want %q", got, want)
	}
	must(t, os.Symlink("3", path))
	w.change(t, "a.yaml: rack=r3")
	write(t, filepath.Join(base, "3"), "a.yaml", ruleFile("rack", "r3b"))
	w.change(t, "a.yaml: rack=r3b")
}
