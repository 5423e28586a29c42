// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"fmt"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/utils/clock"

	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// Watch wakes those who wait for a claim to change.
type Watch struct {
	lister resourcelisters.ResourceClaimLister

	mutex   sync.Mutex
	waiting map[types.UID]map[chan struct{}]struct{}
}

func newClaimWatch(lister resourcelisters.ResourceClaimLister) *Watch {
	return &Watch{lister: lister, waiting: map[types.UID]map[chan struct{}]struct{}{}}
}

// Wake signals to those who wait for the claim.
func (w *Watch) Wake(claim types.UID) {
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

// Wait returns a channel that signals changes of the claims from now on, until
// done is called.
func (w *Watch) Wait(claims []*podclaim.Claim) (changed <-chan struct{}, done func()) {
	signal := make(chan struct{}, 1)
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, pc := range claims {
		if w.waiting[pc.Claim.UID] == nil {
			w.waiting[pc.Claim.UID] = map[chan struct{}]struct{}{}
		}
		w.waiting[pc.Claim.UID][signal] = struct{}{}
	}
	return signal, func() {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		for _, pc := range claims {
			delete(w.waiting[pc.Claim.UID], signal)
			if len(w.waiting[pc.Claim.UID]) == 0 {
				delete(w.waiting, pc.Claim.UID)
			}
		}
	}
}

// Newest returns the claim as the informer has it, or as it is known if that is
// newer: the informer is behind after a write. The informer's store changes
// before its handlers are called, so after a signal this is what changed.
func (w *Watch) Newest(known *resourceapi.ResourceClaim) (*resourceapi.ResourceClaim, error) {
	seen, err := w.lister.ResourceClaims(known.Namespace).Get(known.Name)
	if err != nil {
		return nil, fmt.Errorf("claim %s: %w", podclaim.NameOf(known), err)
	}
	if seen.UID != known.UID {
		return nil, fmt.Errorf("claim %s got deleted and created anew", podclaim.NameOf(known))
	}
	order, err := resourceversion.CompareResourceVersion(seen.ResourceVersion, known.ResourceVersion)
	if err != nil {
		return nil, fmt.Errorf("claim %s: %w", podclaim.NameOf(known), err)
	}
	if order < 0 {
		return known, nil
	}
	return seen, nil
}

// Sleep returns at the deadline, or earlier if something changed.
func Sleep(ctx context.Context, clock clock.Clock, changed <-chan struct{}, deadline time.Time) error {
	timer := clock.NewTimer(deadline.Sub(clock.Now()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-changed:
	case <-timer.C():
	}
	return nil
}
