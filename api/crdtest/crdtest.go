// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crdtest has tests look at CRDs the way an API server does. Nothing else
// imports it.
package crdtest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	schemavalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// crds is seen from the packages api/GROUP/VERSION.
const crds = "../../../deploy/crds/"

// Generated compares the CRDs of these files, and the copying of the package, with what the
// package's types give.
func Generated(t *testing.T, files ...string) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "tool", "-modfile=../../../tools/go.mod", "controller-gen",
		"object:headerFile=header.txt", "crd", "paths=.", "output:crd:dir="+dir, "output:object:dir="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("controller-gen: %v\n%s", err, out)
	}
	committed := map[string]string{"zz_generated.deepcopy.go": "zz_generated.deepcopy.go"}
	for _, file := range files {
		committed[file] = crds + file
	}
	for generated, committed := range committed {
		want, err := os.ReadFile(filepath.Join(dir, generated))
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(committed)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, got) {
			t.Errorf("%s is not what the types give: run make gen", committed)
		}
	}
}

// Served is a CRD as an API server serves it.
type Served struct {
	Structural *structuralschema.Structural
	schema     schemavalidation.SchemaValidator
	cel        *cel.Validator
}

// Load reads a CRD of deploy/crds and checks it as an API server does, the cost of its rules
// included.
func Load(t *testing.T, file string) *Served {
	t.Helper()
	text, err := os.ReadFile(crds + file)
	if err != nil {
		t.Fatal(err)
	}
	var v1 apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &v1); err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apiextensions.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	scheme.Default(&v1)
	v1.Status.StoredVersions = []string{"v1alpha1"}
	internal := &apiextensions.CustomResourceDefinition{}
	if err := scheme.Convert(&v1, internal, nil); err != nil {
		t.Fatal(err)
	}
	if errs := crdvalidation.ValidateCustomResourceDefinition(t.Context(), internal); len(errs) > 0 {
		t.Fatalf("CRD %s: %v", file, errs.ToAggregate())
	}
	names := internal.Spec.Names
	for _, category := range names.Categories {
		if category == names.Singular || category == "fabric" {
			// "kubectl get fabric NAME" would ask for all of the category.
			t.Errorf("CRD %s: category %s is the name of a resource", file, category)
		}
	}
	props := internal.Spec.Validation.OpenAPIV3Schema
	r := &Served{}
	if r.Structural, err = structuralschema.NewStructural(props); err != nil {
		t.Fatal(err)
	}
	if r.schema, _, err = schemavalidation.NewSchemaValidator(props); err != nil {
		t.Fatal(err)
	}
	r.cel = cel.NewValidator(r.Structural, true, celconfig.PerCallLimit)
	return r
}

// Admit defaults an object and returns what is wrong with it.
func (r *Served) Admit(t *testing.T, obj, old map[string]any) field.ErrorList {
	t.Helper()
	defaulting.Default(obj, r.Structural)
	if old == nil {
		errs := schemavalidation.ValidateCustomResource(nil, obj, r.schema)
		more, _ := r.cel.Validate(t.Context(), nil, r.Structural, obj, nil, celconfig.RuntimeCELCostBudget)
		return append(errs, more...)
	}
	errs := schemavalidation.ValidateCustomResourceUpdate(nil, obj, old, r.schema)
	more, _ := r.cel.Validate(t.Context(), nil, r.Structural, obj, old, celconfig.RuntimeCELCostBudget)
	return append(errs, more...)
}

// Decode reads an object.
func Decode(t *testing.T, text string) map[string]any {
	t.Helper()
	var obj map[string]any
	if err := yaml.Unmarshal([]byte(text), &obj); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return obj
}

// Check compares what is wrong with what is to be, nothing if it is empty.
func Check(t *testing.T, errs field.ErrorList, want string) {
	t.Helper()
	switch err := errs.ToAggregate(); {
	case want == "" && err != nil:
		t.Errorf("unexpected: %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got %v, want %q", err, want)
	}
}
