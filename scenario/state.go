// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
)

// Claim is short for what stories talk about most.
type Claim = resourceapi.ResourceClaim

// State is everything that is in a backend, each list sorted by namespace and
// name. It must not be changed.
type State struct {
	Nodes     []*v1.Node
	Slices    []*resourceapi.ResourceSlice
	Classes   []*resourceapi.DeviceClass
	Rules     []*resourceapi.DeviceTaintRule
	Claims    []*Claim
	Templates []*resourceapi.ResourceClaimTemplate
	Pods      []*v1.Pod
}

// Add adds an object; kinds that stories do not look at are ignored. Call Sort
// when everything is added.
func (s *State) Add(o Object) {
	switch o := o.(type) {
	case *v1.Node:
		s.Nodes = append(s.Nodes, o)
	case *resourceapi.ResourceSlice:
		s.Slices = append(s.Slices, o)
	case *resourceapi.DeviceClass:
		s.Classes = append(s.Classes, o)
	case *resourceapi.DeviceTaintRule:
		s.Rules = append(s.Rules, o)
	case *Claim:
		s.Claims = append(s.Claims, o)
	case *resourceapi.ResourceClaimTemplate:
		s.Templates = append(s.Templates, o)
	case *v1.Pod:
		s.Pods = append(s.Pods, o)
	}
}

// Sort sorts the lists.
func (s *State) Sort() {
	sortObjects(s.Nodes)
	sortObjects(s.Slices)
	sortObjects(s.Classes)
	sortObjects(s.Rules)
	sortObjects(s.Claims)
	sortObjects(s.Templates)
	sortObjects(s.Pods)
}

func sortObjects[T Object](objects []T) {
	slices.SortFunc(objects, func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
}

// find returns the object of that name, the zero value where there is none.
func find[T Object](objects []T, namespace, name string) T {
	i := slices.IndexFunc(objects, func(o T) bool { return o.GetNamespace() == namespace && o.GetName() == name })
	if i < 0 {
		var none T
		return none
	}
	return objects[i]
}

// Class looks up a device class; it is an alloc.Classes.
func (s *State) Class(name string) *resourceapi.DeviceClass { return find(s.Classes, "", name) }

// Claim returns the claim of that name, nil where there is none.
func (s *State) Claim(namespace, name string) *Claim { return find(s.Claims, namespace, name) }

// Inventory builds an inventory of the state from nothing.
func (s *State) Inventory() *inventory.Inventory {
	inv := inventory.New()
	for _, slice := range s.Slices {
		inv.SetSlice(slice)
	}
	for _, rule := range s.Rules {
		inv.SetTaintRule(rule)
	}
	for _, claim := range s.Claims {
		inv.SetClaim(claim)
	}
	return inv
}

// pod finds a pod by a story's name for it: NAME or NAMESPACE/NAME.
func (s *State) pod(ref string) (*v1.Pod, error) {
	namespace, name := splitRef(ref)
	if pod := find(s.Pods, namespace, name); pod != nil {
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
	for _, c := range s.Claims {
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
