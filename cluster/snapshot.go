// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kerf.dev/kerf/inventory"
)

// Snapshot is a cluster at one moment: objects that can be looked up. Of several objects
// with one name, as a file may have, the first counts. Make one with [New].
type Snapshot struct {
	Objects

	nodes     index[*v1.Node]
	pods      index[*v1.Pod]
	classes   index[*resourceapi.DeviceClass]
	templates index[*resourceapi.ResourceClaimTemplate]
	claims    index[*resourceapi.ResourceClaim]
}

// New returns the cluster of some objects. The lists are copied, the objects are not.
func New(objects *Objects) *Snapshot {
	s := &Snapshot{}
	s.Merge(objects)
	s.Sort()
	s.nodes, s.pods, s.classes = indexOf(s.Nodes), indexOf(s.Pods), indexOf(s.DeviceClasses)
	s.templates, s.claims = indexOf(s.ResourceClaimTemplates), indexOf(s.ResourceClaims)
	return s
}

// Node returns the node of that name, nil where there is none.
func (s *Snapshot) Node(name string) *v1.Node { return s.nodes.named("", name) }

// Pod returns the pod of that name, nil where there is none.
func (s *Snapshot) Pod(namespace, name string) *v1.Pod { return s.pods.named(namespace, name) }

// Class returns the device class of that name, nil where there is none. It is what
// alloc calls Classes.
func (s *Snapshot) Class(name string) *resourceapi.DeviceClass { return s.classes.named("", name) }

// Template returns the claim template of that name, nil where there is none.
func (s *Snapshot) Template(namespace, name string) *resourceapi.ResourceClaimTemplate {
	return s.templates.named(namespace, name)
}

// Claim returns the claim of that name, nil where there is none.
func (s *Snapshot) Claim(namespace, name string) *resourceapi.ResourceClaim {
	return s.claims.named(namespace, name)
}

// Inventory says what devices there are and which claims hold them. Claims are known by
// namespace/name: those of manifests have no UID yet.
func (s *Snapshot) Inventory() *inventory.Inventory {
	inv := inventory.New()
	for _, slice := range s.ResourceSlices {
		inv.SetSlice(slice)
	}
	for _, rule := range s.DeviceTaintRules {
		inv.SetTaintRule(rule)
	}
	for _, claim := range s.ResourceClaims {
		inv.SetHolds(claim.Namespace+"/"+claim.Name, inventory.HoldsOf(claim))
	}
	return inv
}

// index has objects by namespace and name.
type index[T metav1.Object] map[types.NamespacedName]T

func indexOf[T metav1.Object](objects []T) index[T] {
	found := make(index[T], len(objects))
	for _, o := range objects {
		key := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
		if _, twice := found[key]; !twice {
			found[key] = o
		}
	}
	return found
}

func (i index[T]) named(namespace, name string) T {
	return i[types.NamespacedName{Namespace: namespace, Name: name}]
}
