// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package story

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"kerf.dev/kerf/kube/manifest"
	"kerf.dev/kerf/scenario"
)

// resources are the API resources of the kinds that stories know.
var resources = map[string]string{
	"Namespace":             "namespaces",
	"Node":                  "nodes",
	"ResourceSlice":         "resourceslices",
	"DeviceClass":           "deviceclasses",
	"DeviceTaintRule":       "devicetaintrules",
	"ResourceClaim":         "resourceclaims",
	"ResourceClaimTemplate": "resourceclaimtemplates",
	"Pod":                   "pods",
}

func (b *backend) resource(k scenario.Kind, namespace string) dynamic.ResourceInterface {
	gvr := schema.FromAPIVersionAndKind(k.APIVersion, k.Name).GroupVersion().WithResource(resources[k.Name])
	if !k.Namespaced {
		return b.sandbox.Dynamic().Resource(gvr)
	}
	return b.sandbox.Dynamic().Resource(gvr).Namespace(namespace)
}

// Apply creates the objects that do not exist; of the others everything but the
// status is replaced, as a driver or user would. Nodes offer what they are to offer.
func (b *backend) Apply(objects ...scenario.Object) error {
	b.settled = nil
	var created []scenario.Object
	for _, o := range objects {
		exists, err := b.update(o)
		if err != nil {
			return fmt.Errorf("%s %s: %w", scenario.KindOf(o).Name, o.GetName(), err)
		}
		if exists {
			continue
		}
		if served(o) == "" {
			created = append(created, o)
			continue
		}
		if err := b.createNewest(o); err != nil {
			return err
		}
	}
	return b.create(created...)
}

// create creates objects.
func (b *backend) create(objects ...scenario.Object) error {
	var all bytes.Buffer
	for _, o := range objects {
		text, err := json.Marshal(o)
		if err != nil {
			return err
		}
		all.Write(text)
		all.WriteByte('\n')
	}
	set, err := manifest.Parse("story", &all)
	if err != nil {
		return err
	}
	// It completes nodes, and creates pods when the scheduler has seen all else.
	return b.sandbox.Apply(b.ctx, set)
}

// update replaces an object and reports whether it exists.
func (b *backend) update(o scenario.Object) (exists bool, err error) {
	kind := scenario.KindOf(o)
	if kind.Word == "" {
		return false, nil
	}
	r := b.resource(kind, o.GetNamespace())
	old, err := b.notLeaving(r, o.GetName())
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return false, err
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetResourceVersion(old.GetResourceVersion())
	if _, err = r.Update(b.ctx, u, metav1.UpdateOptions{}); err != nil {
		return true, err
	}
	return true, b.offer(o)
}

// notLeaving returns the object of that name; it waits for the end of one that
// is being deleted.
func (b *backend) notLeaving(r dynamic.ResourceInterface, name string) (*unstructured.Unstructured, error) {
	var found *unstructured.Unstructured
	var last error
	err := poll(b.ctx, func() (bool, error) {
		found, last = r.Get(b.ctx, name, metav1.GetOptions{})
		return last != nil || found.GetDeletionTimestamp() == nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s is being deleted: %w", name, err)
	}
	return found, last
}

// Delete deletes an object. A pod is gone when Delete returns; a claim stays as
// long as it is in use.
func (b *backend) Delete(k scenario.Kind, namespace, name string) error {
	b.settled = nil
	r := b.resource(k, namespace)
	now := int64(0)
	background := metav1.DeletePropagationBackground
	if err := r.Delete(b.ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now, PropagationPolicy: &background}); err != nil {
		return err
	}
	if k.Name != "Pod" {
		return nil
	}
	return poll(b.ctx, func() (bool, error) {
		_, err := r.Get(b.ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}

// poll asks again and again until it is done.
func poll(ctx context.Context, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("not within %s", limit), ctx.Err())
		}
	}
}
