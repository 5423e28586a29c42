// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package handover

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/kube/scheduler/background"
	"kerf.dev/kerf/kube/scheduler/ledger"
)

// Rules acknowledges the DeviceTaintRules that guard devices of a fabric: who
// made them waits until no device is handed out against them.
type Rules struct {
	client       kubernetes.Interface
	informer     cache.SharedIndexInformer
	registration cache.ResourceEventHandlerRegistration
	lister       resourcelisters.DeviceTaintRuleLister
	worker       *background.Worker[string]
	held         *ledger.Reservations
	mending      *mending
	// index has the rules by the driver that they select, "*" for any.
	index string
}

// NewRules prepares the watch: start begins it.
func NewRules(handle fwk.Handle, held *ledger.Reservations) *Rules {
	rules := handle.SharedInformerFactory().Resource().V1().DeviceTaintRules()
	w := &Rules{client: handle.ClientSet(), informer: rules.Informer(), lister: rules.Lister(), held: held, index: "kerf.dev/taint-rules-" + handle.ProfileName()}
	w.mending = newMending(handle.SharedDRAManager().ResourceSlices(), handle.SharedInformerFactory().Resource().V1().ResourceSlices().Lister(), w)
	return w
}

// Start begins to watch. Close ends it.
func (w *Rules) Start(logger klog.Logger) error {
	if err := w.informer.AddIndexers(cache.Indexers{w.index: ruleKeys}); err != nil {
		return fmt.Errorf("add index of DeviceTaintRules by driver: %w", err)
	}
	w.worker = background.StartWorker(1, w.acknowledge, func(name string, err error) {
		logger.Error(err, "cannot acknowledge a DeviceTaintRule, what it guards is not attached", "devicetaintrule", name)
	})
	var err error
	w.registration, err = w.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			w.mending.ruleChanged(obj)
			w.changed(obj)
		},
		UpdateFunc: func(before, obj any) {
			if !sameSpec(before, obj) {
				w.mending.ruleChanged(before)
				w.mending.ruleChanged(obj)
			}
			w.changed(obj)
		},
		DeleteFunc: w.mending.ruleChanged,
	})
	if err != nil {
		return fmt.Errorf("watch DeviceTaintRules: %w", err)
	}
	return nil
}

// sameSpec is true where somebody has only acknowledged a rule.
func sameSpec(a, b any) bool {
	before, ok := a.(*resourceapi.DeviceTaintRule)
	after, same := b.(*resourceapi.DeviceTaintRule)
	return ok && same && apiequality.Semantic.DeepEqual(before.Spec, after.Spec)
}

// Close ends the watch and waits for its end.
func (w *Rules) Close() error {
	if w.worker == nil {
		return nil // never started
	}
	defer w.worker.Close()
	if w.registration == nil {
		return nil
	}
	return w.informer.RemoveEventHandler(w.registration)
}

func (w *Rules) changed(obj any) {
	if rule, ok := obj.(*resourceapi.DeviceTaintRule); ok && unseen(rule) {
		w.worker.Add(rule.Name)
	}
}

// Activate is called whenever a pod is scheduled.
func (w *Rules) Activate() {
	if w == nil || !w.worker.Activate() {
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

func (w *Rules) acknowledge(ctx context.Context, name string) error {
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
	if w.held.Against(rule, w.worker) {
		return nil // its turn comes when that has ended
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
	_, err = w.client.ResourceV1().DeviceTaintRules().Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// anyDriver is where the index has the rules for devices of all drivers. No driver has
// that name.
const anyDriver = "*"

func ruleKeys(obj any) ([]string, error) {
	rule, ok := obj.(*resourceapi.DeviceTaintRule)
	if !ok {
		return nil, fmt.Errorf("got %T, want a DeviceTaintRule", obj)
	}
	switch s := rule.Spec.DeviceSelector; {
	case s == nil:
		return nil, nil
	case s.Driver == nil:
		return []string{anyDriver}, nil
	default:
		return []string{*s.Driver}, nil
	}
}

// of lists the rules that may select devices of a driver, sorted by name.
func (w *Rules) of(driver string) ([]*resourceapi.DeviceTaintRule, error) {
	var rules []*resourceapi.DeviceTaintRule
	for _, key := range []string{driver, anyDriver} {
		objs, err := w.informer.GetIndexer().ByIndex(w.index, key)
		if err != nil {
			return nil, fmt.Errorf("look up the DeviceTaintRules of driver %s: %w", key, err)
		}
		for _, obj := range objs {
			if rule, ok := obj.(*resourceapi.DeviceTaintRule); ok {
				rules = append(rules, rule)
			}
		}
	}
	slices.SortFunc(rules, func(a, b *resourceapi.DeviceTaintRule) int { return cmp.Compare(a.Name, b.Name) })
	return rules, nil
}
