// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// strays removes special claims of pods that are on their node and do not use them:
// another scheduler, which has since been replaced, may have made one when nobody looked
// at the pod any more. Before a pod is bound its attempts see to that.
type strays struct {
	specials *specials
	profile  string
	worker   *worker[cache.ObjectName]
	// claims and pods are where the events come from.
	claims           cache.SharedIndexInformer
	ofClaims, ofPods cache.ResourceEventHandlerRegistration
	remove           func(ctx context.Context, pod *v1.Pod, claim string) error
}

// watchStrays starts to watch. Close ends it.
func watchStrays(logger klog.Logger, s *specials, claims cache.SharedIndexInformer, profile string, remove func(ctx context.Context, pod *v1.Pod, claim string) error) (*strays, error) {
	w := &strays{specials: s, profile: profile, claims: claims, remove: remove}
	w.worker = startWorker(w.check, func(claim cache.ObjectName, err error) {
		logger.Error(err, "cannot remove a claim that was made for a pod and is not used", "resourceclaim", claim)
	})
	var claimErr, podErr error
	w.ofClaims, claimErr = claims.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    w.claimChanged,
		UpdateFunc: func(_, obj any) { w.claimChanged(obj) },
	})
	w.ofPods, podErr = s.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    w.podChanged,
		UpdateFunc: func(_, obj any) { w.podChanged(obj) },
	})
	if err := errors.Join(claimErr, podErr); err != nil {
		return nil, errors.Join(fmt.Errorf("watch special claims and their pods: %w", err), w.Close())
	}
	return w, nil
}

// Close ends the watch and waits for its end.
func (w *strays) Close() error {
	var errs []error
	if w.ofClaims != nil {
		errs = append(errs, w.claims.RemoveEventHandler(w.ofClaims))
	}
	if w.ofPods != nil {
		errs = append(errs, w.specials.pods.RemoveEventHandler(w.ofPods))
	}
	w.worker.Close()
	return errors.Join(errs...)
}

// activate is called whenever a pod is scheduled.
func (w *strays) activate() {
	if w == nil || !w.worker.activate() {
		return
	}
	for _, obj := range w.specials.claims.List() {
		w.claimChanged(obj)
	}
}

func (w *strays) claimChanged(obj any) {
	if claim, ok := obj.(*resourceapi.ResourceClaim); ok && w.podWithout(claim) != nil {
		w.worker.add(cache.MetaObjectToName(claim))
	}
}

func (w *strays) podChanged(obj any) {
	pod, ok := obj.(*v1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return
	}
	claims, err := w.specials.claims.ByIndex(w.specials.index, string(pod.UID))
	if err != nil {
		return // There is such an index.
	}
	for _, claim := range claims {
		w.claimChanged(claim)
	}
}

// podWithout returns the pod that a special claim was made for if that is on its node
// without it, else nil. What the status of a pod on a node says of its claim is final.
func (w *strays) podWithout(claim *resourceapi.ResourceClaim) *v1.Pod {
	owner, ok := specialOwner(claim)
	if !ok {
		return nil
	}
	obj, found, err := w.specials.pods.GetStore().GetByKey(claim.Namespace + "/" + owner.Name)
	pod, ok := obj.(*v1.Pod)
	if err != nil || !found || !ok || pod.UID != owner.UID || pod.Spec.NodeName == "" || pod.Spec.SchedulerName != w.profile {
		return nil
	}
	if status := pod.Status.ExtendedResourceClaimStatus; status != nil && status.ResourceClaimName == claim.Name {
		return nil
	}
	return pod
}

func (w *strays) check(ctx context.Context, name cache.ObjectName) error {
	obj, found, err := w.specials.claims.GetByKey(name.String())
	if claim, ok := obj.(*resourceapi.ResourceClaim); ok && found && err == nil {
		if pod := w.podWithout(claim); pod != nil {
			return w.remove(ctx, pod, claim.Name)
		}
	}
	return err
}
