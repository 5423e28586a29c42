// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

func defaults(change func(*KerfArgs)) *KerfArgs {
	budget := int32(200_000)
	args := &KerfArgs{
		BindingTimeout: &metav1.Duration{Duration: 10 * time.Minute},
		Scoring:        BestFit,
		StepBudget:     &budget,
	}
	if change != nil {
		change(args)
	}
	return args
}

func unknown(text string) runtime.Object {
	return &runtime.Unknown{ContentType: runtime.ContentTypeJSON, Raw: []byte(text)}
}

func TestDecode(t *testing.T) {
	for name, tc := range map[string]struct {
		in   runtime.Object
		want *KerfArgs
		// wantErr are parts of the error.
		wantErr []string
	}{
		"nothing":        {in: nil, want: defaults(nil)},
		"empty":          {in: unknown(""), want: defaults(nil)},
		"empty object":   {in: unknown("{}"), want: defaults(nil)},
		"null":           {in: unknown("null"), want: defaults(nil)},
		"json":           {in: unknown(`{"bindingTimeout":"10s"}`), want: defaults(func(a *KerfArgs) { a.BindingTimeout.Duration = 10 * time.Second })},
		"yaml":           {in: unknown("scoring: Spread\nstepBudget: 7\n"), want: defaults(func(a *KerfArgs) { a.Scoring = Spread; *a.StepBudget = 7 })},
		"registered":     {in: &KerfArgs{Scoring: Listed}, want: defaults(func(a *KerfArgs) { a.Scoring = Listed })},
		"typed":          {in: unknown(`{"apiVersion":"kubescheduler.kerf.dev/v1","kind":"KerfArgs"}`), want: defaults(func(a *KerfArgs) { a.APIVersion = "kubescheduler.kerf.dev/v1"; a.Kind = "KerfArgs" })},
		"other kind":     {in: unknown(`{"apiVersion":"kubescheduler.kerf.dev/v1","kind":"Other"}`), wantErr: []string{"KerfArgs", "Other", "kubescheduler.kerf.dev/v1"}},
		"other object":   {in: &metav1.Status{}, wantErr: []string{"KerfArgs", "*v1.Status"}},
		"unknown field":  {in: unknown(`{"filterTimeout":"10s"}`), wantErr: []string{"KerfArgs", "filterTimeout", "bindingTimeout, scoring and stepBudget"}},
		"wrong case":     {in: unknown(`{"BindingTimeout":"10s"}`), wantErr: []string{"BindingTimeout"}},
		"twice":          {in: unknown("scoring: Listed\nscoring: Spread\n"), wantErr: []string{"scoring"}},
		"not a duration": {in: unknown(`{"bindingTimeout":"soon"}`), wantErr: []string{"bindingTimeout", "soon"}},
		"short timeout":  {in: unknown(`{"bindingTimeout":"999ms"}`), wantErr: []string{"bindingTimeout", "999ms", "at least 1s"}},
		"bad scoring":    {in: unknown(`{"scoring":"bestfit"}`), wantErr: []string{"scoring", "bestfit", `"BestFit", "Listed", "Spread"`}},
		"zero budget":    {in: unknown(`{"stepBudget":0}`), wantErr: []string{"stepBudget", "greater than 0"}},
		"two mistakes":   {in: unknown(`{"stepBudget":-1,"scoring":"x"}`), wantErr: []string{"stepBudget", "scoring"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Decode(tc.in)
			if (err != nil) != (len(tc.wantErr) > 0) {
				t.Fatalf("got error %v, want parts %q", err, tc.wantErr)
			}
			for _, part := range tc.wantErr {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not mention %q", err, part)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("unexpected arguments (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeDoesNotChangeItsInput(t *testing.T) {
	in := &KerfArgs{}
	if _, err := Decode(in); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&KerfArgs{}, in); diff != "" {
		t.Errorf("input changed (-want +got):\n%s", diff)
	}
}

func TestRegisteredType(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	gvk := SchemeGroupVersion.WithKind(Kind)
	obj, _, err := codecs.UniversalDeserializer().Decode([]byte("bindingTimeout: 5s\n"), &gvk, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(obj)
	if err != nil {
		t.Fatal(err)
	}
	if got.BindingTimeout.Duration != 5*time.Second {
		t.Errorf("got timeout %s, want 5s", got.BindingTimeout.Duration)
	}
}

func TestDeepCopySharesNothing(t *testing.T) {
	a := defaults(nil)
	b := a.DeepCopy()
	*b.StepBudget = 1
	b.BindingTimeout.Duration = 1
	if diff := cmp.Diff(defaults(nil), a); diff != "" {
		t.Errorf("original changed (-want +got):\n%s", diff)
	}
	if (*KerfArgs)(nil).DeepCopyObject() != nil {
		t.Error("copy of nil is not nil")
	}
}
