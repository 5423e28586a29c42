// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/clock"

	"kerf.dev/kerf/kube/informer"
)

// ledger is what the plugin remembers of pods and claims beside what the API server says of
// them: what it has chosen and not written yet, what failed, who waits. It has one handler of
// the events of pods and one of those of claims, which tell all its parts.
type ledger struct {
	// users are the pods that reference a claim, watch wakes who waits for a claim.
	users *claimUsers
	watch *claimWatch
	// conflicts are devices that were given out twice.
	conflicts *informer.Conflicts
	failures  *failures
	retries   *retries
	// pauses are those of pods for which a search gave up, denials those of pods whose
	// special claims the API server does not permit.
	pauses, denials *pauses
	specials        *specials
	// inFlight is what devices take of nodes, untold those of it that nobody else knows.
	inFlight *inFlight
	untold   *untold
	// held are devices that were chosen, underWay the pods that they are for, exchanges
	// the claims whose devices are being exchanged.
	held      *reservations
	underWay  *underWay
	exchanges *exchanges

	manager  fwk.SharedDRAManager
	listener listener
	handlers []handler
}

// listener hears of pods and claims that are there or have changed.
type listener interface {
	podChanged(pod *v1.Pod)
	claimChanged(claim *resourceapi.ResourceClaim)
}

type handler struct {
	informer     cache.SharedIndexInformer
	registration cache.ResourceEventHandlerRegistration
}

// newLedger prepares a ledger. It learns nothing before open.
func newLedger(logger klog.Logger, handle fwk.Handle, clock clock.WithDelayedExecution) (*ledger, error) {
	factory, profile := handle.SharedInformerFactory(), handle.ProfileName()
	pods, claims := factory.Core().V1().Pods(), factory.Resource().V1().ResourceClaims()
	l := &ledger{
		manager:   handle.SharedDRAManager(),
		watch:     newClaimWatch(claims.Lister()),
		conflicts: informer.NewConflicts(),
		failures:  newFailures(),
		retries:   newRetries(logger, handle),
		pauses:    newPauses(logger, pods.Lister(), handle, clock),
		denials:   newPauses(logger, pods.Lister(), handle, clock),
		inFlight:  newInFlight(),
		untold:    newUntold(),
		held:      reservationsOf(handle.SharedDRAManager()),
		handlers:  []handler{{informer: pods.Informer()}, {informer: claims.Informer()}},
	}
	l.underWay = l.held.underWay
	l.exchanges = newExchanges(l.held)
	var usersErr, specialsErr error
	l.users, usersErr = newClaimUsers(pods, profile)
	l.specials, specialsErr = newSpecials(claims, profile)
	return l, errors.Join(usersErr, specialsErr)
}

// open begins to follow pods and claims, until Close. The listener may be nil.
func (l *ledger) open(listener listener) error {
	l.listener = listener
	return errors.Join(follow(&l.handlers[0], l.podChanged, l.podGone), follow(&l.handlers[1], l.claimChanged, l.claimGone))
}

// follow has the events of a handler's informer told by their type.
func follow[T runtime.Object](h *handler, changed func(before, after T), gone func(T)) (err error) {
	h.registration, err = h.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if after, ok := obj.(T); ok {
				var none T
				changed(none, after)
			}
		},
		UpdateFunc: func(old, obj any) {
			before, known := old.(T)
			if after, ok := obj.(T); ok && known {
				changed(before, after)
			}
		},
		DeleteFunc: func(obj any) {
			if last, ok := informer.Object[T](obj); ok {
				gone(last)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch %T: %w", *new(T), err)
	}
	return nil
}

// Close ends what open has begun.
func (l *ledger) Close() error {
	var errs []error
	for _, h := range l.handlers {
		if h.registration != nil {
			errs = append(errs, h.informer.RemoveEventHandler(h.registration))
		}
	}
	l.pauses.Close()
	l.denials.Close()
	l.held.leave(l.manager)
	return errors.Join(errs...)
}

func (l *ledger) podChanged(_, pod *v1.Pod) {
	l.retries.updated(pod)
	l.untold.changed(pod)
	if l.listener != nil {
		l.listener.podChanged(pod)
	}
}

// podGone forgets a pod that was deleted.
func (l *ledger) podGone(pod *v1.Pod) {
	l.retries.started(pod.UID)
	l.untold.forget(pod.UID)
	l.failures.forget(placeholderUID(pod.UID))
	l.pauses.forget(pod.UID)
	l.denials.forget(pod.UID)
	l.underWay.end(pod.UID)
	if l.specials.forget(pod.UID) {
		// The claim goes with its owner.
		l.manager.ResourceClaims().MaybeRemoveClaimPendingAllocation(placeholderUID(pod.UID), true)
	}
}

func (l *ledger) claimChanged(before, claim *resourceapi.ResourceClaim) {
	l.conflicts.Replace(before, claim)
	l.watch.wake(claim.UID)
	if l.listener != nil {
		l.listener.claimChanged(claim)
	}
}

func (l *ledger) claimGone(claim *resourceapi.ResourceClaim) {
	l.conflicts.Replace(claim, nil)
	l.failures.forget(claim.UID)
	l.exchanges.forget(claim.UID)
	l.watch.wake(claim.UID)
}
