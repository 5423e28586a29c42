// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"kerf.dev/kerf/sandbox/cluster"
	"kerf.dev/kerf/sandbox/part"
)

// observer notices that something in the cluster has changed. It watches the
// metadata of every object in cluster.State.
type observer struct {
	part.Lasting
	ctx     context.Context // of its run
	factory metadatainformer.SharedInformerFactory

	mu sync.Mutex
	// last is when the last change arrived.
	last time.Time
	// changed is closed and replaced by every change.
	changed chan struct{}
}

func newObserver(s *Sandbox) *observer {
	o := &observer{last: time.Now(), changed: make(chan struct{})}
	o.Lasting = part.Lasting{Name: "observer", Failed: s.fail, Setup: func(ctx context.Context) (func() error, error) {
		client, err := metadata.NewForConfig(s.config)
		if err != nil {
			return nil, err
		}
		o.ctx, o.factory = ctx, metadatainformer.NewSharedInformerFactory(client, 0)
		for _, kind := range cluster.Kinds {
			if err := o.watch(kind.Resource); err != nil {
				return nil, err
			}
		}
		return func() error {
			<-ctx.Done()
			o.factory.Shutdown()
			return nil
		}, nil
	}}
	return o
}

// watch notices changes of objects of these kinds, too.
func (o *observer) watch(resources ...schema.GroupVersionResource) error {
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { o.note() },
		UpdateFunc: func(_, _ any) { o.note() },
		DeleteFunc: func(any) { o.note() },
	}
	for _, resource := range resources {
		if _, err := o.factory.ForResource(resource).Informer().AddEventHandler(handler); err != nil {
			return fmt.Errorf("observe %s: %w", resource.Resource, err)
		}
	}
	o.factory.Start(o.ctx.Done())
	return nil
}

func (o *observer) note() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = time.Now()
	close(o.changed)
	o.changed = make(chan struct{})
}

// lastChange returns when the last change arrived and a channel that the next
// one closes.
func (o *observer) lastChange() (time.Time, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last, o.changed
}

// firstBound is the time to the first pod on a node, 0 before there is one.
type firstBound struct {
	after atomic.Int64
}

func (f *firstBound) observe(after time.Duration) {
	f.after.CompareAndSwap(0, int64(after))
}

func (f *firstBound) get() (time.Duration, bool) {
	after := f.after.Load()
	return time.Duration(after), after != 0
}
