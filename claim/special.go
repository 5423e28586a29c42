// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// specialBase is how the name of a special claim goes on after that of its pod.
const specialBase = "-extended-resources"

// SpecialName is the name that kerf-scheduler gives to the special claim of a pod: the
// same in all attempts, so that none can make a second claim because it does not know of
// the first.
func SpecialName(pod string, uid types.UID) string {
	hash := sha256.Sum256([]byte(uid))
	suffix := specialBase + "-" + hex.EncodeToString(hash[:5])
	const limit = 253 // of a DNS subdomain
	return strings.TrimRight(pod[:min(len(pod), limit-len(suffix))], "-.") + suffix
}

// NewSpecial makes the claim for demands of a pod (KEP-5004). Its name is the start
// of the one that a scheduler gives it.
func NewSpecial(pod *v1.Pod, demands []Demand) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name + specialBase,
		Annotations:     map[string]string{resourceapi.ExtendedResourceClaimAnnotation: "true"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true)}},
	}}
	for _, d := range demands {
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, d.Requests...)
	}
	return claim
}

// MappingsOf are those of all demands, and the containers in them.
func MappingsOf(demands []Demand) (mappings []v1.ContainerExtendedResourceRequest, containers []string) {
	for _, d := range demands {
		mappings = append(mappings, d.Mappings...)
	}
	return mappings, ContainersIn(mappings)
}

// ContainersIn are the containers that mappings are for, each once.
func ContainersIn(mappings []v1.ContainerExtendedResourceRequest) []string {
	var containers []string
	for _, m := range mappings {
		if !slices.Contains(containers, m.ContainerName) {
			containers = append(containers, m.ContainerName)
		}
	}
	return containers
}

// Purpose is what a request of a special claim is for: an extended resource of some
// containers of the pod. The zero value stands for what is not known.
type Purpose struct {
	Resource   string
	Containers []string
}

// String says it in the words of whoever wrote the pod, which the name of the request
// is not; empty for the zero value.
func (p Purpose) String() string {
	if p.Resource == "" {
		return ""
	}
	return p.Resource + " for " + strings.Join(p.Containers, ", ")
}

// PurposeIn is zero where there is no such request.
func PurposeIn(mappings []v1.ContainerExtendedResourceRequest, request string) Purpose {
	var p Purpose
	for _, m := range mappings {
		if m.RequestName == request {
			p.Resource, p.Containers = m.ResourceName, append(p.Containers, m.ContainerName)
		}
	}
	return p
}

// PurposeOf is what a request of a claim is for in a pod, zero where the claim is not
// one for its extended resources. While the status of the pod does not name the claim
// it is what the status will say.
func PurposeOf(pod *v1.Pod, claim *resourceapi.ResourceClaim, request string) Purpose {
	switch {
	case NamesSpecial(pod, claim):
		return PurposeIn(pod.Status.ExtendedResourceClaimStatus.RequestMappings, request)
	case MadeFor(pod, claim):
		return PurposeIn(mappingsFor(pod), request)
	}
	return Purpose{}
}

// IsSpecial reports whether a claim says that it was made for extended resources, and
// not from a template, which can have any annotation.
func IsSpecial(claim *resourceapi.ResourceClaim) bool {
	_, fromTemplate := claim.Annotations[resourceapi.PodResourceClaimAnnotation]
	return claim.Annotations[resourceapi.ExtendedResourceClaimAnnotation] == "true" && !fromTemplate
}

// SpecialOwner returns the pod that a special claim was made for, ok is false for other
// claims. Users can copy annotations and owners, so its name has to be one that a
// scheduler gives: kerf-scheduler, the stock one, or [World.Place].
func SpecialOwner(claim *resourceapi.ResourceClaim) (owner *metav1.OwnerReference, ok bool) {
	if owner = MarkedFor(claim); owner == nil {
		return nil, false
	}
	byName := claim.Name == SpecialName(owner.Name, owner.UID) || claim.Name == owner.Name+specialBase
	return owner, byName || claim.GenerateName == owner.Name+specialBase+"-"
}

// MarkedFor returns the pod for whose extended resources a claim says that it was made,
// nil where it says nothing of that.
func MarkedFor(claim *resourceapi.ResourceClaim) *metav1.OwnerReference {
	owner := metav1.GetControllerOfNoCopy(claim)
	if !IsSpecial(claim) || owner == nil || owner.Kind != "Pod" {
		return nil
	}
	return owner
}

// UsesSpecial reports whether a claim is the one for the extended resources of the pod:
// the one in its status or, while there is none, any that was made for it.
func UsesSpecial(pod *v1.Pod, claim *resourceapi.ResourceClaim) bool {
	return NamesSpecial(pod, claim) || pod.Status.ExtendedResourceClaimStatus == nil && MadeFor(pod, claim)
}

// NamesSpecial reports whether the status of the pod names the claim as its special one.
func NamesSpecial(pod *v1.Pod, claim *resourceapi.ResourceClaim) bool {
	status := pod.Status.ExtendedResourceClaimStatus
	return status != nil && status.ResourceClaimName == claim.Name && pod.Namespace == claim.Namespace
}

// MadeFor reports whether a scheduler made the claim for extended resources of the pod, and
// nobody else uses it.
func MadeFor(pod *v1.Pod, claim *resourceapi.ResourceClaim) bool {
	_, special := SpecialOwner(claim)
	return special && pod.Namespace == claim.Namespace && Owns(pod, claim) && !UsedByOthers(claim, pod)
}

// ChooseSpecial picks the special claim that a pod keeps, of those that it may use, and
// those that go: the one in its status stays, else the oldest. One that is being deleted
// does not stay.
func ChooseSpecial(pod *v1.Pod, claims []*resourceapi.ResourceClaim) (kept *resourceapi.ResourceClaim, left []*resourceapi.ResourceClaim) {
	slices.SortFunc(claims, func(a, b *resourceapi.ResourceClaim) int {
		return cmp.Or(ranked(NamesSpecial(pod, a))-ranked(NamesSpecial(pod, b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for _, claim := range claims {
		if kept == nil && claim.DeletionTimestamp == nil {
			kept = claim
		} else {
			left = append(left, claim)
		}
	}
	return kept, left
}

// ranked orders what is so before what is not.
func ranked(is bool) int {
	if is {
		return 0
	}
	return 1
}

// IsSpecialOf reports whether a claim was made for extended resources of the pod: its status
// names it, or a scheduler made it. One that the pod asks for by name is not, whatever its
// annotations say.
func IsSpecialOf(pod *v1.Pod, claim *resourceapi.ResourceClaim) bool {
	owner := MarkedFor(claim)
	if owner == nil || owner.UID != pod.UID || claim.Namespace != pod.Namespace {
		return false
	}
	_, made := SpecialOwner(claim)
	return (made || NamesSpecial(pod, claim)) && !slices.ContainsFunc(pod.Spec.ResourceClaims, func(entry v1.PodResourceClaim) bool {
		return entry.ResourceClaimName != nil && *entry.ResourceClaimName == claim.Name
	})
}

// MayUseSpecial reports whether a claim is one of those to choose from: it was made for the
// pod, whose status names it, or nobody else uses it.
func MayUseSpecial(pod *v1.Pod, claim *resourceapi.ResourceClaim) bool {
	return IsSpecialOf(pod, claim) && (NamesSpecial(pod, claim) || !UsedByOthers(claim, pod))
}

// mappingsFor are those of everything that devices may serve for a pod: names of
// requests do not depend on what they do serve.
func mappingsFor(pod *v1.Pod) []v1.ContainerExtendedResourceRequest {
	var mappings []v1.ContainerExtendedResourceRequest
	for _, name := range ExtendedResources(pod) {
		mappings = append(mappings, DemandFor(pod, name, "").Mappings...)
	}
	return mappings
}
