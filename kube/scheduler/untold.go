// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/kube/informer"
)

// untold knows the pods on nodes whose status does not say what their special claim takes
// of the node. API servers of Kubernetes 1.37 do not accept that (see writeStatus). While
// the scheduler runs inFlight knows of them; after a restart they are found here, and what
// they take is worked out from their claims and the devices as they are published now.
type untold struct {
	informer     cache.SharedIndexInformer
	registration cache.ResourceEventHandlerRegistration

	mutex sync.Mutex
	// pods that have not been looked at, or some of whose devices nobody publishes.
	pods map[types.UID]untoldPod
}

type untoldPod struct {
	pod *v1.Pod
	// seen is the snapshot that did not have all devices.
	seen *inventory.Snapshot
}

func watchUntold(pods cache.SharedIndexInformer) (*untold, error) {
	u := &untold{informer: pods, pods: map[types.UID]untoldPod{}}
	var err error
	u.registration, err = pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    u.changed,
		UpdateFunc: func(_, obj any) { u.changed(obj) },
		DeleteFunc: func(obj any) {
			if pod, ok := informer.Object[*v1.Pod](obj); ok {
				u.forget(pod.UID)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch Pods: %w", err)
	}
	return u, nil
}

// Close ends the watch.
func (u *untold) Close() error { return u.informer.RemoveEventHandler(u.registration) }

func (u *untold) changed(obj any) {
	pod, ok := obj.(*v1.Pod)
	if !ok {
		return
	}
	special := pod.Status.ExtendedResourceClaimStatus
	if pod.Spec.NodeName == "" || special == nil || claim.Says(pod.Status.NodeAllocatableResourceClaimStatuses, special.ResourceClaimName) {
		u.forget(pod.UID)
		return
	}
	u.mutex.Lock()
	defer u.mutex.Unlock()
	u.pods[pod.UID] = untoldPod{pod, u.pods[pod.UID].seen}
}

func (u *untold) forget(pod types.UID) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	delete(u.pods, pod)
}

// keep notes that a snapshot did not have all devices of a pod.
func (u *untold) keep(pod *v1.Pod, seen *inventory.Snapshot) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if known, found := u.pods[pod.UID]; found && known.pod == pod {
		u.pods[pod.UID] = untoldPod{pod, seen}
	}
}

func (u *untold) all() []untoldPod {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	return slices.Collect(maps.Values(u.pods))
}

// recallUntold has those pods accounted for.
func (pl *Plugin) recallUntold(ctx context.Context) {
	if pl.untold == nil {
		return
	}
	for _, u := range pl.untold.all() {
		if u.seen == nil && pl.inFlight.has(u.pod.Spec.NodeName, u.pod.UID) {
			pl.untold.forget(u.pod.UID)
			continue
		}
		snapshot := pl.feed.Latest()
		if u.seen == nil {
			var err error
			if snapshot, err = pl.feed.Snapshot(ctx); err != nil {
				klog.FromContext(ctx).Error(err, "cannot tell what the devices of a pod take of its node, trying again", "pod", klog.KObj(u.pod))
				return
			}
		}
		if snapshot != u.seen {
			pl.recall(u.pod, snapshot)
		}
	}
}

// recall accounts for a pod as far as its devices are known.
func (pl *Plugin) recall(pod *v1.Pod, snapshot *inventory.Snapshot) {
	c, err := pl.manager.ResourceClaims().Get(pod.Namespace, pod.Status.ExtendedResourceClaimStatus.ResourceClaimName)
	if err != nil || c.Status.Allocation == nil {
		pl.untold.keep(pod, snapshot) // not seen yet, or it is over
		return
	}
	devices := snapshot.DevicesOf(c.Status.Allocation)
	if slices.Contains(devices, nil) {
		pl.untold.keep(pod, snapshot)
	} else {
		pl.untold.forget(pod.UID)
	}
	if taken := claim.TakenByDevices(claim.WithSpecial(pod, c, devices)); len(taken) > 0 {
		pl.inFlight.add(pod.Spec.NodeName, pod, taken)
	}
}
