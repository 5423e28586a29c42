// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package story

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/sandbox"
	"kerf.dev/kerf/sandbox/part"
)

// usesClaims are the kinds that use devices, or lead to what does.
var usesClaims = []string{"pods", "resourceclaims", "deployments", "replicasets", "statefulsets", "daemonsets", "jobs"}

// clearFabric has the controller detach everything, and then stops all parts of a
// fabric. What a story has broken or killed is mended before.
func clearFabric(ctx context.Context, s *sandbox.Sandbox) error {
	fabrics, err := s.Rack().Fabrics(ctx)
	if err != nil {
		return err
	}
	if len(fabrics.Fabrics)+len(fabrics.Attachments) > 0 {
		if err := mend(ctx, s); err != nil {
			return err
		}
		if err := release(ctx, s); err != nil {
			return err
		}
		for _, resource := range []string{"deviceattachments", "fabrics"} {
			if err := deleteFabricKind(ctx, s, v1alpha1.SchemeGroupVersion.WithResource(resource)); err != nil {
				return err
			}
		}
	}
	return s.Rack().Stop()
}

// mend starts and reconnects what is needed to detach devices, beside the scheduler.
func mend(ctx context.Context, s *sandbox.Sandbox) error {
	if err := mendPart(ctx, s, "controller"); err != nil {
		return err
	}
	if len(s.Rack().Shelf().Hosts) == 0 {
		return nil
	}
	if err := s.Parts().Start(ctx, "redfish", ""); err != nil && !errors.Is(err, part.ErrRunning) {
		return err
	}
	s.Rack().Redfish().ClearFaults()
	return nil
}

// release has no device be used any more.
func release(ctx context.Context, s *sandbox.Sandbox) error {
	var left []string
	err := poll(ctx, func() (bool, error) {
		state, err := s.State(ctx)
		if err != nil {
			return false, err
		}
		left, err = deleteAll(ctx, s, state, func(kind string) bool { return slices.Contains(usesClaims, kind) })
		return len(left) == 0, err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(left, " "), err)
	}
	return nil
}

// deleteFabricKind deletes all objects of a kind and waits until they are gone: an
// attachment when its device is detached.
func deleteFabricKind(ctx context.Context, s *sandbox.Sandbox, resource schema.GroupVersionResource) error {
	var left []string
	err := poll(ctx, func() (bool, error) {
		left = nil
		all, err := s.Dynamic().Resource(resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for i := range all.Items {
			o := &all.Items[i]
			phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
			left = append(left, resource.Resource+"/"+o.GetName()+" "+phase)
			if o.GetDeletionTimestamp() == nil {
				if err := s.Dynamic().Resource(resource).Delete(ctx, o.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
					return false, err
				}
			}
		}
		return len(left) == 0, nil
	})
	if err != nil {
		return errors.Join(fmt.Errorf("%s is not gone", strings.Join(left, ", ")), err)
	}
	return nil
}
