// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"iter"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/cluster"
)

// Claim is short for what stories talk about most.
type Claim = resourceapi.ResourceClaim

// State is everything that is in a backend. It must not be changed.
type State struct{ *cluster.Snapshot }

// NewState returns the state with some objects.
func NewState(objects *cluster.Objects) *State { return &State{cluster.New(objects)} }

// pod finds a pod by a story's name for it: NAME or NAMESPACE/NAME.
func (s *State) pod(ref string) (*v1.Pod, error) {
	namespace, name := splitRef(ref)
	if pod := s.Pod(namespace, name); pod != nil {
		return pod, nil
	}
	var refs []string
	for _, p := range s.Pods {
		refs = append(refs, refOf(p))
	}
	return nil, fmt.Errorf("no pod %s; there are: %s", ref, strings.Join(refs, " "))
}

// claim finds a claim by a story's name for it.
func (s *State) claim(ref string) (*Claim, error) {
	var refs []string
	for _, c := range s.ResourceClaims {
		if claimRef(c) == ref {
			return c, nil
		}
		refs = append(refs, claimRef(c))
	}
	return nil, fmt.Errorf("no claim %s; there are: %s", ref, strings.Join(refs, " "))
}

func splitRef(ref string) (namespace, name string) {
	if namespace, name, found := strings.Cut(ref, "/"); found {
		return namespace, name
	}
	return Namespace, ref
}

// refOf is a story's name for an object: without the namespace it lives in.
func refOf(o Object) string {
	if o.GetNamespace() == Namespace {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}

// claimRef is a story's name for a claim. A claim that was made from a template
// for a pod is POD:NAME, with the pod's name for it: its own is made up. So is that
// of the claim for a pod's extended resources, POD:extended-resources.
func claimRef(c *Claim) string {
	name, generated := c.Annotations[resourceapi.PodResourceClaimAnnotation]
	if _, special := claim.SpecialOwner(c); special {
		name, generated = "extended-resources", true
	}
	if !generated {
		return refOf(c)
	}
	for _, owner := range c.OwnerReferences {
		if owner.Kind == "Pod" {
			pod := &v1.Pod{}
			pod.Namespace, pod.Name = c.Namespace, owner.Name
			return refOf(pod) + ":" + name
		}
	}
	return refOf(c)
}

// PodClaims yields the claims that a pod refers to, in its order, and the one for its
// extended resources; nil for one that does not exist (yet).
func (s *State) PodClaims(pod *v1.Pod) iter.Seq2[claim.Ref, *Claim] {
	return func(yield func(claim.Ref, *Claim) bool) {
		for ref := range claim.Refs(pod) {
			if !yield(ref, s.Claim(pod.Namespace, ref.Claim)) {
				return
			}
		}
	}
}

func (s *State) claimsOf(pod *v1.Pod) []*Claim {
	var claims []*Claim
	for _, c := range s.PodClaims(pod) {
		claims = append(claims, c)
	}
	return claims
}
