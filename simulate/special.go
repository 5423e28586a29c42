// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/alloc"
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

// SpecialClaim makes the claim for demands of a pod (KEP-5004). Its name is the start
// of the one that a scheduler gives it.
func SpecialClaim(pod *v1.Pod, demands []Demand) *resourceapi.ResourceClaim {
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
	return mappings, containersIn(mappings)
}

func containersIn(mappings []v1.ContainerExtendedResourceRequest) []string {
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
	case namesSpecial(pod, claim):
		return PurposeIn(pod.Status.ExtendedResourceClaimStatus.RequestMappings, request)
	case madeFor(pod, claim):
		return PurposeIn(mappingsFor(pod), request)
	}
	return Purpose{}
}

// specialOf returns the claim that was made for the extended resources of a pod and
// has devices, nil where there is none.
func (w *World) specialOf(pod *v1.Pod) *resourceapi.ResourceClaim {
	allocated := func(claim *resourceapi.ResourceClaim) bool { return claim != nil && claim.Status.Allocation != nil }
	if status := pod.Status.ExtendedResourceClaimStatus; status != nil {
		if claim := w.claims[Key{pod.Namespace, status.ResourceClaimName}]; allocated(claim) {
			return claim
		}
		return nil
	}
	var first *resourceapi.ResourceClaim
	for _, claim := range w.claims {
		if allocated(claim) && madeFor(pod, claim) && (first == nil || older(claim, first)) {
			first = claim
		}
	}
	return first
}

func older(a, b *resourceapi.ResourceClaim) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
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
	return namesSpecial(pod, claim) || pod.Status.ExtendedResourceClaimStatus == nil && madeFor(pod, claim)
}

func namesSpecial(pod *v1.Pod, claim *resourceapi.ResourceClaim) bool {
	status := pod.Status.ExtendedResourceClaimStatus
	return status != nil && status.ResourceClaimName == claim.Name && pod.Namespace == claim.Namespace
}

func madeFor(pod *v1.Pod, claim *resourceapi.ResourceClaim) bool {
	_, special := SpecialOwner(claim)
	return special && pod.Namespace == claim.Namespace && ownedBy(claim, pod) && !UsedByOthers(claim, pod)
}

// Called is what a request of a special claim is for, in the words of whoever wrote the
// pod that it was made for; empty for other claims, and where there is no such pod.
func (w *World) Called(claim *resourceapi.ResourceClaim, request string) string {
	if !IsSpecial(claim) {
		return ""
	}
	for _, pod := range w.pods {
		if namesSpecial(pod, claim) || madeFor(pod, claim) {
			return PurposeOf(pod, claim, request).String()
		}
	}
	return ""
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

// hasSpecial reports whether the pod has devices for its extended resources already.
func (v *Verdict) hasSpecial() bool {
	return slices.ContainsFunc(v.Claims, func(c Claim) bool { return c.Special })
}

// needless returns the claim that the status of the pod names for its extended
// resources, where device plugins of the node serve all of them and it has no devices;
// empty otherwise. The kubelet would not start the pod without that claim.
func (v *Verdict) needless(node *v1.Node) string {
	names := ExtendedResources(v.Pod)
	status := v.Pod.Status.ExtendedResourceClaimStatus
	lacks := func(name v1.ResourceName) bool {
		return node.Status.Allocatable.Name(name, resource.DecimalSI).IsZero()
	}
	if status == nil || len(names) == 0 || v.hasSpecial() || slices.ContainsFunc(names, lacks) {
		return ""
	}
	return status.ResourceClaimName
}

// demandsOn lists what devices have to serve on a node.
func (w *World) demandsOn(v *Verdict, node *v1.Node) []Demand {
	if v.hasSpecial() {
		return nil // it has what it asked for
	}
	var demands []Demand
	for _, name := range ExtendedResources(v.Pod) {
		class := w.classServing(name)
		if class != "" && node.Status.Allocatable.Name(name, resource.DecimalSI).IsZero() {
			demands = append(demands, DemandFor(v.Pod, name, class))
		}
	}
	return demands
}

// way is what has to be solved on nodes where devices serve the same resources.
type way struct {
	special *resourceapi.ResourceClaim
	problem *alloc.Problem
	demands []Demand
	// overQuota is why a ResourceQuota refuses the special claim, empty where none does.
	overQuota string
}

// wayFor returns nil where a class cannot be used; the verdict says so.
func (w *World) wayFor(v *Verdict, demands []Demand) (*way, error) {
	if len(demands) == 0 {
		return &way{problem: v.problem}, nil
	}
	var names []string
	for _, d := range demands {
		names = append(names, string(d.Resource))
	}
	key := strings.Join(names, " ")
	if found := v.ways[key]; found != nil {
		return found, nil
	}
	made := &way{special: SpecialClaim(v.Pod, demands), demands: demands}
	_, containers := MappingsOf(demands)
	var err error
	made.problem, err = w.compile(append(slices.Clip(v.pending), made.special), append(v.containers(), len(containers)))
	if input := (*alloc.InputError)(nil); errors.As(err, &input) {
		v.Obstacle = &Obstacle{Kind: BadInput, Input: input}
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	made.overQuota = w.specialOverQuota(v, made.special)
	if v.ways == nil {
		v.ways = map[string]*way{}
	}
	v.ways[key] = made
	return made, nil
}

// Wanted are the claims that results and refusals of the node are about, in their
// order: the pending ones, and the one for extended resources where devices serve some
// of them there.
func (n *NodeVerdict) Wanted() []*resourceapi.ResourceClaim {
	if n.way == nil || n.way.special == nil {
		return n.pending
	}
	return append(slices.Clip(n.pending), n.way.special)
}

// Called is what a request is for, where its name does not say it.
func (n *NodeVerdict) Called(ref alloc.RequestRef) string {
	if n.way == nil || n.way.special == nil || ref.Claim != n.way.special.Namespace+"/"+n.way.special.Name {
		return ""
	}
	mappings, _ := MappingsOf(n.way.demands)
	return PurposeIn(mappings, ref.Request).String()
}

// specialUsers are the containers that use the claim for extended resources; nil for
// other claims.
func (v *Verdict) specialUsers(claim Claim) []string {
	switch status := v.Pod.Status.ExtendedResourceClaimStatus; {
	case !claim.Special:
		return nil
	case status != nil:
		return containersIn(status.RequestMappings)
	case v.Best != nil && v.Best.way != nil:
		_, containers := MappingsOf(v.Best.way.demands)
		return containers
	}
	return nil
}

// placeSpecial gives the pod the claim for its extended resources.
func (w *World) placeSpecial(v *Verdict) {
	if v.Best.way == nil || v.Best.way.special == nil {
		return
	}
	placed := *v.Best.way.special
	placed.Status.Allocation = &v.Best.Outcome.Result.Claims[len(v.pending)]
	placed.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: v.Pod.Name, UID: v.Pod.UID}}
	v.Claims = append(v.Claims, Claim{Object: &placed, New: true, Special: true})
	w.setClaim(&placed)
}
