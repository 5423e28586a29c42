// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	"k8s.io/client-go/kubernetes"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"kerf.dev/kerf/api/fabric/v1alpha1"
)

// ruleWatch acknowledges the DeviceTaintRules that guard devices of a fabric: who
// made them waits until no device is handed out against them.
type ruleWatch struct {
	logger       klog.Logger
	client       kubernetes.Interface
	informer     cache.SharedIndexInformer
	registration cache.ResourceEventHandlerRegistration
	lister       resourcelisters.DeviceTaintRuleLister
	queue        workqueue.TypedRateLimitingInterface[string]
	// active is set when this scheduler schedules: one that waits to become the
	// leader speaks for nobody.
	active atomic.Bool
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{}
}

// Times to wait before a rule that could not be acknowledged is tried again. Pods wait
// for it, so the longest is short.
const (
	acknowledgeAfter  = 50 * time.Millisecond
	acknowledgeWithin = 5 * time.Second
)

// watchRules starts to watch. Close ends it.
func watchRules(logger klog.Logger, rules resourceinformers.DeviceTaintRuleInformer, client kubernetes.Interface) (*ruleWatch, error) {
	w := &ruleWatch{
		logger: logger, client: client, informer: rules.Informer(), lister: rules.Lister(), ended: make(chan struct{}),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](acknowledgeAfter, acknowledgeWithin)),
	}
	var err error
	w.registration, err = w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    w.changed,
		UpdateFunc: func(_, obj any) { w.changed(obj) },
	})
	if err != nil {
		w.queue.ShutDown()
		return nil, fmt.Errorf("watch DeviceTaintRules: %w", err)
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	go w.run()
	return w, nil
}

// Close ends the watch and waits for its end.
func (w *ruleWatch) Close() error {
	err := w.informer.RemoveEventHandler(w.registration)
	w.cancel()
	w.queue.ShutDown()
	<-w.ended
	return err
}

func (w *ruleWatch) changed(obj any) {
	if rule, ok := obj.(*resourceapi.DeviceTaintRule); ok && w.active.Load() && unseen(rule) {
		w.queue.Add(rule.Name)
	}
}

// activate is called whenever a pod is scheduled.
func (w *ruleWatch) activate() {
	if w == nil || w.active.Load() || w.active.Swap(true) {
		return
	}
	for _, obj := range w.informer.GetStore().List() {
		w.changed(obj)
	}
}

// unseen tells whether somebody waits for the rule to be acknowledged.
func unseen(rule *resourceapi.DeviceTaintRule) bool {
	if rule.Labels[v1alpha1.GuardLabel] == "" || rule.DeletionTimestamp != nil {
		return false
	}
	seen := apimeta.FindStatusCondition(rule.Status.Conditions, v1alpha1.RuleSeen)
	return seen == nil || seen.Status != metav1.ConditionTrue || seen.ObservedGeneration != rule.Generation
}

func (w *ruleWatch) run() {
	defer close(w.ended)
	for {
		name, shutdown := w.queue.Get()
		if shutdown {
			return
		}
		err := w.acknowledge(name)
		if err != nil && w.ctx.Err() == nil {
			w.logger.Error(err, "cannot acknowledge a DeviceTaintRule, what it guards is not attached", "devicetaintrule", name)
			w.queue.AddRateLimited(name)
		} else {
			w.queue.Forget(name)
		}
		w.queue.Done(name)
	}
}

func (w *ruleWatch) acknowledge(name string) error {
	rule, err := w.lister.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !unseen(rule) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": rule.UID},
		"status": map[string]any{"conditions": []metav1.Condition{{
			Type: v1alpha1.RuleSeen, Status: metav1.ConditionTrue, ObservedGeneration: rule.Generation,
			LastTransitionTime: metav1.NewTime(time.Now()), Reason: "Seen", Message: "kerf-scheduler hands out no device against the rule",
		}}},
	})
	if err != nil {
		return err
	}
	_, err = w.client.ResourceV1().DeviceTaintRules().Patch(w.ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
