// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package refusals

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"kerf.dev/kerf/kube/cli"
	"kerf.dev/kerf/kube/manifest"
	"kerf.dev/kerf/kube/manifest/variants"
	"kerf.dev/kerf/kube/rules"
	"kerf.dev/kerf/sandbox"
	"kerf.dev/kerf/sandbox/sandboxtest"
)

// beside is a cluster in which the generated manifest is the only thing that can be refused.
//
//go:embed testdata/beside.yaml
var beside []byte

// commands are those of kerf that judge manifests. A variant goes to one of them, in turn.
var commands = [][]string{{"lint"}, {"simulate"}, {"explain", "pods"}, {"explain", "claims"}, {"devices"}}

func TestRefusals(t *testing.T) {
	s := sandboxtest.Start(t, sandbox.Options{})
	config := rest.CopyConfig(s.Config())
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c := &comparison{T: t, client: client, beside: filepath.Join(t.TempDir(), "beside.yaml")}
	if err := os.WriteFile(c.beside, beside, 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := manifest.Parse("sound.yaml", bytes.NewReader(variants.Sound))
	if err != nil {
		t.Fatal(err)
	}
	others, err := manifest.Parse("beside.yaml", bytes.NewReader(beside))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), others); err != nil {
		t.Fatal(err)
	}
	for _, object := range set.Objects {
		if object.Object["status"] != nil && object.GetKind() == "ResourceClaim" {
			c.compareStatus(object)
		} else {
			c.compare(object)
		}
	}
	t.Logf("%d manifests, of which an API server refuses %d", c.all, c.refused)
	if c.all < 3000 || c.refused < c.all/3 || c.all-c.refused < c.all/10 {
		t.Errorf("%d of %d manifests are refused, which compares little", c.refused, c.all)
	}
}

type comparison struct {
	*testing.T
	client       dynamic.Interface
	beside       string
	all, refused int
}

// compare compares all variants of a manifest.
func (c *comparison) compare(object *manifest.Object) {
	c.compareAll(object, variants.Of(object.Object, ""), func(variant *unstructured.Unstructured) error {
		_, err := c.resource(variant).Create(c.Context(), variant, metav1.CreateOptions{
			DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
		})
		return err
	})
}

// compareStatus compares all variants of a status, which is written once the object was
// created.
func (c *comparison) compareStatus(object *manifest.Object) {
	created, err := c.resource(object.Unstructured).Create(c.Context(), object.Unstructured, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	c.compareAll(object, variants.Of(object.Object, "status"), func(variant *unstructured.Unstructured) error {
		changed := created.DeepCopy()
		changed.Object["status"] = variant.Object["status"]
		_, err := c.resource(variant).UpdateStatus(c.Context(), changed, metav1.UpdateOptions{
			DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
		})
		return err
	})
}

func (c *comparison) compareAll(object *manifest.Object, all []variants.Variant, write func(*unstructured.Unstructured) error) {
	for _, v := range all {
		server, err := answerOf(write(&unstructured.Unstructured{Object: runtime.DeepCopyJSON(v.Object)}))
		if err != nil {
			c.Errorf("%s: %s: %v", object.Describe(), v.Name, err)
			continue
		}
		if strings.Contains(server.text, "not found for device") {
			continue // depends on a node, see the contract of package rules
		}
		if v.Name == "sound" && server.refused {
			c.Errorf("%s is refused: %s", object.Describe(), server)
		}
		c.all++
		if server.refused {
			c.refused++
		}
		text, err := json.Marshal(v.Object)
		if err != nil {
			c.Fatal(err)
		}
		own := c.judge(text)
		if own.refused != server.refused {
			c.Errorf("%s: %s: refused %t, by the server %t\nrules:  %s\nserver: %s", object.Describe(), v.Name, own.refused, server.refused, own, server)
		} else if diff := cmp.Diff(server.fields, own.fields); server.fields != nil && own.fields != nil && diff != "" {
			c.Errorf("%s: %s: fields (-server +rules):\n%s", object.Describe(), v.Name, diff)
		}
		command := commands[c.all%len(commands)]
		if code, said := c.run(command, text); (code == 2) != server.refused || code > 2 {
			c.Errorf("%s: %s: kerf %s ends with %d, by the server refused: %t\nkerf:   %s\nserver: %s",
				object.Describe(), v.Name, strings.Join(command, " "), code, server.refused, said, server)
		}
	}
}

// answer says whether a manifest is refused, and for which fields where it is not as
// it cannot be decoded.
type answer struct {
	refused bool
	fields  []string
	text    string
}

func (a answer) String() string { return a.text }

func (c *comparison) resource(object *unstructured.Unstructured) dynamic.ResourceInterface {
	kind := object.GroupVersionKind()
	resource := strings.ToLower(kind.Kind) + "s"
	if strings.HasSuffix(resource, "ss") {
		resource = strings.TrimSuffix(resource, "s") + "es"
	}
	client := c.client.Resource(kind.GroupVersion().WithResource(resource))
	if namespace := object.GetNamespace(); namespace != "" {
		return client.Namespace(namespace)
	}
	return client
}

// answerOf takes a refusal of the server for an answer, and other errors for failures.
func answerOf(err error) (answer, error) {
	var status apierrors.APIStatus
	if err == nil || !errors.As(err, &status) {
		return answer{}, err
	}
	a := answer{refused: true, text: status.Status().Message}
	if status.Status().Reason == metav1.StatusReasonInvalid {
		for _, cause := range status.Status().Details.Causes {
			a.fields = append(a.fields, cause.Field)
		}
	}
	a.fields = sorted(a.fields)
	return a, nil
}

// judge asks the rules.
func (c *comparison) judge(text []byte) answer {
	set, err := manifest.Parse("-", bytes.NewReader(text))
	if err != nil {
		return answer{refused: true, text: err.Error()}
	}
	err = rules.Check(c.Context(), set)
	if err == nil {
		return answer{}
	}
	a := answer{refused: true, text: err.Error()}
	var refused manifest.Errors
	if !errors.As(err, &refused) {
		c.Errorf("the rules fail: %v", err)
	}
	for _, mistake := range refused {
		a.fields = append(a.fields, mistake.Field)
	}
	a.fields = sorted(a.fields)
	return a
}

func sorted(fields []string) []string {
	slices.Sort(fields)
	return slices.Compact(fields)
}

// run runs a command on the manifest and returns its exit code and what it says.
func (c *comparison) run(command []string, text []byte) (int, string) {
	var out, errOut bytes.Buffer
	streams := genericiooptions.IOStreams{In: bytes.NewReader(text), Out: &out, ErrOut: &errOut}
	code := cli.Main(context.WithoutCancel(c.Context()), "kerf", append(slices.Clone(command), "-f", c.beside, "-f", "-"), streams)
	return code, errOut.String()
}
