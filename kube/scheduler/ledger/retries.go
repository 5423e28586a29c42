// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// retries brings pods back without backoff. The framework puts a pod that failed
// in PreBind into the backoff queue, and only after PreBind returned; it then
// writes the reason into the pod's condition. When that arrives here the pod is
// in the queue and can be activated.
type retries struct {
	logger    klog.Logger
	activator fwk.PodActivator

	mutex sync.Mutex
	// expected is the message of the condition by pod.
	expected map[types.UID]string
}

func newRetries(logger klog.Logger, activator fwk.PodActivator) *retries {
	return &retries{logger: logger, activator: activator, expected: map[types.UID]string{}}
}

// Expect asks for the pod to be activated once its condition says that it could
// not be scheduled because of reason.
func (r *retries) Expect(pod types.UID, reason string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.expected[pod] = reason
}

// Started ends the expectation: the next attempt has begun, or there is none.
func (r *retries) Started(pod types.UID) {
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
