// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/kube/manifest"
	"kerf.dev/kerf/kube/rules"
	"kerf.dev/kerf/sandbox/hollow"
)

// fieldManager owns the fields that Apply sets.
const fieldManager = "kerf-sandbox"

// Apply creates the objects of the set, in its order. An object that exists is
// merged with the one in the set. Nodes become hollow nodes, ready from the
// start; claims keep the status of the manifest; owner references are
// connected to the owner of that name, or dropped if there is none.
//
// Pods are not created before a running scheduler has seen everything else, so
// that the result does not depend on what it happens to see first. What it cannot see,
// because it is cut off or a watch is held, is not waited for.
//
// A shelf in the set is stocked, and the Fabrics of the set use the service that
// manages it; see package rack. For Fabrics without a shelf only kerf-controller runs.
//
// The error is manifest.Errors if the API server refused objects; it has all of
// them, and the other objects have been created.
func (s *Sandbox) Apply(ctx context.Context, set *manifest.Set) error {
	if err := s.rack.Equip(ctx, set); err != nil {
		return err
	}
	var refused manifest.Errors
	seen := false
	for _, object := range set.Objects {
		if object.MakesPods() && !seen {
			if err := errors.Join(s.rack.WaitOffered(ctx), s.waitSeen(ctx)); err != nil {
				return err
			}
			seen = true
		}
		err := s.apply(ctx, object)
		var mistakes manifest.Errors
		switch {
		case errors.As(err, &mistakes):
			refused = append(refused, mistakes...)
		case err != nil:
			return fmt.Errorf("apply %s: %w", object.Describe(), err)
		}
	}
	if len(refused) == 0 {
		return nil
	}
	refused.Sort()
	return refused
}

// seenLimit bounds how long the scheduler may take to see a change: more than the pause
// that it makes between two attempts to reach an API server from which it was cut off.
const seenLimit = 2 * time.Minute

// waitSeen waits until the running scheduler has seen of the state what it can see.
func (s *Sandbox) waitSeen(ctx context.Context) error {
	limit := time.After(seenLimit)
	for {
		state, err := s.State(ctx)
		if err != nil {
			return err
		}
		// What it cannot see, because it is cut off or a watch is held, it need not see.
		connected := s.scheduler.Connected()
		missing := s.scheduler.behind(state, func(kind string) bool { return connected && !s.holds.blinds("scheduler", kind) })
		if missing == "" {
			return nil
		}
		select {
		case <-limit:
			return fmt.Errorf("the scheduler has not seen the latest %s within %s; see %s", missing, seenLimit, s.LogFile())
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		case <-s.done:
			return errors.New("the sandbox has stopped")
		}
	}
}

// mapping finds the resource of a kind. One that is not known may be new.
func (s *Sandbox) mapping(kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	mapping, err := s.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if !meta.IsNoMatchError(err) {
		return mapping, err
	}
	s.mapper.Reset()
	return s.mapper.RESTMapping(kind.GroupKind(), kind.Version)
}

func (s *Sandbox) apply(ctx context.Context, object *manifest.Object) error {
	mapping, err := s.mapping(object.GroupVersionKind())
	if meta.IsNoMatchError(err) {
		return manifest.Errors{object.Errorf("apiVersion", "the API server has no %s in %s", object.GetKind(), object.GetAPIVersion())}
	}
	if err != nil {
		return err
	}
	desired := object.DeepCopy()
	client := s.resource(mapping, desired)
	if err := s.prepare(ctx, desired); err != nil {
		return err
	}
	status, _ := desired.Object["status"].(map[string]any)
	created, err := client.Create(ctx, desired, metav1.CreateOptions{FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict})
	if apierrors.IsAlreadyExists(err) {
		created, err = merge(ctx, client, desired)
	}
	if err != nil {
		return rules.Refusal(object, err)
	}
	switch mapping.GroupVersionKind.Kind {
	case "CustomResourceDefinition":
		return s.waitEstablished(ctx, client, created.GetName())
	case "ResourceQuota":
		return s.waitCounted(ctx, client, created.GetName())
	case "ResourceClaim", "Node":
		if len(status) == 0 {
			return nil // A write of nothing could fail: others change the object at once.
		}
		created.Object["status"] = status
		_, err = client.UpdateStatus(ctx, created, metav1.UpdateOptions{FieldManager: fieldManager})
		return rules.Refusal(object, err)
	}
	return nil
}

// resource returns the client for the object and sets or removes its namespace
// according to the scope of its kind.
func (s *Sandbox) resource(mapping *meta.RESTMapping, object *unstructured.Unstructured) dynamic.ResourceInterface {
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		object.SetNamespace("")
		return s.dynamic.Resource(mapping.Resource)
	}
	if object.GetNamespace() == "" {
		object.SetNamespace(metav1.NamespaceDefault)
	}
	return s.dynamic.Resource(mapping.Resource).Namespace(object.GetNamespace())
}

// prepare completes nodes and fabrics, and connects owner references.
func (s *Sandbox) prepare(ctx context.Context, object *unstructured.Unstructured) error {
	if object.GroupVersionKind() == v1alpha1.SchemeGroupVersion.WithKind(manifest.FabricKind) {
		if err := s.rack.Connect(object); err != nil {
			return err
		}
	}
	if object.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("Node") {
		var node corev1.Node
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &node); err != nil {
			return err
		}
		hollow.Complete(&node)
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&node)
		if err != nil {
			return err
		}
		object.Object = content
	}
	var owners []metav1.OwnerReference
	for _, owner := range object.GetOwnerReferences() {
		uid, err := s.ownerUID(ctx, owner, object.GetNamespace())
		if err != nil {
			return err
		}
		if uid != "" {
			owner.UID = uid
			owners = append(owners, owner)
		}
	}
	if len(object.GetOwnerReferences()) > 0 {
		object.SetOwnerReferences(owners)
	}
	return nil
}

// ownerUID is the UID that the owner has in the sandbox, "" if there is none:
// the garbage collector would delete an object whose owner does not exist.
func (s *Sandbox) ownerUID(ctx context.Context, owner metav1.OwnerReference, namespace string) (types.UID, error) {
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return "", nil //nolint:nilerr // Not the version of any object that exists.
	}
	mapping, err := s.mapping(gv.WithKind(owner.Kind))
	if meta.IsNoMatchError(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var client dynamic.ResourceInterface = s.dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() != meta.RESTScopeNameRoot {
		client = s.dynamic.Resource(mapping.Resource).Namespace(namespace)
	}
	object, err := client.Get(ctx, owner.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return object.GetUID(), nil
}

func merge(ctx context.Context, client dynamic.ResourceInterface, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	patch, err := object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return client.Patch(ctx, object.GetName(), types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict})
}

// waitCounted waits until a quota holds: its controller has counted what there is. Before
// that the API server may know of no quota.
func (s *Sandbox) waitCounted(ctx context.Context, client dynamic.ResourceInterface, name string) error {
	limit := time.After(seenLimit)
	for {
		object, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var quota corev1.ResourceQuota
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &quota); err != nil {
			return err
		}
		if apiequality.Semantic.DeepEqual(quota.Status.Hard, quota.Spec.Hard) {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-limit:
			return fmt.Errorf("ResourceQuota %s was not counted within %s; does kube-controller-manager run?", name, seenLimit)
		case <-ctx.Done():
			return fmt.Errorf("wait for ResourceQuota %s to be counted: %w", name, ctx.Err())
		case <-s.done:
			return errors.New("the sandbox has stopped")
		}
	}
}

// waitEstablished waits until objects of a new custom kind can be created: the
// definition is accepted and the kind can be discovered.
func (s *Sandbox) waitEstablished(ctx context.Context, client dynamic.ResourceInterface, name string) error {
	for {
		object, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var definition apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &definition); err != nil {
			return err
		}
		if established(&definition) {
			s.mapper.Reset()
			kind := schema.GroupKind{Group: definition.Spec.Group, Kind: definition.Spec.Names.Kind}
			if _, err := s.mapper.RESTMapping(kind); !meta.IsNoMatchError(err) {
				return err
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("wait for CustomResourceDefinition %s: %w", name, ctx.Err())
		}
	}
}

func established(definition *apiextensionsv1.CustomResourceDefinition) bool {
	for _, condition := range definition.Status.Conditions {
		if condition.Type == apiextensionsv1.Established {
			return condition.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}
