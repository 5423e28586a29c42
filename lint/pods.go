// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"kerf.dev/kerf/claim"
)

// podSpec is a pod that is looked at.
type podSpec struct {
	subject
	pod *v1.Pod
}

// containers yields the containers of the pod with their paths.
func (p podSpec) containers(yield func(path string, c *v1.Container) bool) {
	for i := range p.pod.Spec.InitContainers {
		if !yield(fmt.Sprintf("spec.initContainers[%d]", i), &p.pod.Spec.InitContainers[i]) {
			return
		}
	}
	for i := range p.pod.Spec.Containers {
		if !yield(fmt.Sprintf("spec.containers[%d]", i), &p.pod.Spec.Containers[i]) {
			return
		}
	}
}

// checkPods reports pods whose claims do not exist, lack a request that a
// container uses, or cannot be used where the pod runs. Those for extended resources
// are among them.
func (c *checker) checkPods() {
	for _, pod := range c.cluster.Pods {
		if claim.Ended(pod) {
			continue
		}
		p := podSpec{c.about("Pod", pod), pod}
		for i := range pod.Spec.ResourceClaims {
			p.checkEntry(fmt.Sprintf("spec.resourceClaims[%d]", i), &pod.Spec.ResourceClaims[i])
		}
		p.checkSpecial()
	}
}

// checkSpecial reports a pod whose status names a claim for its extended resources that
// does not exist, or cannot be used where the pod runs. While the pod has no node the
// scheduler makes the claim anew.
func (p podSpec) checkSpecial() {
	status := p.pod.Status.ExtendedResourceClaimStatus
	if status == nil || p.pod.Spec.NodeName == "" {
		return
	}
	const path = "status.extendedResourceClaimStatus.resourceClaimName"
	if claim := p.cluster.Claim(p.pod.Namespace, status.ResourceClaimName); claim != nil {
		p.checkReach(path, claim)
		return
	}
	p.report(Warning, "pod-unknown-claim", path, "delete the pod, so that it gets a new claim",
		"there is no ResourceClaim %s/%s for the extended resources of the pod: nothing keeps its devices from other pods", p.pod.Namespace, status.ResourceClaimName)
}

func (p podSpec) checkEntry(path string, entry *v1.PodResourceClaim) {
	var asks *claimSpec
	rc := p.claim(entry)
	switch {
	case rc != nil:
		asks = &claimSpec{DeviceClaim: &rc.Spec.Devices}
		p.checkReach(path, rc)
	case entry.ResourceClaimName != nil:
		p.report(Warning, "pod-unknown-claim", path+".resourceClaimName", "create the claim or correct the name",
			"the pod waits: there is no ResourceClaim %s/%s", p.pod.Namespace, *entry.ResourceClaimName)
	case entry.ResourceClaimTemplateName != nil:
		t := p.cluster.Template(p.pod.Namespace, *entry.ResourceClaimTemplateName)
		if t == nil {
			if !claim.Started(p.pod) {
				p.report(Warning, "pod-unknown-claim", path+".resourceClaimTemplateName", "create the template or correct the name",
					"the pod waits: there is no ResourceClaimTemplate %s/%s", p.pod.Namespace, *entry.ResourceClaimTemplateName)
			}
			return
		}
		asks = &claimSpec{DeviceClaim: &t.Spec.Spec.Devices}
	}
	if asks != nil {
		for path, container := range p.containers {
			p.checkUsedRequests(path, container, entry.Name, asks)
		}
	}
}

// claim returns the claim of an entry, nil where it does not exist (yet).
func (p podSpec) claim(entry *v1.PodResourceClaim) *resourceapi.ResourceClaim {
	for ref := range claim.Refs(p.pod) {
		if ref.Entry == entry && ref.Claim != "" {
			return p.cluster.Claim(p.pod.Namespace, ref.Claim)
		}
	}
	return nil
}

// checkUsedRequests reports a container that uses a request which the claim does
// not have: the kubelet does not start it.
func (p podSpec) checkUsedRequests(path string, c *v1.Container, entry string, asks *claimSpec) {
	for k, used := range c.Resources.Claims {
		if used.Name == entry && used.Request != "" && (strings.Contains(used.Request, "/") || !asks.has(used.Request)) {
			p.report(Error, "pod-unknown-request", fmt.Sprintf("%s.resources.claims[%d].request", path, k), "name a request of the claim, or none for all of it",
				"container %s uses request %q of claim %s, which has no such request", c.Name, used.Request, entry)
		}
	}
}

// checkReach reports a pod that runs where its claim's devices cannot be used.
func (p podSpec) checkReach(path string, claim *resourceapi.ResourceClaim) {
	node, a := p.cluster.Node(p.pod.Spec.NodeName), claim.Status.Allocation
	if node == nil || a == nil || a.NodeSelector == nil {
		return
	}
	selector, err := nodeaffinity.NewNodeSelector(a.NodeSelector)
	if err != nil || selector.Match(node) {
		return // a selector that is not valid is the claim's fault, see checkAllocations
	}
	p.report(Error, "pod-elsewhere", path, "delete the pod, so that it is placed where its devices are",
		"the pod is on node %s, where the devices of claim %s/%s cannot be used", p.pod.Spec.NodeName, claim.Namespace, claim.Name)
}

// checkNodeNames reports slices for nodes that do not exist. Without any Node in
// the input nothing is known about nodes.
func (c *checker) checkNodeNames() {
	if len(c.cluster.Nodes) == 0 {
		return
	}
	known := map[string]bool{}
	for _, node := range c.cluster.Nodes {
		known[node.Name] = true
	}
	for _, slice := range c.cluster.ResourceSlices {
		s := c.about("ResourceSlice", slice)
		s.checkNodeName("spec.nodeName", slice.Spec.NodeName, known)
		for i := range slice.Spec.Devices {
			s.checkNodeName(fmt.Sprintf("spec.devices[%d].nodeName", i), slice.Spec.Devices[i].NodeName, known)
		}
	}
}

func (s subject) checkNodeName(field string, name *string, known map[string]bool) {
	if name != nil && *name != "" && !known[*name] {
		s.report(Warning, "slice-unknown-node", field, "correct the name, or delete the slice if the node is gone", "there is no node %s", *name)
	}
}
