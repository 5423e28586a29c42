// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
)

// recallUntold has those pods accounted for.
func (r *nodeRoom) recallUntold(ctx context.Context) {
	if r.untold == nil {
		return
	}
	for _, u := range r.untold.All() {
		if u.Seen == nil && r.inFlight.Has(u.Pod.Spec.NodeName, u.Pod.UID) {
			r.untold.Forget(u.Pod.UID)
			continue
		}
		snapshot := r.feed.Latest()
		if u.Seen == nil {
			var err error
			if snapshot, err = r.feed.Snapshot(ctx); err != nil {
				klog.FromContext(ctx).Error(err, "cannot tell what the devices of a pod take of its node, trying again", "pod", klog.KObj(u.Pod))
				return
			}
		}
		if snapshot != u.Seen {
			r.recall(u.Pod, snapshot)
		}
	}
}

// recall accounts for a pod as far as its devices are known.
func (r *nodeRoom) recall(pod *v1.Pod, snapshot *inventory.Snapshot) {
	c, err := r.manager.ResourceClaims().Get(pod.Namespace, pod.Status.ExtendedResourceClaimStatus.ResourceClaimName)
	if err != nil || c.Status.Allocation == nil {
		r.untold.Keep(pod, snapshot) // not seen yet, or it is over
		return
	}
	devices := snapshot.DevicesOf(c.Status.Allocation)
	if slices.Contains(devices, nil) {
		r.untold.Keep(pod, snapshot)
	} else {
		r.untold.Forget(pod.UID)
	}
	if taken := claim.TakenByDevices(claim.WithSpecial(pod, c, devices)); len(taken) > 0 {
		r.inFlight.Add(pod.Spec.NodeName, pod, taken)
	}
}
