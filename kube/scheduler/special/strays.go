// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package special

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/kube/scheduler/background"
	"kerf.dev/kerf/kube/scheduler/ledger"
)

// Strays removes special claims of pods that are on their node and do not use them:
// another scheduler, which has since been replaced, may have made one when nobody looked
// at the pod any more, or bound a pod that an attempt here had not cleaned up after.
// Before a pod is bound its attempts see to that.
type Strays struct {
	specials *ledger.Specials
	pods     corelisters.PodLister
	profile  string
	worker   *background.Worker[cache.ObjectName]
	// remove removes a claim of the pod, or makes sure that there is none.
	remove func(ctx context.Context, pod *v1.Pod, claim string) error
}

// StartStrays starts what Close ends. The ledger tells it of changes.
func StartStrays(logger klog.Logger, s *ledger.Specials, pods corelisters.PodLister, profile string, remove func(ctx context.Context, pod *v1.Pod, claim string) error) *Strays {
	w := &Strays{specials: s, pods: pods, profile: profile, remove: remove}
	w.worker = background.StartWorker(1, w.check, func(pod cache.ObjectName, err error) {
		logger.Error(err, "cannot remove claims that were made for a pod and are not used", "pod", pod)
	})
	return w
}

// Close waits for the end.
func (w *Strays) Close() { w.worker.Close() }

// Activate is called whenever a pod of the profile is scheduled.
func (w *Strays) Activate() {
	if w == nil || !w.worker.Activate() {
		return
	}
	for _, obj := range w.specials.Claims.List() {
		if c, ok := obj.(*resourceapi.ResourceClaim); ok {
			w.ClaimChanged(c)
		}
	}
}

// ClaimChanged looks at a special claim that is there or has changed.
func (w *Strays) ClaimChanged(c *resourceapi.ResourceClaim) {
	if owner := claim.MarkedFor(c); owner != nil {
		w.worker.Add(cache.NewObjectName(c.Namespace, owner.Name))
	}
}

// PodChanged looks at a pod that has got to its node.
func (w *Strays) PodChanged(pod *v1.Pod) {
	if pod.Spec.NodeName == "" {
		return
	}
	claims, err := w.specials.Claims.IndexKeys(w.specials.Index, string(pod.UID))
	if _, unsettled := w.specials.IsUnsettled(pod.UID); unsettled || err != nil || len(claims) > 0 {
		w.worker.Add(cache.MetaObjectToName(pod))
	}
}

// check removes what a pod that is on its node does not use. What its status says then
// of its claim is final: it is written before, and only before.
func (w *Strays) check(ctx context.Context, name cache.ObjectName) error {
	pod, err := w.pods.Pods(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil || pod.Spec.NodeName == "" || pod.Spec.SchedulerName != w.profile {
		return err
	}
	names, err := w.unused(pod)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		// One that is in use changes, or goes, when that ends.
		if err := w.remove(ctx, pod, name); err != nil && !errors.Is(err, errInUse) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// unused lists the special claims that exist, or may exist, beside that of the pod.
func (w *Strays) unused(pod *v1.Pod) ([]string, error) {
	claims, err := w.specials.Claims.ByIndex(w.specials.Index, string(pod.UID))
	if err != nil {
		return nil, fmt.Errorf("look up the special claims of pod %s: %w", klog.KObj(pod), err)
	}
	used := claim.SpecialNamed(pod)
	var names []string
	for _, obj := range claims {
		if c, ok := obj.(*resourceapi.ResourceClaim); ok && c.Name != used && claim.IsSpecialOf(pod, c) {
			names = append(names, c.Name)
		}
	}
	if name, unsettled := w.specials.IsUnsettled(pod.UID); unsettled && name != used && !slices.Contains(names, name) {
		names = append(names, name)
	}
	return names, nil
}
