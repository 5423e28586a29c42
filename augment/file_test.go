// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package augment_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	resourceapi "k8s.io/api/resource/v1"
	"pgregory.net/rapid"

	"kerf.dev/kerf/augment"
)

func TestFaults(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/faults.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(archive.Files); i += 2 {
		file, want := archive.Files[i], archive.Files[i+1]
		t.Run(file.Name, func(t *testing.T) {
			if want.Name != file.Name+".want" {
				t.Fatalf("%s is followed by %s", file.Name, want.Name)
			}
			_, err := augment.Parse(file.Name, file.Data)
			if diff := cmp.Diff(string(want.Data), fmt.Sprintln(err)); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
			var fault *augment.Error
			if !errors.As(err, &fault) || fault.File != file.Name {
				t.Errorf("the error has no augment.Error of %s", file.Name)
			}
		})
	}
}

// What the documentation shows is a good file that does what it says.
func TestDocumentation(t *testing.T) {
	page, err := os.ReadFile("../docs/augment.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(page), "```yaml\n")
	example, _, closed := strings.Cut(after, "```")
	if !found || !closed {
		t.Fatal("docs/augment.md has no example")
	}
	file := parse(t, "docs/augment.md", example)
	result := augment.NewRules(file).Apply("gpu.example.com", node())
	if len(result.Added) != 3 || len(result.Added[1].Attributes) != 2 {
		t.Errorf("the example adds %v", result.Added)
	}
}

// rack is a document of one rule; its add is indented by two.
const rack = `apiVersion: kerf.dev/v1alpha1
kind: DeviceAugmentation
driver: gpu.example.com
rules:
- select: {name: "*"}
`

func TestLimitsOfOneRule(t *testing.T) {
	var attributes, values, taints strings.Builder
	for i := range resourceapi.ResourceSliceMaxAttributesAndCapacitiesPerDevice + 1 {
		fmt.Fprintf(&attributes, "     a%d: {int: 1}\n", i)
	}
	for range resourceapi.ResourceSliceMaxAttributeValuesPerDevice {
		values.WriteString("1, ")
	}
	for i := range resourceapi.DeviceTaintsMaxLength + 1 {
		fmt.Fprintf(&taints, "    - {key: k%d, effect: None}\n", i)
	}
	for _, tc := range []struct{ add, want string }{
		{" attributes:\n" + attributes.String(), "f.yaml:7: rules[0].add.attributes: are 33: a device has at most 32"},
		{" attributes: {a: {ints: [" + values.String() + "1]}}", "f.yaml:7: rules[0].add.attributes: have 49 values: a device has at most 48"},
		{" taints:\n" + taints.String(), "f.yaml:7: rules[0].add.taints: are 17: a device has at most 16"},
	} {
		_, err := augment.Parse("f.yaml", []byte(rack+"  add:\n   "+tc.add))
		if diff := cmp.Diff(tc.want, fmt.Sprint(err)); diff != "" {
			t.Errorf("error (-want +got):\n%s", diff)
		}
	}
}

func TestFileTooLarge(t *testing.T) {
	_, err := augment.Parse("f.yaml", bytes.Repeat([]byte("#"), augment.MaxFileSize+1))
	if want := "f.yaml: has 1048577 bytes, more than 1048576: spread the rules over several files"; fmt.Sprint(err) != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

// Of a file that is wrong everywhere, the first faults are enough.
func TestManyFaults(t *testing.T) {
	_, err := augment.Parse("f.yaml", []byte(rack+"  add: {}\n"+strings.Repeat("- {}\n", 30)))
	lines := strings.Split(fmt.Sprint(err), "\n")
	if got := lines[len(lines)-1]; len(lines) != 21 || got != "f.yaml: and 41 more" {
		t.Errorf("%d lines, the last is %s", len(lines), got)
	}
}

// JSON is read whatever its white space.
func TestJSON(t *testing.T) {
	want := parse(t, "f.yaml", rack+`  add: {attributes: {example.com/path: {string: "a/b"}}}`).Documents()
	got := parse(t, "f.json", "{\n\t\"apiVersion\":\t\"kerf.dev/v1alpha1\", \"kind\": \"DeviceAugmentation\",\n\t\"driver\": \"gpu.example.com\",\n"+
		"\t\"rules\": [\n\t\t{\"select\": {\"name\": \"*\"}, \"add\": {\"attributes\": {\"example.com/path\": {\"string\": \"a\\/\\u0062\"}}}}\n\t]\n}\n").Documents()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("documents (-yaml +json):\n%s", diff)
	}
}

func TestIsFileName(t *testing.T) {
	for _, name := range []string{"rack.yaml", "rack.yml", "rack.json", "10-rack.v2.yaml"} {
		if !augment.IsFileName(name) {
			t.Errorf("%s is not read", name)
		}
	}
	for _, name := range []string{
		"..data", ".rack.yaml", ".rack.yaml.swp", ".#rack.yaml", "#rack.yaml#", "rack.yaml~", "rack.yaml.tmp", "rack.yaml.kate-swp", "4913", "README.md", "",
	} {
		if augment.IsFileName(name) {
			t.Errorf("%s is read", name)
		}
	}
}

// What Marshal writes, Parse reads as it was.
func TestMarshalRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var documents []augment.Document
		for _, rules := range rapid.SliceOfN(rapid.SliceOfN(genRule(), 1, 4), 1, 3).Draw(t, "documents") {
			documents = append(documents, augment.NewDocument(rapid.SampledFrom(drivers).Draw(t, "driver"), rules...))
		}
		data, err := augment.Marshal(documents...)
		if err != nil {
			t.Fatal(err)
		}
		file, err := augment.Parse("f.yaml", data)
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		if diff := cmp.Diff(documents, file.Documents()); diff != "" {
			t.Fatalf("documents (-want +got):\n%s", diff)
		}
	})
}

func TestMarshalRefuses(t *testing.T) {
	_, err := augment.Marshal(augment.NewDocument("gpu.example.com", augment.Rule{Select: augment.Selector{Name: "*"}}))
	if want := "file to write:5: rules[0].add: adds nothing: give attributes or taints"; fmt.Sprint(err) != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}

func parse(t testing.TB, name, text string) *augment.File {
	t.Helper()
	file, err := augment.Parse(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return file
}
