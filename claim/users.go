// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// Consumer is an entry of a claim's status.reservedFor.
type Consumer = resourceapi.ResourceClaimConsumerReference

// Ended reports whether a pod has run to its end. It holds nothing any more.
func Ended(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// AsConsumer is the pod as an entry of status.reservedFor.
func AsConsumer(pod *v1.Pod) Consumer {
	return Consumer{Resource: "pods", Name: pod.Name, UID: pod.UID}
}

// IsPod reports whether a consumer is a pod.
func IsPod(consumer Consumer) bool { return consumer.APIGroup == "" && consumer.Resource == "pods" }

// ReservedFor reports whether a claim is reserved for the pod itself or for its PodGroup
// (KEP-5729).
func ReservedFor(c *resourceapi.ResourceClaim, pod *v1.Pod) bool {
	if pod.UID != "" {
		return resourceclaim.IsReservedForPod(pod, c, true)
	}
	return reservedForPod(c, pod)
}

func reservedForPod(c *resourceapi.ResourceClaim, pod *v1.Pod) bool {
	return slices.ContainsFunc(c.Status.ReservedFor, func(r Consumer) bool {
		return IsPod(r) && r.Name == pod.Name && (pod.UID == "" || r.UID == pod.UID)
	})
}

// ReservedForNobodyBut reports whether nobody or only that consumer uses a claim.
func ReservedForNobodyBut(c *resourceapi.ResourceClaim, consumer types.UID) bool {
	return !slices.ContainsFunc(c.Status.ReservedFor, func(r Consumer) bool { return r.UID != consumer })
}

// UsedByOthers reports whether a claim is reserved for somebody else than the pod.
func UsedByOthers(c *resourceapi.ResourceClaim, pod *v1.Pod) bool {
	own := 0
	if reservedForPod(c, pod) {
		own = 1
	}
	return len(c.Status.ReservedFor) > own
}

// Started reports whether a pod runs or has run: it has what it needs.
func Started(pod *v1.Pod) bool { return pod.Status.Phase != "" && pod.Status.Phase != v1.PodPending }

// Owns reports whether a claim was made for the pod.
func Owns(pod *v1.Pod, c *resourceapi.ResourceClaim) bool {
	owner := metav1.GetControllerOfNoCopy(c)
	return owner != nil && owner.Kind == "Pod" && owner.Name == pod.Name && (pod.UID == "" || owner.UID == pod.UID)
}
