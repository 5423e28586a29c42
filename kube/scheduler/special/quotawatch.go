// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package special

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"kerf.dev/kerf/kube/informer"
)

// QuotaWatch watches the ResourceQuotas, from when one of them is first in the way. It
// has an informer of its own: the scheduler does not start before those that it shares
// have seen everything, which they never do where it may not look at quotas. There the
// pods have their pauses only.
type QuotaWatch struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup
	once   sync.Once
	needed chan struct{}
}

// WatchQuotas prepares the watch. changed hears of each quota that is there, changes, or
// is gone; a change is of status.used, too, which is counted anew some time after claims
// were deleted.
func WatchQuotas(client kubernetes.Interface, changed func(quota *v1.ResourceQuota, gone bool)) (*QuotaWatch, error) {
	quotas := coreinformers.NewResourceQuotaInformer(client, metav1.NamespaceAll, 0, cache.Indexers{})
	tell := func(gone bool) func(any) {
		return func(obj any) {
			if quota, ok := informer.Object[*v1.ResourceQuota](obj); ok {
				changed(quota, gone)
			}
		}
	}
	_, err := quotas.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    tell(false),
		UpdateFunc: func(_, obj any) { tell(false)(obj) },
		DeleteFunc: tell(true),
	})
	if err != nil {
		return nil, fmt.Errorf("watch ResourceQuotas: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	q := &QuotaWatch{cancel: cancel, needed: make(chan struct{})}
	q.ended.Go(func() {
		select {
		case <-q.needed:
			quotas.RunWithContext(ctx)
		case <-ctx.Done():
		}
	})
	return q, nil
}

// Activate begins the watch, if it has not begun yet.
func (q *QuotaWatch) Activate() { q.once.Do(func() { close(q.needed) }) }

// Active reports whether the watch has begun.
func (q *QuotaWatch) Active() bool {
	select {
	case <-q.needed:
		return true
	default:
		return false
	}
}

// Close ends the watch.
func (q *QuotaWatch) Close() {
	q.cancel()
	q.ended.Wait()
}
