// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Decode returns the arguments that obj stands for, defaulted and valid. obj is
// what a scheduler hands to a plugin: nil where nothing is configured,
// *runtime.Unknown with JSON or YAML, or *KerfArgs where the type is registered.
// The caller's object is not changed.
func Decode(obj runtime.Object) (*KerfArgs, error) {
	args := &KerfArgs{}
	switch obj := obj.(type) {
	case nil:
	case *KerfArgs:
		args = obj.DeepCopy()
	case *runtime.Unknown:
		if err := decodeStrictly(obj.Raw, args); err != nil {
			return nil, fmt.Errorf("%s: %w", Kind, err)
		}
	default:
		return nil, fmt.Errorf("%s: got arguments of type %T", Kind, obj)
	}
	if errs := Validate(nil, args); len(errs) > 0 {
		return nil, fmt.Errorf("%s: %w", Kind, errs.ToAggregate())
	}
	SetDefaults(args)
	return args, nil
}

// decodeStrictly reads one field after the other, so that every error can name
// its field: those of metav1.Duration do not.
func decodeStrictly(raw []byte, args *KerfArgs) error {
	doc, err := yaml.YAMLToJSONStrict(raw)
	if err != nil {
		return err
	}
	var fields map[string]json.RawMessage
	if err := kjson.UnmarshalCaseSensitivePreserveInts(doc, &fields); err != nil {
		return err
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		one := fmt.Appendf(nil, "{%q:%s}", name, fields[name])
		unknown, err := kjson.UnmarshalStrict(one, args)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		case len(unknown) > 0:
			errs = append(errs, fmt.Errorf("%s: unknown field, known are bindingTimeout, scoring and stepBudget", name))
		}
	}
	if len(errs) > 0 {
		return utilerrors.NewAggregate(errs)
	}
	got := schema.FromAPIVersionAndKind(args.APIVersion, args.Kind)
	if want := SchemeGroupVersion.WithKind(Kind); !got.Empty() && got != want {
		return fmt.Errorf("apiVersion and kind: got %s %s, want %s %s or none", args.APIVersion, args.Kind, SchemeGroupVersion, Kind)
	}
	return nil
}
