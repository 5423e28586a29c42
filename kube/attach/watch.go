// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kerf.dev/kerf/api/fabric/v1alpha1"
)

// informers is the part of a cache that a loop watches with.
type informers interface {
	GetInformer(ctx context.Context, o client.Object, options ...cache.InformerGetOption) (cache.Informer, error)
}

// watched is a handler of an informer, to be removed when the loop ends.
type watched struct {
	informer     cache.Informer
	registration toolscache.ResourceEventHandlerRegistration
}

// watch has the inbox get what exists and what changes. It returns when all that
// exists is in the inbox; the handlers are to be removed in any case.
func (l *loop) watch(ctx context.Context, from informers) ([]watched, error) {
	var all []watched
	for _, handler := range []struct {
		object client.Object
		funcs  toolscache.ResourceEventHandler
	}{
		{&v1alpha1.Fabric{}, handle(l, l.neighbour, l.neighbourGone)},
		{&v1alpha1.DeviceAttachment{}, handle(l, l.attachment, l.attachmentGone)},
		{&resourceapi.ResourceClaim{}, handle(l,
			func(o *resourceapi.ResourceClaim) { l.planner.ObserveClaim(claimOf(o)) },
			func(o *resourceapi.ResourceClaim) { l.planner.ForgetClaim(o.UID) })},
		{&resourceapi.ResourceSlice{}, handle(l,
			func(o *resourceapi.ResourceSlice) { l.pools.set(o, false) },
			func(o *resourceapi.ResourceSlice) { l.pools.set(o, true) })},
		{&corev1.Node{}, handle(l,
			func(o *corev1.Node) { l.stale = l.nodes.set(l.planner, o) || l.stale },
			func(o *corev1.Node) { l.nodes.forget(l.planner, o.Name); l.stale = true })},
		{&resourceapi.DeviceTaintRule{}, handle(l,
			func(o *resourceapi.DeviceTaintRule) { l.guards.set(l.planner, o, false) },
			func(o *resourceapi.DeviceTaintRule) { l.guards.set(l.planner, o, true) })},
	} {
		informer, err := from.GetInformer(ctx, handler.object)
		if err != nil {
			return all, fmt.Errorf("watch %T: %w", handler.object, err)
		}
		registration, err := informer.AddEventHandler(handler.funcs)
		if err != nil {
			return all, fmt.Errorf("watch %T: %w", handler.object, err)
		}
		all = append(all, watched{informer, registration})
	}
	for _, w := range all {
		if err := synced(ctx, w.registration); err != nil {
			return all, err
		}
	}
	return all, nil
}

// syncPeriod is the time between two looks at whether a watch has delivered.
const syncPeriod = 50 * time.Millisecond

func synced(ctx context.Context, r toolscache.ResourceEventHandlerRegistration) error {
	ticker := time.NewTicker(syncPeriod)
	defer ticker.Stop()
	for !r.HasSynced() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	return nil
}

func handle[T client.Object](l *loop, set, gone func(T)) toolscache.ResourceEventHandler {
	put := func(o any) {
		if object, ok := o.(T); ok {
			l.inbox.put(func() { set(object) })
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    put,
		UpdateFunc: func(_, o any) { put(o) },
		DeleteFunc: func(o any) {
			if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			if object, ok := o.(T); ok {
				l.inbox.put(func() { gone(object) })
			}
		},
	}
}
