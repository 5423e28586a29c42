// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"kerf.dev/kerf/cluster"
	"kerf.dev/kerf/dump"
	"kerf.dev/kerf/kube/manifest"
	"kerf.dev/kerf/kube/manifest/variants"
	"kerf.dev/kerf/kube/rules"
	"kerf.dev/kerf/lint"
	"kerf.dev/kerf/scenario"
	"kerf.dev/kerf/scenario/core"
	"kerf.dev/kerf/selector"
)

// repository is the folder with all manifests, dumps and stories.
const repository = "../.."

// TestLintAndServer compares, for generated objects and all of the repository, what an
// API server refuses with what lint calls an error: these are the same, field by field,
// but for the differences that are listed. Package rules is what an API server says, see
// package sandbox/refusals.
func TestLintAndServer(t *testing.T) {
	server, err := rules.New(func(string) *v1.Namespace { return nil })
	if err != nil {
		t.Fatal(err)
	}
	c := &comparison{T: t, server: server, differences: map[string]string{}}
	c.compareVariants()
	c.compareFiles()
	c.compareStories()
	t.Logf("%d objects, of which an API server refuses %d", c.objects, c.refused)
	if c.objects < 10000 || c.refused < 3000 {
		t.Errorf("%d objects, of which %d are refused, which compares little", c.objects, c.refused)
	}
	for _, d := range slices.Concat(lintOnly, serverOnly) {
		for _, what := range d.what {
			n := len(c.differences)
			maps.DeleteFunc(c.differences, func(seen, _ string) bool { return isPart(seen, what) })
			if len(c.differences) == n {
				t.Errorf("%s: is no difference any more; take it off the list", what)
			}
		}
	}
	for _, what := range slices.Sorted(maps.Keys(c.differences)) {
		t.Errorf("%s: is no difference that is listed; first seen: %s", what, c.differences[what])
	}
}

type comparison struct {
	*testing.T
	server           *rules.Rules
	objects, refused int
	// differences are those that were seen, each with where.
	differences map[string]string
}

// compareVariants compares generated objects, each alone.
func (c *comparison) compareVariants() {
	set, err := manifest.Parse("sound.yaml", bytes.NewReader(variants.Sound))
	if err != nil {
		c.Fatal(err)
	}
	for _, object := range set.Objects {
		for _, v := range variants.Of(object.Object, "") {
			text, err := json.Marshal(v.Object)
			if err != nil {
				c.Fatal(err)
			}
			// What cannot be decoded is in no cluster and in no dump.
			if set, err := manifest.Parse("-", bytes.NewReader(text)); err == nil {
				c.compare(object.Describe()+": "+v.Name, c.typed(set))
			}
		}
	}
}

// compareFiles compares the objects of each YAML file, also of those in archives, with
// all that is in it.
func (c *comparison) compareFiles() {
	err := filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch filepath.Ext(path) {
		case ".yaml", ".yml":
			c.compareFile(path, text)
		case ".txtar":
			for _, file := range txtar.Parse(text).Files {
				c.compareFile(path+"/"+file.Name, file.Data)
			}
		}
		return nil
	})
	if err != nil {
		c.Fatal(err)
	}
}

func (c *comparison) compareFile(name string, text []byte) {
	if set, err := manifest.Parse(name, bytes.NewReader(text)); err == nil {
		c.compare(name, c.typed(set))
	}
}

// typed are the objects of manifests and dumps that decide about devices.
func (c *comparison) typed(set *manifest.Set) []cluster.Object {
	var all []cluster.Object
	for _, object := range set.Objects {
		if isDump(object) {
			if d, err := decodeDump(object); err == nil { // others are there to be refused
				all = slices.AppendSeq(all, d.All)
			}
			continue
		}
		if !kinds[object.GroupVersionKind()] {
			continue
		}
		typed, err := scheme.Scheme.New(object.GroupVersionKind())
		if err == nil {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed)
		}
		of, ok := typed.(cluster.Object)
		if err != nil || !ok {
			c.Fatalf("%s: %T: %v", object.Describe(), typed, err)
		}
		all = append(all, of)
	}
	return all
}

// compareStories compares what stories make, with all that there is at that moment.
func (c *comparison) compareStories() {
	files, err := filepath.Glob(filepath.Join(repository, "scenarios/*.txtar"))
	if err != nil {
		c.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			c.Fatal(err)
		}
		story, err := scenario.Parse(filepath.Base(file), text)
		if err != nil {
			c.Fatal(err)
		}
		if story.TellableOn("core") {
			story.Run(&watched{core.New(), func(now *scenario.State) { c.compare(story.Name, slices.Collect(now.All)) }})
		}
	}
}

// watched is a backend that shows what there is whenever nothing moves any more.
type watched struct {
	*core.Backend
	show func(*scenario.State)
}

func (w *watched) Settle() error {
	err := w.Backend.Settle()
	if err == nil {
		var now *scenario.State
		if now, err = w.State(); err == nil {
			w.show(now)
		}
	}
	return err
}

// compare compares the answers about objects that are in one cluster.
func (c *comparison) compare(where string, objects []cluster.Object) {
	in := &input{dump: dump.New()}
	server := map[string][]string{} // object -> fields
	for _, object := range objects {
		if err := in.dump.Add(object); err != nil {
			c.Fatal(err)
		}
		id := identity(cluster.KindOf(object), object.GetNamespace(), object.GetName())
		reasons, err := c.server.Judge(c.Context(), object)
		if err != nil {
			c.Fatalf("%s: %s: %v", where, id, err)
		}
		for _, reason := range reasons {
			server[id] = append(server[id], reason.Field)
		}
		c.objects++
		c.refused += min(len(reasons), 1)
	}
	refusals, err := in.refusals(c.Context())
	if err != nil {
		c.Fatalf("%s: %v", where, err)
	}
	own := map[string][]string{}
	for _, finding := range lint.Check(&in.dump.Objects, selector.New(), refusals) {
		if finding.Level != lint.Error {
			continue
		}
		id := finding.Object()
		own[id] = append(own[id], finding.Field)
		if !slices.ContainsFunc(server[id], func(field string) bool { return overlap(finding.Field, field) }) {
			c.differ(finding.Rule, "%s: %s: %s: %s", where, id, finding.Field, finding.Problem)
		}
	}
	for id, fields := range server {
		for _, field := range fields {
			if !slices.ContainsFunc(own[id], func(of string) bool { return overlap(of, field) }) {
				kind, _, _ := strings.Cut(id, " ")
				c.differ(kind+" "+index.ReplaceAllString(field, "[]"), "%s: %s: %s", where, id, field)
			}
		}
	}
}

func (c *comparison) differ(what, format string, args ...any) {
	if c.differences[what] == "" {
		c.differences[what] = fmt.Sprintf(format, args...)
	}
}

// index is what the paths of one field differ in.
var index = regexp.MustCompile(`\[[^\]]*\]`)

// overlap reports whether one of two fields is a part of the other.
func overlap(a, b string) bool { return isPart(a, b) || isPart(b, a) }

// isPart reports whether a field is another one, which may be the whole object, or a part
// of it.
func isPart(field, other string) bool {
	rest, found := strings.CutPrefix(field, other)
	return found && (other == "" || rest == "" || rest[0] == '.' || rest[0] == '[')
}

// difference is one that is meant to be, and why. docs/cli.md has them, too.
type difference struct {
	what []string
	why  string
}

// lintOnly are rules that find errors in what an API server takes.
var lintOnly = []difference{
	{[]string{"pool-incomplete", "pool-slice-count", "pool-collision", "duplicate-device", "duplicate-counter-set", "dangling-counter", "oversized-device"},
		"a server looks at one slice, these are about a pool"},
	{[]string{"claim-unknown-class", "pod-unknown-request", "pod-elsewhere", "overallocated", "same-hardware"},
		"a server looks at one object, these are about several"},
	{[]string{"invalid-node-selector"},
		"a server does not read the numbers of `Gt` and `Lt`; with one that is none, no node matches"},
	{[]string{"uncountable-quantity", "capacity-twice", "capacity-too-many"},
		"the request or slice is well formed, but no device can be allocated"},
	{[]string{"class-selector-invalid", "claim-selector-invalid", "claim-derived-invalid"},
		"a server has no limit for regular expressions, which would keep the scheduler busy"},
	{[]string{"compound-invalid", "compound-too-many"},
		"no rules of Kubernetes are about kerf's own kinds; a policy means something together with devices"},
}

// serverOnly are kinds and fields for which an API server refuses objects in which lint
// finds no error.
var serverOnly = []difference{
	{[]string{"DeviceClass spec.config", "ResourceClaim spec.devices.config[].opaque", "ResourceClaimTemplate spec.spec.devices.config[].opaque",
		"ResourceClaim status.allocation.devices.config", "ResourceClaim status.devices[].data", "ResourceClaim status.devices[].networkData"},
		"a dump does not keep what is of drivers alone"},
	{[]string{"Pod spec.containers[].image", "Pod spec.initContainers[].image", "Pod spec.restartPolicy"},
		"a dump does not keep what does not decide about devices"},
	{[]string{"ResourceClaim spec.devices.requests[].adminAccess", "ResourceClaim status.allocation.devices.results[].adminAccess"},
		"the label of the namespace counted when the claim was made"},
}

// rows are the lines of a table in docs/cli.md.
func rows(of []difference) string {
	var text strings.Builder
	for _, d := range of {
		fmt.Fprintf(&text, "| `%s` | %s |\n", strings.Join(d.what, "`, `"), d.why)
	}
	return text.String()
}

// TestDifferencesDocumented compares the lists with those of docs/cli.md.
func TestDifferencesDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "docs/cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| error of `kerf lint` alone | because |\n|---|---|\n" + rows(lintOnly) + "\n",
		"| refused by an API server alone | because |\n|---|---|\n" + rows(serverOnly) + "\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("docs/cli.md lacks this table:\n%s", want)
		}
	}
}
