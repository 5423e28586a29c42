// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/scenario"
)

// awaitBinding deals with a pod that has its devices and a node: it is bound when
// all binding conditions are true, and loses its allocations when a failure
// condition is (KEP-5007), but for those that another pod uses. It reports whether
// the pod needs no attempt. There is no clock here, so nothing times out.
func (b *Backend) awaitBinding(state *scenario.State, pod *v1.Pod) (waiting bool) {
	if pod.Status.NominatedNodeName == "" {
		return false
	}
	var unready, failed, lost []*scenario.Claim
	for _, c := range state.PodClaims(pod) {
		devices := claim.BindingOf(c)
		if len(devices.Pending) > 0 {
			unready = append(unready, c)
		}
		if len(devices.Failed) == 0 {
			continue
		}
		failed = append(failed, c)
		if len(c.Status.ReservedFor) == 1 {
			lost = append(lost, c)
			for _, f := range devices.Failed {
				b.failed[c.UID] = append(b.failed[c.UID], inventory.Hold{
					Device: f.Device, Holder: inventory.Holder{Namespace: c.Namespace, Claim: c.Name, UID: c.UID},
				})
			}
		}
	}
	switch {
	case len(lost) > 0:
		b.deallocate(lost)
		b.bind(pod, "")
	case len(failed) == 0 && len(unready) == 0:
		b.bind(pod, pod.Status.NominatedNodeName)
	default:
		last := b.last[pod.UID]
		last.waits = "waits for devices of claim " + append(failed, unready...)[0].Name
		b.last[pod.UID] = last
	}
	return true
}

// bind ends the wait of a pod: it runs on the node, or starts over without one.
func (b *Backend) bind(pod *v1.Pod, node string) {
	pod = pod.DeepCopy()
	pod.Status.NominatedNodeName = ""
	if node != "" {
		pod.Spec.NodeName, pod.Status.Phase = node, v1.PodRunning
	}
	b.put(pod)
}

// avoided are the devices that have failed the claims before.
func (b *Backend) avoided(claims []*scenario.Claim) []inventory.Hold {
	var avoid []inventory.Hold
	for _, claim := range claims {
		avoid = append(avoid, b.failed[claim.UID]...)
	}
	return avoid
}

// deallocate takes claims back.
func (b *Backend) deallocate(claims []*scenario.Claim) {
	for _, claim := range claims {
		claim = claim.DeepCopy()
		claim.Status = resourceapi.ResourceClaimStatus{}
		b.put(claim)
	}
}
