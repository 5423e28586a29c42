// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/kube/informer"
)

// retries brings pods back without backoff. The framework puts a pod that failed
// in PreBind into the backoff queue, and only after PreBind returned; it then
// writes the reason into the pod's condition. When that arrives here the pod is
// in the queue and can be activated.
type retries struct {
	logger       klog.Logger
	informer     cache.SharedIndexInformer
	registration cache.ResourceEventHandlerRegistration
	activator    fwk.PodActivator

	mutex sync.Mutex
	// expected is the message of the condition by pod.
	expected map[types.UID]string
}

func newRetries(logger klog.Logger, pods cache.SharedIndexInformer, activator fwk.PodActivator) (*retries, error) {
	r := &retries{logger: logger, informer: pods, activator: activator, expected: map[types.UID]string{}}
	var err error
	r.registration, err = pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, obj any) {
			if pod, ok := obj.(*v1.Pod); ok {
				r.updated(pod)
			}
		},
		DeleteFunc: func(obj any) {
			if pod, ok := informer.Object[*v1.Pod](obj); ok {
				r.started(pod.UID)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch Pods: %w", err)
	}
	return r, nil
}

// Close ends the watch.
func (r *retries) Close() error { return r.informer.RemoveEventHandler(r.registration) }

// expect asks for the pod to be activated once its condition says that it could
// not be scheduled because of reason.
func (r *retries) expect(pod types.UID, reason string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.expected[pod] = reason
}

// started ends the expectation: the next attempt has begun, or there is none.
func (r *retries) started(pod types.UID) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	delete(r.expected, pod)
}

func (r *retries) updated(pod *v1.Pod) {
	r.mutex.Lock()
	reason, ok := r.expected[pod.UID]
	if ok = ok && refusedBecause(pod, reason); ok {
		delete(r.expected, pod.UID)
	}
	r.mutex.Unlock()
	if ok {
		r.activator.Activate(r.logger, map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
	}
}

func refusedBecause(pod *v1.Pod, reason string) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Message == reason
	})
}
