// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"

	"kerf.dev/kerf/kube/informer"
)

// claimWatch wakes those who wait for a claim to change.
type claimWatch struct {
	informer     cache.SharedIndexInformer
	registration cache.ResourceEventHandlerRegistration
	lister       resourcelisters.ResourceClaimLister
	failures     *failures
	exchanges    *exchanges

	mutex   sync.Mutex
	waiting map[types.UID]map[chan struct{}]struct{}
}

// newClaimWatch registers with the informer. What is remembered about failures and
// exchanges of a claim goes with the claim.
func newClaimWatch(claims resourceinformers.ResourceClaimInformer, failures *failures, exchanges *exchanges) (*claimWatch, error) {
	w := &claimWatch{informer: claims.Informer(), lister: claims.Lister(), failures: failures, exchanges: exchanges, waiting: map[types.UID]map[chan struct{}]struct{}{}}
	var err error
	w.registration, err = w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { w.changed(obj, false) },
		UpdateFunc: func(_, obj any) { w.changed(obj, false) },
		DeleteFunc: func(obj any) { w.changed(obj, true) },
	})
	if err != nil {
		return nil, fmt.Errorf("watch ResourceClaims: %w", err)
	}
	return w, nil
}

// Close ends the watch.
func (w *claimWatch) Close() error {
	return w.informer.RemoveEventHandler(w.registration)
}

func (w *claimWatch) changed(obj any, deleted bool) {
	claim, ok := informer.Object[*resourceapi.ResourceClaim](obj)
	if !ok {
		return
	}
	if deleted {
		w.failures.forget(claim.UID)
		w.exchanges.forget(claim.UID)
	}
	w.wake(claim.UID)
}

// wake signals to those who wait for the claim.
func (w *claimWatch) wake(claim types.UID) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for signal := range w.waiting[claim] {
		select {
		case signal <- struct{}{}:
		default:
			// A signal is on its way already.
		}
	}
}

// wait returns a channel that signals changes of the claims from now on, until
// done is called.
func (w *claimWatch) wait(claims []*podClaim) (changed <-chan struct{}, done func()) {
	signal := make(chan struct{}, 1)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, pc := range claims {
		if w.waiting[pc.claim.UID] == nil {
			w.waiting[pc.claim.UID] = map[chan struct{}]struct{}{}
		}
		w.waiting[pc.claim.UID][signal] = struct{}{}
	}
	return signal, func() {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		for _, pc := range claims {
			delete(w.waiting[pc.claim.UID], signal)
			if len(w.waiting[pc.claim.UID]) == 0 {
				delete(w.waiting, pc.claim.UID)
			}
		}
	}
}

// newest returns the claim as the informer has it, or as it is known if that is
// newer: the informer is behind after a write. The informer's store changes
// before its handlers are called, so after a signal this is what changed.
func (w *claimWatch) newest(known *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	seen, err := w.lister.ResourceClaims(known.Namespace).Get(known.Name)
	if err != nil {
		return nil, fmt.Errorf("claim %s: %w", nameOf(known), err)
	}
	if seen.UID != known.UID {
		return nil, fmt.Errorf("claim %s got deleted and created anew", nameOf(known))
	}
	order, err := resourceversion.CompareResourceVersion(seen.ResourceVersion, known.ResourceVersion)
	if err != nil {
		return nil, fmt.Errorf("claim %s: %w", nameOf(known), err)
	}
	if order < 0 {
		return known, nil
	}
	return seen, nil
}
