// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
)

// doClaim and doTemplate read "claim NAME" and "template NAME" with a body.
func doClaim(t *telling, c call) (string, error) {
	name, err := c.name()
	if err != nil {
		return "", err
	}
	return "", t.applyClaim(name, c.body)
}

func (t *telling) applyClaim(name string, body []line) error {
	spec, err := parseClaim(body)
	if err != nil {
		return err
	}
	claim := &Claim{Spec: spec}
	claim.Name = name
	return t.apply("claim", claim)
}

func doTemplate(t *telling, c call) (string, error) {
	name, err := c.name()
	if err != nil {
		return "", err
	}
	template := &resourceapi.ResourceClaimTemplate{}
	template.Name = name
	if template.Spec.Spec, err = parseClaim(c.body); err != nil {
		return "", err
	}
	return "", t.apply("template", template)
}

// doPod reads "pod NAME [claim NAME...] [template NAME...]
// [asks RESOURCE=AMOUNT...] [on NODE...]". A body
// is the body of a claim of the pod's own, with the pod's name.
func doPod(t *telling, c call) (string, error) {
	name, clauses, err := c.nameAndClauses("claim", "template", "asks", "on")
	if err != nil {
		return "", err
	}
	pod := newPod(name)
	for _, cl := range clauses {
		if err := addToPod(pod, cl); err != nil {
			return "", err
		}
	}
	if len(c.body) > 0 {
		if err := t.applyClaim(pod.Name, c.body); err != nil {
			return "", err
		}
		t.own[pod.Name] = true
		addPodClaim(pod, v1.PodResourceClaim{Name: claimAlias(pod.Name), ResourceClaimName: &pod.Name})
	}
	return "", t.apply("pod", pod)
}

func addToPod(pod *v1.Pod, c clause) error {
	if c.keyword == "asks" {
		amounts, err := resourceList(c)
		pod.Spec.Containers[0].Resources.Requests, pod.Spec.Containers[0].Resources.Limits = amounts, amounts
		return err
	}
	names, err := c.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		switch c.keyword {
		case "claim":
			addPodClaim(pod, v1.PodResourceClaim{Name: claimAlias(name), ResourceClaimName: &name})
		case "template":
			addPodClaim(pod, v1.PodResourceClaim{Name: claimAlias(name), ResourceClaimTemplateName: &name})
		}
	}
	if c.keyword == "on" {
		pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: selectNodes(names)}}
	}
	return nil
}

// resourceList reads a clause with RESOURCE=AMOUNT words.
func resourceList(c clause) (v1.ResourceList, error) {
	if len(c.words) == 0 {
		return nil, fmt.Errorf("%s: want RESOURCE=AMOUNT... after it", c.keyword)
	}
	amounts, err := quantities(c.words)
	list := v1.ResourceList{}
	for name, amount := range amounts {
		list[v1.ResourceName(name)] = amount
	}
	return list, err
}

func newPod(name string) *v1.Pod {
	pod := &v1.Pod{}
	pod.Name = name
	now := int64(0)
	pod.Spec.TerminationGracePeriodSeconds = &now
	pod.Spec.Containers = []v1.Container{{Name: "main", Image: "pause:3.10"}}
	return pod
}

// addPodClaim lets the pod and its container refer to a claim.
func addPodClaim(pod *v1.Pod, claim v1.PodResourceClaim) {
	pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, claim)
	r := &pod.Spec.Containers[0].Resources
	r.Claims = append(r.Claims, v1.ResourceClaim{Name: claim.Name})
}

// claimAlias is the pod's name for a claim; it may not contain dots.
func claimAlias(name string) string { return strings.ReplaceAll(name, ".", "-") }
