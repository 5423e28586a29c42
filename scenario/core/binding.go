// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/scenario"
)

// awaitBinding deals with a pod that has its devices and waits on its node: it is bound
// when all binding conditions are true, and loses its allocations when a failure
// condition is (KEP-5007), but for those that another pod uses. Nothing times out.
func (b *Backend) awaitBinding(pod *v1.Pod) error {
	waits, lost := "", false
	for ref := range claim.Refs(pod) {
		c, found := b.claim(pod.Namespace, ref.Claim)
		if !found {
			continue
		}
		devices := claim.BindingOf(c)
		if !devices.Ready() && waits == "" {
			waits = "waits for devices of claim " + c.Name
		}
		if len(devices.Failed) == 0 || claim.UsedByOthers(c, pod) {
			continue
		}
		lost = true
		for _, f := range devices.Failed {
			b.failed[keyOf(c)] = append(b.failed[keyOf(c)], inventory.Hold{Device: f.Device})
		}
		b.deallocate(c)
	}
	if !lost && waits != "" {
		last := b.last[pod.UID]
		last.waits = waits
		b.last[pod.UID] = last
		return nil
	}
	// Meanwhile the pod may have come to need other devices.
	v, err := b.world().Try(pod)
	if err != nil {
		return fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	if lost || v.Obstacle != nil || v.Anew() {
		b.startOver(pod)
	} else {
		b.bind(pod, pod.Status.NominatedNodeName)
	}
	return nil
}

// bind has the pod run on the node.
func (b *Backend) bind(pod *v1.Pod, node string) {
	pod = pod.DeepCopy()
	pod.Status.NominatedNodeName = ""
	pod.Spec.NodeName, pod.Status.Phase = node, v1.PodRunning
	b.put(pod)
}

// startOver has the pod wait for a node again. Others need not wait for it meanwhile.
func (b *Backend) startOver(pod *v1.Pod) {
	for ref := range claim.Refs(pod) {
		if c, found := b.claim(pod.Namespace, ref.Claim); found && claim.ReservedFor(c, pod) {
			c = c.DeepCopy()
			c.Status.ReservedFor = slices.DeleteFunc(c.Status.ReservedFor, func(r claim.Consumer) bool { return r.UID == pod.UID })
			b.put(c)
		}
	}
	pod = pod.DeepCopy()
	pod.Status.NominatedNodeName = ""
	b.put(pod)
}

// deallocate takes a claim back.
func (b *Backend) deallocate(c *scenario.Claim) {
	c = c.DeepCopy()
	c.Status = resourceapi.ResourceClaimStatus{}
	b.put(c)
}
