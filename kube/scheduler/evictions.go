// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Pods are marked before they are deleted. A pod for which that was done may be tried
// before the scheduler hears of the deletion. Preemption then looks for victims anew, and
// of several that will do it takes any: it has to find the same. Those that are marked
// are never found to be spared, and other nodes do not suit.

// evicts reports whether a pod on the node is marked to be evicted for the preemptor.
// Whether it was deleted cannot be seen; should that have failed it is tried again.
func (k *keepers) evicts(preemptor *v1.Pod, node fwk.NodeInfo) bool {
	marked := func(info fwk.PodInfo) bool {
		pod := info.GetPod()
		return pod.DeletionTimestamp == nil && markedByPreemption(pod) && corev1helpers.PodPriority(pod) < corev1helpers.PodPriority(preemptor)
	}
	return slices.ContainsFunc(node.GetPods(), marked) && k.nominatedTo(preemptor, node.Node().Name)
}

func markedByPreemption(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonPreemptionByScheduler
	})
}

// evictingNode returns the node with such pods, empty where there is none.
func (k *keepers) evictingNode(preemptor *v1.Pod) string {
	nodes, err := k.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return "" // it has no errors
	}
	for _, node := range nodes {
		if k.evicts(preemptor, node) {
			return node.Node().Name
		}
	}
	return ""
}

// evictsElsewhere reports whether another node has such pods.
func (a *common) evictsElsewhere(node string) bool {
	at := a.evicting()
	return at != "" && at != node
}
