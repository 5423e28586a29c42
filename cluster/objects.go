// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kerf.dev/kerf/api/compound/v1alpha1"
)

// Objects are lists of API objects by kind. The names in JSON are those of a dump file.
type Objects struct {
	Namespaces             []*v1.Namespace                      `json:"namespaces,omitempty"`
	Nodes                  []*v1.Node                           `json:"nodes,omitempty"`
	DeviceClasses          []*resourceapi.DeviceClass           `json:"deviceClasses,omitempty"`
	ResourceSlices         []*resourceapi.ResourceSlice         `json:"resourceSlices,omitempty"`
	DeviceTaintRules       []*resourceapi.DeviceTaintRule       `json:"deviceTaintRules,omitempty"`
	ResourceQuotas         []*v1.ResourceQuota                  `json:"resourceQuotas,omitempty"`
	ResourceClaimTemplates []*resourceapi.ResourceClaimTemplate `json:"resourceClaimTemplates,omitempty"`
	ResourceClaims         []*resourceapi.ResourceClaim         `json:"resourceClaims,omitempty"`
	Pods                   []*v1.Pod                            `json:"pods,omitempty"`
	// CompoundPolicies decide what is published, and nothing about what is allocated.
	CompoundPolicies []*v1alpha1.CompoundPolicy `json:"compoundPolicies,omitempty"`
}

// Add adds an object to the list of its kind. It reports false for kinds that decide
// nothing about devices.
func (o *Objects) Add(object any) bool {
	switch object := object.(type) {
	case *v1.Namespace:
		o.Namespaces = append(o.Namespaces, object)
	case *v1.Node:
		o.Nodes = append(o.Nodes, object)
	case *v1.Pod:
		o.Pods = append(o.Pods, object)
	case *resourceapi.DeviceClass:
		o.DeviceClasses = append(o.DeviceClasses, object)
	case *resourceapi.ResourceSlice:
		o.ResourceSlices = append(o.ResourceSlices, object)
	case *resourceapi.DeviceTaintRule:
		o.DeviceTaintRules = append(o.DeviceTaintRules, object)
	case *v1.ResourceQuota:
		o.ResourceQuotas = append(o.ResourceQuotas, object)
	case *resourceapi.ResourceClaimTemplate:
		o.ResourceClaimTemplates = append(o.ResourceClaimTemplates, object)
	case *resourceapi.ResourceClaim:
		o.ResourceClaims = append(o.ResourceClaims, object)
	case *v1alpha1.CompoundPolicy:
		o.CompoundPolicies = append(o.CompoundPolicies, object)
	default:
		return false
	}
	return true
}

// Object is one of them.
type Object interface {
	metav1.Object
	runtime.Object
}

// All yields the objects, kind by kind.
func (o *Objects) All(yield func(Object) bool) {
	_ = each(o.Namespaces, yield) && each(o.Nodes, yield) && each(o.DeviceClasses, yield) && each(o.ResourceSlices, yield) &&
		each(o.DeviceTaintRules, yield) && each(o.ResourceQuotas, yield) && each(o.ResourceClaimTemplates, yield) &&
		each(o.ResourceClaims, yield) && each(o.Pods, yield) && each(o.CompoundPolicies, yield)
}

func each[T Object](objects []T, yield func(Object) bool) bool {
	for _, object := range objects {
		if !yield(object) {
			return false
		}
	}
	return true
}

// KindOf is the kind of an object, which those of lists do not say of themselves.
func KindOf(object Object) string { return reflect.TypeOf(object).Elem().Name() }

// Merge adds all objects of others.
func (o *Objects) Merge(others *Objects) {
	o.Namespaces = append(o.Namespaces, others.Namespaces...)
	o.Nodes = append(o.Nodes, others.Nodes...)
	o.DeviceClasses = append(o.DeviceClasses, others.DeviceClasses...)
	o.ResourceSlices = append(o.ResourceSlices, others.ResourceSlices...)
	o.DeviceTaintRules = append(o.DeviceTaintRules, others.DeviceTaintRules...)
	o.ResourceQuotas = append(o.ResourceQuotas, others.ResourceQuotas...)
	o.ResourceClaimTemplates = append(o.ResourceClaimTemplates, others.ResourceClaimTemplates...)
	o.ResourceClaims = append(o.ResourceClaims, others.ResourceClaims...)
	o.Pods = append(o.Pods, others.Pods...)
	o.CompoundPolicies = append(o.CompoundPolicies, others.CompoundPolicies...)
}

// Sort orders each list by namespace and name.
func (o *Objects) Sort() {
	sortByName(o.Namespaces)
	sortByName(o.Nodes)
	sortByName(o.DeviceClasses)
	sortByName(o.ResourceSlices)
	sortByName(o.DeviceTaintRules)
	sortByName(o.ResourceQuotas)
	sortByName(o.ResourceClaimTemplates)
	sortByName(o.ResourceClaims)
	sortByName(o.Pods)
	sortByName(o.CompoundPolicies)
}

func sortByName[T metav1.Object](objects []T) {
	slices.SortStableFunc(objects, func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
}
