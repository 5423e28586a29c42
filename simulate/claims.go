// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/claim"
)

// Claim is a claim of a pod.
type Claim struct {
	// Name is that of the entry in the pod's spec.resourceClaims.
	Name string
	// Template is the name of the template, empty where the pod names the claim.
	Template string
	// Object is the claim. New is set where it does not exist yet and was made
	// from the template.
	Object *resourceapi.ResourceClaim
	New    bool
	// Special is set for the claim with the devices that serve extended resources of
	// the pod. It has no entry.
	Special bool
}

// ObstacleKind is why a pod waits before any node is looked at.
type ObstacleKind string

// The kinds of obstacles.
const (
	// Gated: the pod has scheduling gates, the first is Name.
	Gated ObstacleKind = "Gated"
	// Deleted: the pod is being deleted, and no scheduler places it any more.
	Deleted ObstacleKind = "Deleted"
	// NoClaim: the claim Name does not exist.
	NoClaim ObstacleKind = "NoClaim"
	// NoTemplate: the template Name does not exist.
	NoTemplate ObstacleKind = "NoTemplate"
	// Leaving: the claim Name is being deleted.
	Leaving ObstacleKind = "Leaving"
	// NotReservable: the claim Name is reserved for as many pods as it may be.
	NotReservable ObstacleKind = "NotReservable"
	// NotShareable: the claim Name is in use by another pod, and has a device
	// that maps resources of its node, which pods cannot share (KEP-5517).
	NotShareable ObstacleKind = "NotShareable"
	// NotJoinable: the claim Name is in use by another pod, and has devices with taints
	// that it does not tolerate, see Tainted.
	NotJoinable ObstacleKind = "NotJoinable"
	// NotReady: the claim Name has devices that are not ready yet, or that failed while
	// another pod uses the claim, see Binding.
	NotReady ObstacleKind = "NotReady"
	// BadInput: a claim or class can never be allocated as it is, see Input.
	BadInput ObstacleKind = "BadInput"
	// OverQuota: the claim of the entry, which is to be made from the template Name, is
	// refused by a ResourceQuota, see Detail.
	OverQuota ObstacleKind = "OverQuota"
	// NotAllocated: the pod has a node, and the claim Name is not allocated.
	NotAllocated ObstacleKind = "NotAllocated"
	// AllocatedElsewhere: the pod has a node, where the devices of the claim Name cannot be
	// used.
	AllocatedElsewhere ObstacleKind = "AllocatedElsewhere"
	// NotServedThere: the pod has a node, which does not offer the extended resource
	// Name itself, and there is no claim with the devices that serve it.
	NotServedThere ObstacleKind = "NotServedThere"
)

// Obstacle is what a pod waits for before any node is looked at, or, see
// [World.Stranded], on the node that it has.
type Obstacle struct {
	Kind ObstacleKind
	// Entry is the entry in the pod's spec.resourceClaims.
	Entry string
	Name  string
	Input *alloc.InputError
	// Detail is what an API server says.
	Detail  string
	Tainted []claim.Tainted
	Binding claim.Binding
}

// Claims returns the claims of a pod that exist or can be made, in the order of
// spec.resourceClaims and then that for its extended resources, and what is missing.
func (w *World) Claims(pod *v1.Pod) ([]Claim, *Obstacle) {
	var claims []Claim
	var missing *Obstacle
	for i := range pod.Spec.ResourceClaims {
		claim, obstacle := w.claimOf(pod, &pod.Spec.ResourceClaims[i])
		if claim != nil && claim.Object.DeletionTimestamp != nil {
			obstacle = &Obstacle{Kind: Leaving, Entry: claim.Name, Name: claim.Object.Name}
		}
		if obstacle != nil && missing == nil {
			missing = obstacle
		}
		if claim != nil {
			claims = append(claims, *claim)
		}
	}
	if special := w.specialOf(pod); special != nil {
		claims = append(claims, Claim{Object: special, Special: true})
	}
	return claims, missing
}

// claimOf finds or makes the claim of one entry. It is nil without an obstacle
// where the pod needs none.
func (w *World) claimOf(pod *v1.Pod, entry *v1.PodResourceClaim) (*Claim, *Obstacle) {
	if entry.ResourceClaimName != nil {
		name := *entry.ResourceClaimName
		object := w.Claim(pod.Namespace, name)
		if object == nil {
			return nil, &Obstacle{Kind: NoClaim, Entry: entry.Name, Name: name}
		}
		if !claim.ReservedFor(object, pod) && len(object.Status.ReservedFor) >= resourceapi.ResourceClaimReservedForMaxSize {
			return &Claim{Name: entry.Name, Object: object}, &Obstacle{Kind: NotReservable, Entry: entry.Name, Name: name}
		}
		return &Claim{Name: entry.Name, Object: object}, nil
	}
	if entry.ResourceClaimTemplateName == nil {
		return nil, &Obstacle{Kind: NoClaim, Entry: entry.Name}
	}
	template := *entry.ResourceClaimTemplateName
	object, needless := w.generated(pod, entry.Name)
	switch {
	case needless:
		return nil, nil
	case object != nil:
		return &Claim{Name: entry.Name, Template: template, Object: object}, nil
	}
	from := w.cluster.Template(pod.Namespace, template)
	if from == nil {
		return nil, &Obstacle{Kind: NoTemplate, Entry: entry.Name, Name: template}
	}
	return &Claim{Name: entry.Name, Template: template, Object: fromTemplate(pod, entry.Name, from), New: true}, nil
}

// generated returns the claim that was made for an entry, by the pod's status or,
// where that is not known, by the claim's annotation and owner. needless says that
// none is to be made.
func (w *World) generated(pod *v1.Pod, entry string) (rc *resourceapi.ResourceClaim, needless bool) {
	for _, s := range pod.Status.ResourceClaimStatuses {
		if s.Name == entry {
			if s.ResourceClaimName == nil {
				return nil, true
			}
			return w.Claim(pod.Namespace, *s.ResourceClaimName), false
		}
	}
	return w.firstClaim(func(c *resourceapi.ResourceClaim) bool {
		return c.Namespace == pod.Namespace && c.Annotations[resourceapi.PodResourceClaimAnnotation] == entry && claim.Owns(pod, c)
	}), false
}

// fromTemplate makes the claim that the controller would make. Its name is the
// start of the generated one's.
func fromTemplate(pod *v1.Pod, entry string, from *resourceapi.ResourceClaimTemplate) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name + "-" + entry, Labels: from.Spec.Labels,
			Annotations:     map[string]string{resourceapi.PodResourceClaimAnnotation: entry},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true)}},
		},
		Spec: from.Spec.Spec,
	}
}
