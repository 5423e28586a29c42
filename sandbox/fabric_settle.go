// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/sandbox/cluster"
)

var (
	fabricResource     = v1alpha1.SchemeGroupVersion.WithResource("fabrics")
	attachmentResource = v1alpha1.SchemeGroupVersion.WithResource("deviceattachments")
)

// Fabrics reads the fabrics and their attachments from the API server. There are none
// before StartFabric.
func (s *Sandbox) Fabrics(ctx context.Context) (*cluster.Fabrics, error) {
	fabrics := &cluster.Fabrics{}
	if !s.hasFabric() {
		return fabrics, nil
	}
	err := list(ctx, s, attachmentResource, &fabrics.Attachments)
	if err == nil {
		err = list(ctx, s, fabricResource, &fabrics.Fabrics)
	}
	return fabrics, err
}

func list[T any](ctx context.Context, s *Sandbox, resource schema.GroupVersionResource, items *[]T) error {
	all, err := s.dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list %s: %w", resource.Resource, err)
	}
	return all.EachListItem(func(o runtime.Object) error {
		u, ok := o.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("the API server has sent a %T", o)
		}
		var item T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &item); err != nil {
			return err
		}
		*items = append(*items, item)
		return nil
	})
}

// hasFabric tells whether the kinds of a fabric are there.
func (s *Sandbox) hasFabric() bool {
	s.fabric.mu.Lock()
	defer s.fabric.mu.Unlock()
	return s.fabric.installed
}

// fabricRuns tells whether the controller runs, is connected, and reaches the shelf's
// service if there is a shelf.
func (s *Sandbox) fabricRuns() bool {
	s.fabric.mu.Lock()
	defer s.fabric.mu.Unlock()
	if s.fabric.controller == nil {
		return false
	}
	_, connected := s.fabric.controller.link.where()
	shelf := s.shelf()
	return connected && (shelf == nil || shelf.service() != nil)
}

// fabricMotions finds what moves because of a fabric.
func (s *Sandbox) fabricMotions(ctx context.Context, state *cluster.State) ([]cluster.Motion, error) {
	if !s.hasFabric() {
		return nil, nil
	}
	var moving []cluster.Motion
	for _, run := range s.driverRuns() {
		for _, node := range run.driver.Behind(state.Slices) {
			moving = append(moving, cluster.Motion{Object: run.name, What: "has not published the devices of node " + node, Timed: true})
		}
	}
	fabrics, err := s.Fabrics(ctx)
	if err != nil {
		return nil, err
	}
	if s.fabricRuns() {
		moving = append(moving, cluster.FindFabricMotions(state, fabrics)...)
	}
	if kind := s.observer.behindFabrics(fabrics); kind != "" {
		moving = append(moving, cluster.Motion{Object: kind, What: "changed just now"})
	}
	return moving, nil
}

// behindFabrics returns a kind of which the observer has not seen the latest change.
func (o *observer) behindFabrics(fabrics *cluster.Fabrics) string {
	var attachments, others []metav1.Object
	for i := range fabrics.Attachments {
		attachments = append(attachments, &fabrics.Attachments[i])
	}
	for i := range fabrics.Fabrics {
		others = append(others, &fabrics.Fabrics[i])
	}
	for resource, objects := range map[schema.GroupVersionResource][]metav1.Object{attachmentResource: attachments, fabricResource: others} {
		informer := o.factory.ForResource(resource).Informer()
		if !informer.HasSynced() || !sameVersions(informer.GetStore(), objects) {
			return resource.Resource
		}
	}
	return ""
}

// offerLimit bounds the wait for a fabric's offers before pods are created.
const offerLimit = 30 * time.Second

// waitOffered waits until the free devices of all fabrics are offered, so that pods
// find them. It does not wait for what cannot come.
func (s *Sandbox) waitOffered(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, offerLimit)
	defer cancel()
	for s.shelf() != nil && s.fabricRuns() {
		fabrics, err := s.Fabrics(ctx)
		if err != nil {
			return err
		}
		fabrics.Attachments = nil
		moving := cluster.FindFabricMotions(&cluster.State{}, fabrics)
		if len(moving) == 0 {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", moving[0], ctx.Err())
		}
	}
	return nil
}
