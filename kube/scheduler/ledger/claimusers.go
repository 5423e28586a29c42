// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/kube/scheduler/podclaim"
)

// Users finds the pods that reference a claim.
type Users struct {
	Lister corelisters.PodLister
	pods   cache.Indexer
	index  string
}

// newClaimUsers adds an index to the informer. Each profile has a plugin, and
// with it an index, of its own.
func newClaimUsers(pods coreinformers.PodInformer, profile string) (*Users, error) {
	u := &Users{Lister: pods.Lister(), pods: pods.Informer().GetIndexer(), index: "kerf.dev/resourceclaims-" + profile}
	if err := pods.Informer().AddIndexers(cache.Indexers{u.index: claimKeys}); err != nil {
		return nil, fmt.Errorf("add index of pods by claim: %w", err)
	}
	return u, nil
}

// claimKeys returns the keys of the claims that a pod references.
func claimKeys(obj any) ([]string, error) {
	pod, ok := obj.(*v1.Pod)
	if !ok {
		return nil, fmt.Errorf("got %T, want a pod", obj)
	}
	var keys []string
	for name := range resourceclaim.PodClaims(pod) {
		keys = append(keys, pod.Namespace+"/"+name)
	}
	return keys, nil
}

// Of returns the pods that reference the claim.
func (u *Users) Of(claim *resourceapi.ResourceClaim) ([]types.NamespacedName, error) {
	objs, err := u.pods.ByIndex(u.index, podclaim.NameOf(claim))
	if err != nil {
		return nil, fmt.Errorf("look up the pods of claim %s: %w", podclaim.NameOf(claim), err)
	}
	var names []types.NamespacedName
	for _, obj := range objs {
		if pod, ok := obj.(*v1.Pod); ok {
			names = append(names, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
		}
	}
	return names, nil
}

// Gone reports whether a consumer is a pod that does not exist any more or has
// come to its end.
func (u *Users) Gone(namespace string, consumer resourceapi.ResourceClaimConsumerReference) bool {
	if !claim.IsPod(consumer) {
		return false
	}
	pod, err := u.Lister.Pods(namespace).Get(consumer.Name)
	if err != nil {
		return apierrors.IsNotFound(err)
	}
	return pod.UID != consumer.UID || claim.Ended(pod)
}
