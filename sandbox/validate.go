// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/resource/deviceclass"
	"k8s.io/kubernetes/pkg/registry/resource/devicetaintrule"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaim"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaimtemplate"
	"k8s.io/kubernetes/pkg/registry/resource/resourceslice"

	"kerf.dev/kerf/sandbox/manifest"
)

// Validate checks the objects of the set with the API server's own rules, CEL
// expressions included, without an API server. It knows the kinds for which
// mistakes are likely, those of devices and pods; the others, and what depends
// on the state of the cluster, are left to Apply. The error is manifest.Errors.
//
// It switches the sandbox's feature gates on, as Start does.
func Validate(ctx context.Context, set *manifest.Set) error {
	if err := enableFeatures(); err != nil {
		return err
	}
	strategies := createStrategies(set)
	var mistakes manifest.Errors
	for _, object := range set.Objects {
		strategy, known := strategies[object.GroupVersionKind().GroupKind()]
		if !known {
			continue
		}
		refused, err := validate(ctx, object, strategy)
		if err != nil {
			return fmt.Errorf("validate %s: %w", object.Describe(), err)
		}
		mistakes = append(mistakes, refused...)
	}
	if len(mistakes) == 0 {
		return nil
	}
	mistakes.Sort()
	return mistakes
}

// createStrategies are the rules by which kube-apiserver creates objects.
func createStrategies(set *manifest.Set) map[schema.GroupKind]rest.RESTCreateStrategy {
	namespaces := namespacesOf{set: set}
	return map[schema.GroupKind]rest.RESTCreateStrategy{
		{Group: "resource.k8s.io", Kind: "DeviceClass"}:           deviceclass.Strategy,
		{Group: "resource.k8s.io", Kind: "DeviceTaintRule"}:       devicetaintrule.Strategy,
		{Group: "resource.k8s.io", Kind: "ResourceSlice"}:         resourceslice.Strategy,
		{Group: "resource.k8s.io", Kind: "ResourceClaim"}:         resourceclaim.NewStrategy(namespaces, nil),
		{Group: "resource.k8s.io", Kind: "ResourceClaimTemplate"}: resourceclaimtemplate.NewStrategy(namespaces),
		{Kind: "Pod"}:                        pod.Strategy,
		{Group: "apps", Kind: "Deployment"}:  deployment.Strategy,
		{Group: "apps", Kind: "ReplicaSet"}:  replicaset.Strategy,
		{Group: "apps", Kind: "StatefulSet"}: statefulset.Strategy,
		{Group: "apps", Kind: "DaemonSet"}:   daemonset.Strategy,
		{Group: "batch", Kind: "Job"}:        job.Strategy,
	}
}

// validate does to one object what kube-apiserver does before it stores it.
func validate(ctx context.Context, object *manifest.Object, strategy rest.RESTCreateStrategy) (manifest.Errors, error) {
	gvk := object.GroupVersionKind()
	if !legacyscheme.Scheme.Recognizes(gvk) {
		return nil, nil // Apply says that the server does not have this version.
	}
	internal, err := internalObject(object)
	if err != nil {
		return nil, err
	}
	metadata, err := meta.Accessor(internal)
	if err != nil {
		return nil, err
	}
	namespace := metav1.NamespaceNone
	if strategy.NamespaceScoped() {
		namespace = cmp.Or(object.GetNamespace(), metav1.NamespaceDefault)
	}
	metadata.SetNamespace(namespace)
	if metadata.GetName() == "" {
		metadata.SetName(strategy.GenerateName(metadata.GetGenerateName()))
	}
	rest.FillObjectMetaSystemFields(metadata)
	ctx = request.WithRequestInfo(request.WithNamespace(ctx, namespace), &request.RequestInfo{
		IsResourceRequest: true, Verb: "create", APIGroup: gvk.Group, APIVersion: gvk.Version, Namespace: namespace,
	})
	err = refusal(object, rest.BeforeCreate(strategy, ctx, internal))
	var mistakes manifest.Errors
	if errors.As(err, &mistakes) {
		return mistakes, nil
	}
	return nil, err
}

// internalObject is the object with defaults, in the form that the rules are
// written for.
func internalObject(object *manifest.Object) (runtime.Object, error) {
	versioned, err := legacyscheme.Scheme.New(object.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, versioned); err != nil {
		return nil, err
	}
	legacyscheme.Scheme.Default(versioned)
	return legacyscheme.Scheme.ConvertToVersion(versioned, runtime.InternalGroupVersioner)
}

// namespacesOf lets the rules for claims see the namespaces of a set. They only
// ever get one, by name.
type namespacesOf struct {
	corev1client.NamespaceInterface
	set *manifest.Set
}

// Get returns the namespace in the set, or an empty one.
func (n namespacesOf) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Namespace, error) {
	for _, object := range n.set.Objects {
		if object.GetKind() == "Namespace" && object.GetName() == name {
			return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: object.GetLabels()}}, nil
		}
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, nil
}
