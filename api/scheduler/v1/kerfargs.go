// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// Kind is the kind of KerfArgs.
	Kind = "KerfArgs"
	// DefaultBindingTimeout is the default of KerfArgs.BindingTimeout, the
	// same as for the DynamicResources plugin.
	DefaultBindingTimeout = 600 * time.Second
	// DefaultStepBudget is the default of KerfArgs.StepBudget.
	DefaultStepBudget = 200_000

	// minBindingTimeout is the least that the DynamicResources plugin takes.
	minBindingTimeout = time.Second
)

// Scoring says which of several possible devices and nodes to choose.
type Scoring string

const (
	// BestFit takes the smallest sufficient device and keeps what is left
	// usable: large partitions and whole cards stay possible.
	BestFit Scoring = "BestFit"
	// Spread is the reverse of packing.
	Spread Scoring = "Spread"
	// Listed takes the first device that fits in the order in which drivers
	// list them, as the DynamicResources plugin does.
	Listed Scoring = "Listed"
)

// scorings are all values of Scoring.
var scorings = []Scoring{BestFit, Listed, Spread}

// KerfArgs are the arguments of the Kerf plugin.
type KerfArgs struct {
	metav1.TypeMeta `json:",inline"`

	// BindingTimeout limits how long a pod waits for the binding conditions
	// of its devices (KEP-5007), counted from the moment of allocation, also
	// across restarts of the scheduler. Then the allocation is given up and
	// the pod is scheduled again. At least 1s; default 600s.
	// +optional
	BindingTimeout *metav1.Duration `json:"bindingTimeout,omitempty"`

	// Scoring is BestFit (the default), Listed or Spread.
	// +optional
	Scoring Scoring `json:"scoring,omitempty"`

	// StepBudget limits the search for devices on one node: the number of
	// devices that may be tried, and a measure for all other work (CEL, counting,
	// ranking, explanations, memory), which may take as long together. When it is
	// used up the node is left out and the pod says so. Greater than 0; default
	// 200000, which takes a second at most.
	// +optional
	StepBudget *int32 `json:"stepBudget,omitempty"`
}

// SetDefaults fills in what is not set.
func SetDefaults(args *KerfArgs) {
	if args.BindingTimeout == nil {
		args.BindingTimeout = &metav1.Duration{Duration: DefaultBindingTimeout}
	}
	if args.Scoring == "" {
		args.Scoring = BestFit
	}
	if args.StepBudget == nil {
		budget := int32(DefaultStepBudget)
		args.StepBudget = &budget
	}
}

// Validate reports every field with a value that is not allowed. Fields that
// are not set are fine. path is the path of the arguments, nil for the root.
func Validate(path *field.Path, args *KerfArgs) field.ErrorList {
	var errs field.ErrorList
	if d := args.BindingTimeout; d != nil && d.Duration < minBindingTimeout {
		errs = append(errs, field.Invalid(path.Child("bindingTimeout"), d.Duration.String(), "must be at least 1s"))
	}
	switch args.Scoring {
	case "", BestFit, Listed, Spread:
	default:
		errs = append(errs, field.NotSupported(path.Child("scoring"), args.Scoring, scorings))
	}
	if b := args.StepBudget; b != nil && *b <= 0 {
		errs = append(errs, field.Invalid(path.Child("stepBudget"), *b, "must be greater than 0"))
	}
	return errs
}

// DeepCopyInto copies the arguments into out.
func (a *KerfArgs) DeepCopyInto(out *KerfArgs) {
	*out = *a
	if a.BindingTimeout != nil {
		timeout := *a.BindingTimeout
		out.BindingTimeout = &timeout
	}
	if a.StepBudget != nil {
		budget := *a.StepBudget
		out.StepBudget = &budget
	}
}

// DeepCopy returns a copy that shares nothing with the arguments.
func (a *KerfArgs) DeepCopy() *KerfArgs {
	if a == nil {
		return nil
	}
	out := new(KerfArgs)
	a.DeepCopyInto(out)
	return out
}

// DeepCopyObject implements runtime.Object.
func (a *KerfArgs) DeepCopyObject() runtime.Object {
	if a == nil {
		return nil
	}
	return a.DeepCopy()
}
