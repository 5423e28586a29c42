// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMistakes(t *testing.T) {
	for _, test := range []struct {
		name, input string
		want        []string
	}{
		{"scalar", "hello\n", []string{`f:1: document 1: is the string "hello", want an object with apiVersion and kind`}},
		{"list", "# comment\n- a\n", []string{`f:2: document 1: is a list, want an object with apiVersion and kind`}},
		{"syntax", "a: 1\n---\nb:\n  - c\n d: e\n", []string{
			`f:1: document 1: apiVersion: is missing, want the apiVersion of a Kubernetes object`,
			`f:4: document 2: not YAML: did not find expected key`,
		}},
		{"duplicate key", "apiVersion: v1\nkind: Pod\nkind: Pod\n", []string{`f:3: document 1: not YAML: key "kind" already set in map`}},
		{"no kind", "---\n# nothing\n---\napiVersion: v1\n", []string{`f:4: document 1: kind: is missing, want the kind of a Kubernetes object`}},
		{"no name", "apiVersion: v1\nkind: Node\n", []string{`f:1: document 1: Node: metadata.name: is missing`}},
		{"unknown field", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: b\n    imag: c\n",
			[]string{`f:7: document 1: Pod a: spec.containers[0].imag: unknown field in v1 Pod`}},
		{"wrong case", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  NodeName: b\n",
			[]string{`f:5: document 1: Pod a: spec.NodeName: unknown field in v1 Pod`}},
		{"wrong type", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n    name: b\n",
			[]string{`f:5: document 1: Pod a: spec.containers: is an object, want a list`}},
		{"bool for string", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels:\n    x.y/z: yes\n",
			[]string{`f:6: document 1: Pod a: metadata.labels[x.y/z]: is the boolean true, want a string`}},
		{"string for integer", "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nmetadata: {name: a}\nspec:\n  pool:\n    generation: one\n",
			[]string{`f:6: document 1: ResourceSlice a: spec.pool.generation: is the string "one", want an integer (int64)`}},
		{"quantity", "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus:\n  capacity:\n    cpu: 1\n    memory: 80 GiB\n",
			[]string{`f:7: document 1: Node a: status.capacity.memory: 80 GiB: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`}},
		{"no quantity", "apiVersion: v1\nkind: Node\nmetadata: {name: a}\nstatus:\n  capacity:\n    memory: {value: 80Gi}\n",
			[]string{`f:6: document 1: Node a: status.capacity.memory: is an object: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'`}},
		{"number for a string type", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  ownerReferences:\n  - {apiVersion: v1, kind: Node, name: b, uid: 1234}\n",
			[]string{`f:6: document 1: Pod a: metadata.ownerReferences[0].uid: is the number 1234, want a string`}},
		{"in a list", "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata: {name: a}\n- apiVersion: v1\n  kind: Node\n  metadata:\n    nam: b\n",
			[]string{`f:10: document 1: Node: metadata.nam: unknown field in v1 Node`}},
		{"twice", "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Node\nmetadata: {name: a}\n",
			[]string{`f:7: document 2: Node a: metadata.name: the object is also in f:1`}},
		{"twice in default", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: default}\n",
			[]string{`f:7: document 2: Pod default/a: metadata.name: the object is also in f:1`}},
		{"JSON", "{\"apiVersion\": \"v1\",\n \"kind\": \"Pod\", \"metadata\": {\"name\": \"a\"},\n \"spek\": {}}\n{,}",
			[]string{`f:4: document 2: not JSON: invalid character ',' looking for beginning of object key string`}},
		{"bad version", "apiVersion: a/b/c\nkind: Pod\nmetadata: {name: a}\n", []string{`f:1: document 1: Pod a: apiVersion: "a/b/c" is not GROUP/VERSION`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("f", strings.NewReader(test.input))
			if diff := cmp.Diff(test.want, messages(t, err)); diff != "" {
				t.Errorf("mistakes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestHostile: what would take a parser minutes, all memory, or a screen of output ends
// in one short mistake.
func TestHostile(t *testing.T) {
	const claim = "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: a}\nspec:\n  devices:\n    requests:\n"
	labels := func(last string) string {
		var text strings.Builder
		text.WriteString("apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels:\n")
		for i := range 50_000 {
			fmt.Fprintf(&text, "    x%d: y%d\n", i, i)
		}
		return text.String() + last
	}
	long := strings.Repeat("a", 1<<20)
	for _, test := range []struct{ name, input, want string }{
		{"amount", claim + "    - name: a\n      exactly: {capacity: {requests: {a.b/c: 1e-999999999}}}\n",
			`f:8: document 1: ResourceClaim a: spec.devices.requests[0].exactly.capacity.requests[a.b/c]: is "1e-999999999", want an exponent from -100 to 100`},
		{"amount in a list", "---\n---\nkind: List\napiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata: {name: a}\n  status: {capacity: {cpu: '1e999999999'}}\n",
			`f:9: document 1: Node a: status.capacity.cpu: is "1e999999999", want an exponent from -100 to 100`},
		{"amount in JSON", "{\"apiVersion\": \"v1\", \"kind\": \"Node\", \"metadata\": {\"name\": \"a\"},\n\"status\": {\"capacity\": {\"cpu\": 1e-999999999}}}",
			`f:2: document 1: Node a: status.capacity.cpu: is "1e-999999999", want an exponent from -100 to 100`},
		{"aliases", "a: 1\n---\na: &a " + long + "\nb: [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a, *a]\n",
			"f:4: document 2: aliases (*) make the document more than 10 times as large; write out what they stand for"},
		{"depth", "apiVersion: a.b/v1\nkind: C\nmetadata: {name: d}\nspec: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
			"f:4: document 1: has more than 200 values inside of one another; no object needs that"},
		{"a wrong value among many", labels("    z: 1\n"), `f:50006: document 1: Pod a: metadata.labels.z: is the number 1, want a string`},
		{"long name", "apiVersion: v1\nkind: Node\nmetadata: {name: " + long + "}\nspek: a\n",
			`f:4: document 1: Node ` + long[:maxName-len("Node ")] + `... (1048581 bytes): spek: unknown field in v1 Node`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("f", strings.NewReader(test.input))
			if got := messages(t, err); len(got) == 0 || got[len(got)-1] != test.want {
				t.Errorf("mistakes %.1000q, want at last %s", got, test.want)
			}
		})
	}
}

// endless is a pipe that nobody closes.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '\n'
	}
	return len(p), nil
}

func TestEndless(t *testing.T) {
	err := (&loader{most: 1000}).read("f", endless{})
	if diff := cmp.Diff([]string{"f: has more than 1000 bytes; split it"}, messages(t, err)); diff != "" {
		t.Errorf("mistakes (-want +got):\n%s", diff)
	}
}

// messages are the lines of Errors.
func messages(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var mistakes Errors
	if !errors.As(err, &mistakes) {
		t.Fatalf("error %T: %v, want Errors", err, err)
	}
	return strings.Split(mistakes.Error(), "\n")
}

func TestCheckComplete(t *testing.T) {
	const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: fabrics.example.com}
spec: {group: example.com, names: {kind: Fabric, plural: fabrics}, scope: Cluster, versions: []}
---
`
	for _, test := range []struct {
		name, input string
		want        []string
	}{
		{"kind", "apiVersion: v1\nkind: Nod\nmetadata: {name: a}\n",
			[]string{"f:2: document 1: Nod a: kind: there is no kind Nod in v1, and no CustomResourceDefinition for it in the input"}},
		{"version", "apiVersion: apps/v3\nkind: DaemonSet\nmetadata: {name: a}\n",
			[]string{"f:1: document 1: DaemonSet a: apiVersion: there is no DaemonSet in apps/v3, use apps/v1"}},
		{"custom kind", definition + "apiVersion: example.com/v1\nkind: Fabric\nmetadata: {name: a}\nanything: goes\n", nil},
		{"namespace", "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: b}\n",
			[]string{"f:3: document 1: Pod b/a: metadata.namespace: there is no Namespace b in the input"}},
		{"defined namespace", "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: b}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: b}\n", nil},
		{"useless namespace", "apiVersion: v1\nkind: Node\nmetadata: {name: a, namespace: b}\n", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			set, err := Parse("f", strings.NewReader(test.input))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, messages(t, set.CheckComplete())); diff != "" {
				t.Errorf("mistakes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOrderAndServerFields(t *testing.T) {
	set, err := Parse("f", strings.NewReader(`
apiVersion: v1
kind: PodList
items:
- apiVersion: v1
  kind: Pod
  metadata: {name: b, uid: x, resourceVersion: "1", creationTimestamp: null, ownerReferences: []}
  status: {phase: Running}
- apiVersion: v1
  kind: Pod
  metadata: {name: a}
---
apiVersion: v1
kind: Service
metadata: {name: service}
--- # a comment on the separator
apiVersion: v1
kind: Node
metadata: {name: node, uid: x}
status: {capacity: {cpu: "1"}}
---
apiVersion: v1
kind: Namespace
metadata: {name: namespace}
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, object := range set.Objects {
		got = append(got, object.Describe())
		if object.GetUID() != "" || object.GetResourceVersion() != "" {
			t.Errorf("%s has metadata of a server: %v", object.Describe(), object.Object["metadata"])
		}
		if _, status := object.Object["status"]; status != (object.GetKind() == "Node") {
			t.Errorf("%s: status kept: %t", object.Describe(), status)
		}
	}
	want := []string{"Namespace namespace", "Node node", "Service service", "Pod b", "Pod a"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"b.yaml":    "apiVersion: v1\nkind: Node\nmetadata: {name: b}\n",
		"a.yml":     "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n",
		"c.json":    `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "c"}} {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "d"}}`,
		"README.md": "not a manifest",
		"sub/x.yml": "not: read",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set, err := Load(strings.NewReader("apiVersion: v1\nkind: Node\nmetadata: {name: stdin}\n"), dir, "-")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, object := range set.Objects {
		got = append(got, object.GetName())
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "d", "stdin"}, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}

	_, err = Load(nil, filepath.Join(dir, "nowhere"))
	if err == nil || !strings.HasSuffix(err.Error(), "nowhere: no such file or directory") {
		t.Errorf("missing file: %v", err)
	}
	_, err = Load(nil, t.TempDir())
	if err == nil || !strings.HasSuffix(err.Error(), "the directory has no *.yaml, *.yml or *.json") {
		t.Errorf("empty directory: %v", err)
	}
}

func TestErrorfLine(t *testing.T) {
	set, err := Parse("f", strings.NewReader(`# comment
apiVersion: v1
kind: Pod
metadata:
  name: a
spec:
  containers:
  - name: a
  - name: b
    resources:
      limits:
        example.com/gpu: 1
`))
	if err != nil {
		t.Fatal(err)
	}
	for field, want := range map[string]int{
		"":                        2,
		"spec":                    6,
		"spec.containers[1].name": 9,
		"spec.containers[1].resources.limits[example.com/gpu]": 12,
		"spec.containers[1].image":                             9,
		"spec.containers[7].image":                             7,
		"status.phase":                                         2,
	} {
		if got := set.Objects[0].Errorf(field, "x").Line; got != want {
			t.Errorf("line of %q = %d, want %d", field, got, want)
		}
	}
}
