// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package background

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// Worker does what has to be done beside the scheduling of pods, and tries again what
// failed.
type Worker[K comparable] struct {
	queue  workqueue.TypedRateLimitingInterface[K]
	ctx    context.Context
	cancel context.CancelFunc
	ended  sync.WaitGroup
	// active is set when this scheduler schedules: one that waits to become the leader
	// does nothing for anybody.
	active atomic.Bool
}

// Times to wait before something that failed is tried again. Pods may wait for it, so
// the longest is short.
const (
	againAfter  = 50 * time.Millisecond
	againWithin = 5 * time.Second
)

// StartWorker starts goroutines, which Close ends. Each does one thing after the other,
// and no two the same. failed hears of each error.
func StartWorker[K comparable](goroutines int, do func(ctx context.Context, key K) error, failed func(key K, err error)) *Worker[K] {
	w := &Worker[K]{
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[K](againAfter, againWithin)),
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	for range goroutines {
		w.ended.Go(func() { w.run(do, failed) })
	}
	return w
}

func (w *Worker[K]) run(do func(ctx context.Context, key K) error, failed func(key K, err error)) {
	for {
		key, shutdown := w.queue.Get()
		if shutdown {
			return
		}
		if err := do(w.ctx, key); err != nil && w.ctx.Err() == nil {
			failed(key, err)
			w.queue.AddRateLimited(key)
		} else {
			w.queue.Forget(key)
		}
		w.queue.Done(key)
	}
}

// Activate reports whether this is the first time.
func (w *Worker[K]) Activate() bool { return !w.active.Load() && !w.active.Swap(true) }

// Add has something done, if this scheduler schedules.
func (w *Worker[K]) Add(key K) {
	if w.active.Load() {
		w.queue.Add(key)
	}
}

// Close waits until the goroutines have ended.
func (w *Worker[K]) Close() {
	w.cancel()
	w.queue.ShutDown()
	w.ended.Wait()
}
