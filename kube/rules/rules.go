// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rules says of an object what an API server would, without one: it has
// Kubernetes' own defaults and its own rules for creating objects and for writing the
// status of claims, CEL expressions included.
//
// # Contract
//
//   - It knows the kinds of devices, pods, what makes pods, nodes, namespaces and
//     quotas. Of others it says nothing.
//   - What depends on other objects is left to a server, but for the label of the
//     namespace that allows admin access. So is what admission asks for.
//   - All feature gates of devices are on, see [FeatureGates]: a server that has one
//     off drops the fields that it guards, and refuses no more than this.
//   - Refusals are in Kubernetes' words, and those of manifests manifest.Errors.
package rules

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"kerf.dev/kerf/kube/manifest"
)

// Rules are those of an API server that has certain namespaces.
type Rules struct {
	strategies strategies
}

// New returns the rules. The namespace of that name decides about admin access; one that
// is not known is nil. It switches all feature gates on, as [EnableFeatures] does.
func New(namespace func(name string) *corev1.Namespace) (*Rules, error) {
	if err := EnableFeatures(); err != nil {
		return nil, err
	}
	return &Rules{newStrategies(namespacesOf{known: namespace})}, nil
}

// Check checks the objects of a set, with its namespaces. The error is
// manifest.Errors.
func Check(ctx context.Context, set *manifest.Set) error {
	rules, err := New(namespacesIn(set))
	if err != nil {
		return err
	}
	var mistakes manifest.Errors
	for _, object := range set.Objects {
		var refused manifest.Errors
		_, err := rules.Admit(ctx, object)
		if errors.As(err, &refused) {
			mistakes = append(mistakes, refused...)
		} else if err != nil {
			return err
		}
	}
	if len(mistakes) == 0 {
		return nil
	}
	mistakes.Sort()
	return mistakes
}

// Admit does to an object what kube-apiserver does before it stores it, and returns it
// with Kubernetes' defaults, but for the times of taints: those are when a server
// writes them. It is nil where the kind or version is not known. The error is
// manifest.Errors where the object is refused.
func (r *Rules) Admit(ctx context.Context, object *manifest.Object) (runtime.Object, error) {
	strategy, known := r.strategies[object.GroupVersionKind().GroupKind()]
	if !known || !legacyscheme.Scheme.Recognizes(object.GroupVersionKind()) {
		return nil, nil // Applying it says whether the server has this kind and version.
	}
	versioned, err := legacyscheme.Scheme.New(object.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, versioned); err != nil {
		return nil, err
	}
	timeless := withoutTimes(versioned)
	legacyscheme.Scheme.Default(versioned)
	if err := Refusal(object, judge(ctx, object.GroupVersionKind(), versioned, strategy)); err != nil {
		return nil, refusedOr(object, err)
	}
	timeless()
	return versioned, nil
}

// refusedOr says which object an error is about that is no refusal.
func refusedOr(object *manifest.Object, err error) error {
	var refused manifest.Errors
	if errors.As(err, &refused) {
		return refused
	}
	return fmt.Errorf("validate %s: %w", object.Describe(), err)
}

// Default sets Kubernetes' defaults of an object that no manifest has, such as a pod that
// a controller would make.
func Default(object runtime.Object) { legacyscheme.Scheme.Default(object) }

// Reason is one reason to refuse an object.
type Reason struct {
	Field, Message string
}

// Judge says of an object that some API server has why one of this version would
// refuse it: not at all where it would take it, or knows no such kind.
func (r *Rules) Judge(ctx context.Context, object runtime.Object) ([]Reason, error) {
	kinds, _, err := legacyscheme.Scheme.ObjectKinds(object)
	if runtime.IsNotRegisteredError(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	strategy, known := r.strategies[kinds[0].GroupKind()]
	if !known {
		return nil, nil
	}
	own := object.DeepCopyObject()
	legacyscheme.Scheme.Default(own)
	err = judge(ctx, kinds[0], own, strategy)
	reasons := reasonsOf(err)
	if reasons == nil {
		return nil, err
	}
	return reasons, nil
}

// judge creates the object in the form that the rules are written for, and writes
// its status where manifests have one.
func judge(ctx context.Context, kind schema.GroupVersionKind, versioned runtime.Object, s strategy) error {
	// The form may share memory with what it is made from.
	internal, err := legacyscheme.Scheme.ConvertToVersion(versioned.DeepCopyObject(), runtime.InternalGroupVersioner)
	if err != nil {
		return err
	}
	metadata, err := meta.Accessor(internal)
	if err != nil {
		return err
	}
	namespace := metav1.NamespaceNone
	if s.create.NamespaceScoped() {
		namespace = cmp.Or(metadata.GetNamespace(), metav1.NamespaceDefault)
	}
	metadata.SetNamespace(namespace)
	if metadata.GetName() == "" {
		metadata.SetName(s.create.GenerateName(metadata.GetGenerateName()))
	}
	rest.FillObjectMetaSystemFields(metadata)
	// What is being deleted is judged as it was before that.
	metadata.SetDeletionTimestamp(nil)
	metadata.SetDeletionGracePeriodSeconds(nil)
	withStatus := internal.DeepCopyObject()
	err = rest.BeforeCreate(s.create, asked(ctx, kind, namespace, "create", ""), internal)
	if err != nil || s.status == nil {
		return err
	}
	for _, o := range []runtime.Object{internal, withStatus} {
		stored, err := meta.Accessor(o)
		if err != nil {
			return err
		}
		stored.SetResourceVersion("1")
	}
	return rest.BeforeUpdate(s.status, asked(ctx, kind, namespace, "update", "status"), withStatus, internal)
}

// asked is the context of a request by somebody who may do everything.
func asked(ctx context.Context, kind schema.GroupVersionKind, namespace, verb, subresource string) context.Context {
	ctx = request.WithUser(request.WithNamespace(ctx, namespace), &user.DefaultInfo{Name: "kerf", Groups: []string{user.SystemPrivilegedGroup}})
	return request.WithRequestInfo(ctx, &request.RequestInfo{
		IsResourceRequest: true, Verb: verb, Subresource: subresource, APIGroup: kind.Group, APIVersion: kind.Version, Namespace: namespace,
	})
}

// Refusal turns the API server's verdict on an object into mistakes in the
// manifest. Other errors, and nil, stay as they are.
func Refusal(object *manifest.Object, err error) error {
	reasons := reasonsOf(err)
	if reasons == nil {
		return err
	}
	var mistakes manifest.Errors
	for _, reason := range reasons {
		mistakes = append(mistakes, object.Errorf(reason.Field, "%s", reason.Message))
	}
	return mistakes
}

// reasonsOf are those of an API server's verdict, nil where an error is none.
func reasonsOf(err error) []Reason {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return nil
	}
	switch status.Status().Reason {
	case metav1.StatusReasonInvalid, metav1.StatusReasonBadRequest, metav1.StatusReasonForbidden,
		metav1.StatusReasonNotFound, metav1.StatusReasonRequestEntityTooLarge, metav1.StatusReasonMethodNotAllowed:
	default:
		return nil
	}
	var reasons []Reason
	if details := status.Status().Details; details != nil && status.Status().Reason == metav1.StatusReasonInvalid {
		for _, cause := range details.Causes {
			reasons = append(reasons, Reason{cause.Field, cause.Message})
		}
	}
	if len(reasons) == 0 {
		reasons = []Reason{{"", "refused by the API server: " + status.Status().Message}}
	}
	return reasons
}
