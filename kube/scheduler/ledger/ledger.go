// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

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
	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// Ledger is what the plugin remembers of pods and claims beside what the API server says of
// them: what it has chosen and not written yet, what failed, who waits. It has one handler of
// the events of pods and one of those of claims, which tell all its parts.
type Ledger struct {
	// Users are the pods that reference a claim, watch wakes who waits for a claim.
	Users *Users
	Watch *Watch
	// Conflicts are devices that were given out twice.
	Conflicts *informer.Conflicts
	Failures  *Failures
	Retries   *retries
	// Pauses are those of pods for which a search gave up, denials those of pods whose
	// special claims the API server does not permit.
	Pauses, Denials *Pauses
	Specials        *Specials
	// InFlight is what devices take of nodes, Untold those of it that nobody else knows, nil
	// where there are none.
	InFlight *InFlight
	Untold   *Untold
	// Held are devices that were chosen, underWay the pods that they are for, exchanges
	// the claims whose devices are being exchanged.
	Held      *Reservations
	UnderWay  *UnderWay
	Exchanges *Exchanges

	manager  fwk.SharedDRAManager
	listener Listener
	handlers []handler
}

// Listener hears of pods and claims that are there or have changed.
type Listener interface {
	PodChanged(pod *v1.Pod)
	ClaimChanged(claim *resourceapi.ResourceClaim)
}

type handler struct {
	informer     cache.SharedIndexInformer
	registration cache.ResourceEventHandlerRegistration
}

// New prepares a ledger. It learns nothing before Open. accounts is whether devices that serve
// extended resources can take resources of their nodes.
func New(logger klog.Logger, handle fwk.Handle, clock clock.WithDelayedExecution, accounts bool) (*Ledger, error) {
	factory, profile := handle.SharedInformerFactory(), handle.ProfileName()
	pods, claims := factory.Core().V1().Pods(), factory.Resource().V1().ResourceClaims()
	l := &Ledger{
		manager:   handle.SharedDRAManager(),
		Watch:     newClaimWatch(claims.Lister()),
		Conflicts: informer.NewConflicts(),
		Failures:  newFailures(),
		Retries:   newRetries(logger, handle),
		Pauses:    newPauses(logger, pods.Lister(), handle, clock),
		Denials:   newPauses(logger, pods.Lister(), handle, clock),
		InFlight:  newInFlight(),
		Held:      ReservationsOf(handle.SharedDRAManager()),
		handlers:  []handler{{informer: pods.Informer()}, {informer: claims.Informer()}},
	}
	if accounts {
		l.Untold = newUntold()
	}
	l.UnderWay = l.Held.underWay
	l.Exchanges = newExchanges(l.Held)
	var usersErr, specialsErr error
	l.Users, usersErr = newClaimUsers(pods, profile)
	l.Specials, specialsErr = newSpecials(claims, profile)
	if err := errors.Join(usersErr, specialsErr); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Open begins to follow pods and claims, until Close. The listener may be nil.
func (l *Ledger) Open(listener Listener) error {
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
func (l *Ledger) Close() error {
	var errs []error
	for _, h := range l.handlers {
		if h.registration != nil {
			errs = append(errs, h.informer.RemoveEventHandler(h.registration))
		}
	}
	l.Pauses.Close()
	l.Denials.Close()
	l.Held.Leave(l.manager)
	return errors.Join(errs...)
}

func (l *Ledger) podChanged(_, pod *v1.Pod) {
	l.Retries.updated(pod)
	if l.Untold != nil {
		l.Untold.changed(pod)
	}
	if l.listener != nil {
		l.listener.PodChanged(pod)
	}
}

// podGone forgets a pod that was deleted.
func (l *Ledger) podGone(pod *v1.Pod) {
	l.Retries.Started(pod.UID)
	if l.Untold != nil {
		l.Untold.Forget(pod.UID)
	}
	l.Failures.Forget(podclaim.PlaceholderUID(pod.UID))
	l.Pauses.Forget(pod.UID)
	l.Denials.Forget(pod.UID)
	l.UnderWay.End(pod.UID)
	if l.Specials.Forget(pod.UID) {
		// The claim goes with its owner.
		l.manager.ResourceClaims().MaybeRemoveClaimPendingAllocation(podclaim.PlaceholderUID(pod.UID), true)
	}
}

func (l *Ledger) claimChanged(before, claim *resourceapi.ResourceClaim) {
	l.Conflicts.Replace(before, claim)
	l.Watch.Wake(claim.UID)
	if l.listener != nil {
		l.listener.ClaimChanged(claim)
	}
}

func (l *Ledger) claimGone(claim *resourceapi.ResourceClaim) {
	l.Conflicts.Replace(claim, nil)
	l.Failures.Forget(claim.UID)
	l.Exchanges.forget(claim.UID)
	l.Watch.Wake(claim.UID)
}
