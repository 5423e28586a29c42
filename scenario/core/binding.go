// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	for _, claim := range state.PodClaims(pod) {
		ready, devices := conditions(claim)
		if !ready {
			unready = append(unready, claim)
		}
		if len(devices) == 0 {
			continue
		}
		failed = append(failed, claim)
		if len(claim.Status.ReservedFor) == 1 {
			lost = append(lost, claim)
			b.failed[claim.UID] = append(b.failed[claim.UID], devices...)
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

// conditions reports whether all devices of a claim are ready to be used, and
// which failed to become so.
func conditions(claim *scenario.Claim) (ready bool, failed []inventory.Hold) {
	ready = true
	for i := range claim.Status.Allocation.Devices.Results {
		r := &claim.Status.Allocation.Devices.Results[i]
		for _, c := range r.BindingConditions {
			ready = ready && isTrue(claim, r, c)
		}
		if slices.ContainsFunc(r.BindingFailureConditions, func(c string) bool { return isTrue(claim, r, c) }) {
			failed = append(failed, inventory.Hold{
				Device: inventory.DeviceID{Driver: r.Driver, Pool: r.Pool, Device: r.Device},
				Holder: inventory.Holder{Namespace: claim.Namespace, Claim: claim.Name, UID: claim.UID},
			})
		}
	}
	return ready, failed
}

func isTrue(claim *scenario.Claim, r *resourceapi.DeviceRequestAllocationResult, condition string) bool {
	return slices.ContainsFunc(claim.Status.Devices, func(d resourceapi.AllocatedDeviceStatus) bool {
		return d.Driver == r.Driver && d.Pool == r.Pool && d.Device == r.Device &&
			slices.ContainsFunc(d.Conditions, func(c metav1.Condition) bool {
				return c.Type == condition && c.Status == metav1.ConditionTrue
			})
	})
}

// deallocate takes claims back.
func (b *Backend) deallocate(claims []*scenario.Claim) {
	for _, claim := range claims {
		claim = claim.DeepCopy()
		claim.Status = resourceapi.ResourceClaimStatus{}
		b.put(claim)
	}
}
