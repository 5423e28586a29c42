// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"iter"

	v1 "k8s.io/api/core/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
)

// Ref is a claim that a pod has.
type Ref struct {
	// Entry is that of the pod's spec.resourceClaims; nil for the special claim, which
	// serves extended resources of the pod.
	Entry *v1.PodResourceClaim
	// Claim is the name of the claim in the pod's namespace; empty where it was not made
	// from its template yet.
	Claim string
}

// Special reports whether the claim is the one for extended resources.
func (r Ref) Special() bool { return r.Entry == nil }

// Name is the pod's own name for the claim, empty for the special one.
func (r Ref) Name() string {
	if r.Entry == nil {
		return ""
	}
	return r.Entry.Name
}

// Refs yields the claims of a pod in the order of its spec, then the special claim that
// its status names. An entry that needs no claim, as the status says of it, is left out.
func Refs(pod *v1.Pod) iter.Seq[Ref] {
	return func(yield func(Ref) bool) {
		for i := range pod.Spec.ResourceClaims {
			ref := Ref{Entry: &pod.Spec.ResourceClaims[i]}
			// An error says that there is no claim yet, or names none.
			name, _, err := resourceclaim.Name(pod, ref.Entry)
			switch {
			case err == nil && name == nil:
				continue
			case err == nil:
				ref.Claim = *name
			}
			if !yield(ref) {
				return
			}
		}
		if name := SpecialNamed(pod); name != "" {
			yield(Ref{Claim: name})
		}
	}
}

// SpecialNamed is the special claim that the status of the pod names, empty where it
// names none.
func SpecialNamed(pod *v1.Pod) string {
	if status := pod.Status.ExtendedResourceClaimStatus; status != nil {
		return status.ResourceClaimName
	}
	return ""
}

// References counts the containers of a pod that refer to an entry of its
// spec.resourceClaims.
func References(pod *v1.Pod, entry string) int { return len(referring(pod, entry)) }

func referring(pod *v1.Pod, entry string) []string {
	var names []string
	for _, c := range containersOf(pod) {
		for _, used := range c.Resources.Claims {
			if used.Name == entry {
				names = append(names, c.Name)
				break
			}
		}
	}
	return names
}
